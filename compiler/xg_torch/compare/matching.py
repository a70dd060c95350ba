"""Which edge of the diagram a tensor of their code should be, by the parameters around it.

A module with parameters of its own reads an edge and makes one: the operand of the first step that
reads them, and the first result that depends on all. A module around others makes a result that
depends on all of theirs, or one that follows from it without further parameters. Numbers decide
only among these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.parameters import join
from xg_runtime.module import Array
from xg_torch.compare.agreeing import in_shape, off
from xg_torch.compare.flat_program import FlatEdge, FlatProgram, FlatStep
from xg_torch.compare.foreign_run import Event, ForeignRun
from xg_torch.compare.rank_arrays import WholeArray

FOLLOWING: Final = 12  # results that are looked at behind the first that depends on all
Owners = Mapping[str, Sequence[Sequence[str]]]  # by tensor: our parameters, parts of it in order


@dataclass(slots=True, eq=False)
class MatchedEdge:
    """A tensor of theirs as an edge of ours: in our shape, and how far off.

    `held` and `held_gradient` say which rank has which number, where their code ran on several.
    """

    event: Event
    edge: FlatEdge
    array: Array
    gradient: Array | None
    error: float
    held: WholeArray | None = None
    held_gradient: WholeArray | None = None

    @property
    def is_terms(self) -> bool:
        """Whether a module gave terms of a sum over ranks, which its caller takes."""
        return self.event.edge is None and self.held is not None and self.held.is_terms


@dataclass(slots=True)
class Matches:
    """All tensors that have an edge, in the order of their code, and how many have none."""

    found: list[MatchedEdge] = field(default_factory=list[MatchedEdge])
    without: list[Event] = field(default_factory=list[Event])

    def agreeing(self, tolerance: float) -> set[FlatEdge]:
        """The edges whose numbers are theirs."""
        return {match.edge for match in self.found if match.error <= tolerance}


@dataclass(frozen=True, slots=True)
class Matcher:
    """One run of ours, one of theirs, and what their parameters are called here."""

    flat: FlatProgram
    run: ForeignRun
    owners: Owners
    tolerance: float

    def match(self) -> Matches:
        """Every event with its edge."""
        matches = Matches()
        named = {edge.full_name: edge for edge in self.flat.edges if edge.name}
        named |= {f"d/{path}": edge for path, edge in self.flat.params.items()}
        for event in self.run.events:
            if event.edge is not None:
                ways = [(event, [named[event.edge]])] if event.edge in named else []
            else:
                ways = list(self._ways(event))
            best = [self._best(part, edges) for part, edges in ways]
            own = [match for match in best if match is not None]
            is_leaf = event.edge is not None or event.module in self.run.direct
            near = (m for m in own if is_leaf or m.error <= self.tolerance)
            matches.found += [match for match in near if not match.is_terms]
            if not own:
                matches.without.append(event)
        return matches

    def _ways(self, event: Event) -> Iterator[tuple[Event, list[FlatEdge]]]:
        """The event, or its parts where one tensor holds several parameters, with their edges."""
        mine = self._params_of(event.module)
        if not mine or any(tensor not in self.owners for tensor in mine):
            return
        columns = max(len(self.owners[tensor]) for tensor in mine)
        direct = event.module in self.run.direct
        if not direct or columns == 1:
            params = {p for tensor in mine for part in self.owners[tensor] for p in part}
            yield event, list(self._candidates(event, params))
            return
        parts = [{self.owners[tensor][i][0] for tensor in mine} for i in range(columns)]
        if event.kind == "input":
            yield event, list(self._candidates(event, parts[0]))
            return
        shapes = [self.flat.params[min(part, key=self._rank)].array.shape for part in parts]
        widths = [shape[-1] for shape in shapes]
        if event.array.shape[-1:] != (sum(widths),):
            return
        cuts = list(np.cumsum(widths)[:-1])
        arrays = np.split(event.array, cuts, -1)
        grads = [None] * columns if event.gradient is None else np.split(event.gradient, cuts, -1)
        for array, gradient, part in zip(arrays, grads, parts, strict=True):
            piece = Event(event.module, event.kind, array, gradient, event.call)
            yield piece, list(self._candidates(piece, part))

    def _rank(self, path: str) -> int:
        return -self.flat.params[path].array.ndim

    def _params_of(self, module: str) -> list[str]:
        """The tensors of a module: its own, else those of all modules in it."""
        own = self.run.direct.get(module)
        start = f"{module}." if module else ""
        names = own or [name for name in self.run.tied if name.startswith(start)]
        return list(dict.fromkeys(self.run.tied.get(name, name) for name in names))

    def _candidates(self, event: Event, params: set[str]) -> Iterator[FlatEdge]:
        """The edges that an event may be, for each place where the parameters are read.

        The place of its own call is the first.
        """
        uses = {
            param: [step for step in self.flat.steps if _reads(step, param)] for param in params
        }
        count = max(map(len, uses.values()), default=0)
        own = min(event.call, count - 1)
        for place in sorted(range(count), key=lambda place: place != own):
            steps = {p: each[min(place, len(each) - 1)] for p, each in uses.items() if each}
            if event.kind == "input":
                yield from _operand(self.flat.steps, steps)
            else:
                yield from self._results(steps)

    def _results(self, uses: Mapping[str, FlatStep]) -> Iterator[FlatEdge]:
        """The first result that depends on all of them, and what follows without parameters."""
        known: dict[FlatEdge, frozenset[str]] = {}
        wanted, count = frozenset(uses), 0
        for step in self.flat.steps:
            read = frozenset(param for param, use in uses.items() if use is step)
            others = {p for edge in step.inputs for p in edge.of} - wanted
            held = read.union(*(known.get(edge, frozenset()) for edge in step.inputs))
            if not held or (wanted == held and others):
                continue
            for edge in step.outputs[:1]:
                known[edge] = held
                if held == wanted and count < FOLLOWING:
                    count += 1
                    yield edge

    def _best(self, event: Event, edges: Sequence[FlatEdge]) -> MatchedEdge | None:
        """The match with the nearest numbers; where none are near the first, of its own call."""
        tried = [match for edge in edges if (match := compared(event, edge)) is not None]
        if not tried:
            return None
        best = min(tried, key=lambda match: match.error)
        return best if best.error <= self.tolerance else tried[0]


def compared(event: Event, edge: FlatEdge) -> MatchedEdge | None:
    """An event as an edge, in its shape; None where the shapes do not fit."""
    if event.ranks is not None:
        return _of_ranks(event, edge)
    array = in_shape(event.array, edge.array.shape)
    if array is None:
        return None
    gradient = None if event.gradient is None else in_shape(event.gradient, edge.array.shape)
    return MatchedEdge(event, edge, array, gradient, off(array, edge.array))


def _of_ranks(event: Event, edge: FlatEdge) -> MatchedEdge | None:
    assert event.ranks is not None
    held, back = event.ranks.like(edge.array), None
    if held is None:
        return None
    if event.rank_gradients is not None and edge.gradient is not None:
        back = event.rank_gradients.like(edge.gradient)
    error = off(held.array, edge.array)
    return MatchedEdge(event, edge, held.array, back and back.array, error, held, back)


def _reads(step: FlatStep, param: str) -> bool:
    """Whether a step brings a parameter, or what is made from it alone, together with the rest."""
    if not any(param in edge.of for edge in step.inputs):
        return False
    return not all(edge.of for edge in step.inputs)


def _operand(steps: Sequence[FlatStep], uses: Mapping[str, FlatStep]) -> Iterator[FlatEdge]:
    """The edge that the first of the uses reads besides parameters.

    Where the block around it has no other parameters it is that block's first input.
    """
    first = min(uses.values(), key=steps.index)
    record = first.record
    held = {join(record.path, str(value.name)) for value in record.graph.param_values()}
    if record.path and held <= uses.keys() and not record.calls:
        inside = [edge for step in steps if step.record is record for edge in step.inputs]
        entry = record.values[record.graph.inputs[0]]
        yield from [edge for edge in inside if edge.array is entry][:1]
        return
    yield from [edge for edge in first.inputs if not edge.of][:1]
