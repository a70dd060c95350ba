"""The first edge, forward or backward, where the numbers of other code leave those of the diagram.

Forward edges are looked at in the order of their code, gradients from the loss backwards. Nothing
is said where all results and all gradients of parameters agree: an edge between that seems to
differ is then one that their code does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg_runtime.module import Array
from xg_torch.compare.causes import (
    OtherWeights,
    edge_cause,
    forward_cause,
    param_cause,
    steps_between,
)
from xg_torch.compare.flat_program import FlatEdge, FlatProgram, off
from xg_torch.compare.foreign_run import (
    Event,
    ForeignRun,
    MatchedEdge,
    Matcher,
    Matches,
    Owners,
    WholeArray,
    compared,
)

TOLERANCE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first edge that differs: ours, theirs, how far off, and why.

    `at` is the edge of the error, which may lie before the first edge that their code shows; `step`
    is where the diagram makes the edge, and `ranks` are those whose numbers differ, of several.
    """

    direction: Literal["forward", "backward"]
    edge: str
    name: str
    theirs: str
    error: float
    cause: str | None = None
    at: str | None = None
    between: Sequence[str] = ()
    step: float = 0
    ranks: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class ModuleAgreement:
    """How many tensors were compared, and what differs first; `on` which ranks, of several."""

    forward: int
    backward: int
    gradients: int
    worst: float
    first: FirstDifference | None
    tolerance: float
    unmatched: Sequence[str] = ()
    on: str | None = None


@dataclass(frozen=True, slots=True)
class CodeComparison:
    """A run of the diagram and one of their code, on the same weights and inputs.

    `results` are their results by the names of ours; `gradients` theirs of our parameters. `held`
    says of these, where several ranks ran, which rank has which number; with `d/` before a path.
    """

    flat: FlatProgram
    run: ForeignRun
    owners: Owners
    results: Mapping[str, Array]
    gradients: Mapping[str, Array | None]
    others: OtherWeights
    tolerance: float = TOLERANCE
    held: Mapping[str, WholeArray] = field(default_factory=dict[str, WholeArray])
    explains: bool = True  # whether causes are looked for, which takes most of the time

    def judge(self) -> ModuleAgreement:
        """Compare everything."""
        matches = Matcher(self.flat, self.run, self.owners, self.tolerance).match()
        ends = [self._end(name, array) for name, array in self.results.items()]
        told = [match for match in matches.found if match.event.edge is not None]
        ends += told
        total = float(np.sqrt(sum(float((g**2).sum()) for g in self.flat.gradients.values())))
        worst = [match.error for match in ends]
        worst += [self._gradient_error(path, total) for path in self.gradients]
        worst += [self._edge_gradient_error(match, total) for match in told]
        first = None
        if not max(worst, default=0.0) <= self.tolerance:
            first = self._forward(matches, ends) or self._backward(matches, total)
        both = [(match.gradient, match.edge.gradient) for match in matches.found]
        backward = [a for a, b in both if a is not None and b is not None]
        return ModuleAgreement(
            len({*matches.found, *ends}),
            len(backward),
            len(self.gradients),
            max(worst, default=0.0),
            first,
            self.tolerance,
            tuple(dict.fromkeys(event.module for event in matches.without)),
        )

    def _end(self, name: str, array: Array) -> MatchedEdge:
        edge = self.flat.outputs[name]
        match = compared(Event("", "output", array, edge=f"their result {name}"), edge)
        assert match is not None, "results are matched by shape"
        return replace(match, held=self.held.get(name))

    def _gradient_error(self, path: str, total: float) -> float:
        theirs, ours = self.gradients[path], self.flat.params[path].gradient
        if ours is None:
            return 0.0
        return off(np.zeros_like(ours) if theirs is None else theirs, ours, total)

    def _edge_gradient_error(self, match: MatchedEdge, total: float) -> float:
        theirs, ours = match.gradient, match.edge.gradient
        if ours is None or (theirs is None and not self.run.is_whole):
            return 0.0
        return off(np.zeros_like(ours) if theirs is None else theirs, ours, total)

    def _forward(self, matches: Matches, ends: Sequence[MatchedEdge]) -> FirstDifference | None:
        if all(match.error <= self.tolerance for match in ends):
            return None
        agreed = matches.agreeing(self.tolerance) | set(self.flat.inputs.values())
        for match in sorted((*matches.found, *ends), key=_place):
            if not match.error <= self.tolerance:
                return self._edge_first(match, agreed)
        return None

    def _edge_first(self, match: MatchedEdge, agreed: AbstractSet[FlatEdge]) -> FirstDifference:
        edge, near, cause = match.edge, self.tolerance, None
        if self.explains:
            cause = forward_cause(edge, match.array, agreed, self.others, near)
        between = [str(step.outputs[0]) for step in steps_between(edge, agreed)[::-1]]
        ranks = match.held.wrong_ranks(edge.array, near) if match.held else ()
        return FirstDifference(
            "forward", str(edge), edge.full_name, str(match.event), match.error,
            cause and cause.words, cause and str(cause.edge), between, _place(match), ranks,
        )  # fmt: skip

    def _backward(self, matches: Matches, total: float) -> FirstDifference | None:
        """The first gradient that differs, from the loss backwards."""
        wrong: list[tuple[float, MatchedEdge | str]] = []
        right: set[str] = set()
        for match in matches.found:
            edge = match.edge
            error = self._edge_gradient_error(match, total)
            if error > self.tolerance >= match.error and edge.step is not None:
                wrong.append((edge.step.number, match))
        for path in self.gradients:
            if self._gradient_error(path, total) > self.tolerance:
                uses = [s.number for s in self.flat.steps if any(path in e.of for e in s.inputs)]
                wrong.append(((min(uses) if uses else 0) - 0.5, path))
            elif np.linalg.norm(self.flat.gradients.get(path, 0.0)) > self.tolerance * total:
                right.add(path)  # one that is always zero tells nothing, as that of b_K
        for step, each in sorted(wrong, key=lambda one: one[0], reverse=True):
            if isinstance(each, str):
                return self._param_difference(each, self._gradient_error(each, total), step)
            if not _is_summed_later(each, right):
                return self._edge_difference(each, self._edge_gradient_error(each, total), step)
        return None

    def _edge_difference(self, match: MatchedEdge, error: float, step: float) -> FirstDifference:
        edge, held, cause = match.edge, match.held_gradient, None
        if self.explains:
            cause = edge_cause(self.flat, edge, match.gradient, self.tolerance)
        name = f"d{edge.name} of line {edge.line}" + (f" in {edge.path}" if edge.path else "")
        theirs = f"the gradient of {match.event}"
        assert edge.gradient is not None
        return FirstDifference(
            "backward", name, f"d/{edge.full_name}", theirs, error, cause, step=step,
            ranks=held.wrong_ranks(edge.gradient, self.tolerance) if held else (),
        )  # fmt: skip

    def _param_difference(self, path: str, error: float, step: float) -> FirstDifference:
        param, held, cause = self.flat.params[path], self.held.get(f"d/{path}"), None
        if self.explains:
            cause = param_cause(self.flat, path, self.gradients[path], self.tolerance)
        owners = [tensor for tensor, parts in self.owners.items() for part in parts if path in part]
        theirs = f"the gradient of {owners[0]}" if owners else f"the gradient of {path}"
        assert param.gradient is not None
        return FirstDifference(
            "backward", f"d{path} of line {param.line}", f"d/{path}", theirs, error, cause,
            step=step, ranks=held.wrong_ranks(param.gradient, self.tolerance) if held else (),
        )  # fmt: skip


def _is_summed_later(match: MatchedEdge, right: AbstractSet[str]) -> bool:
    """Whether ranks have terms of a gradient, and what it goes on to has its sum."""
    held = match.held_gradient
    if held is None or not held.is_terms:
        return False
    seen: set[FlatEdge] = set()
    waiting = [match.edge]
    while waiting:
        edge = waiting.pop()
        if edge.of & right:
            return True
        if edge.step is not None and edge not in seen:
            seen.add(edge)
            waiting += edge.step.inputs
    return False


def _place(match: MatchedEdge) -> int:
    """When the diagram makes an edge; inputs are there before."""
    return match.edge.step.number if match.edge.step else -1


# A comparison with other code, as lines: what was compared, and the first difference.


def lines(found: ModuleAgreement, name: str) -> Iterator[str]:
    """The count of what was compared, and the verdict."""
    counts = (
        f"{found.forward} tensors forward, {found.backward} backward and the gradients of "
        f"{found.gradients} parameters"
    )
    if found.first is None:
        yield f"{name} and the diagram agree: {counts} within {found.tolerance:.0e}"
    else:
        yield f"{name} DIFFERS from the diagram, of {counts}"
        yield from _difference(found.first, found.on)
    if found.unmatched:
        yield f"without an edge in the diagram: {', '.join(found.unmatched)}"


def _difference(first: FirstDifference, on: str | None) -> Iterator[str]:
    where = f" {on}" if on else ""
    yield f"first {first.direction}: {first.edge}, off by {first.error:.1e} of its size{where}"
    yield f"  {first.theirs} should be that"
    if first.cause is not None:
        at = f" at {first.at}" if first.at and first.at != first.edge else ""
        yield f"  likely cause{at}: {first.cause}"
        yield "  the diagram gives the same numbers with that error"
    elif first.between:
        yield f"  the cause lies in: {', '.join(first.between)}"
