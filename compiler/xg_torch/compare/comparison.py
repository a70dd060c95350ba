"""Find the first edge, forward or backward, where other code leaves the diagram's numbers.

Forward edges are looked at in the order of their code, gradients from the loss backwards. Nothing
is said where all results and all gradients of parameters agree: an edge between that seems to
differ is then one that their code does not have.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from xg.cli.input_arrays import Published, expected, names_for, size_numbers
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.terminal import counted
from xg.driver import Program
from xg.frontend.project import Project
from xg_runtime import rename, weights
from xg_runtime.errors import InputError, XgRuntimeError
from xg_runtime.module import Array, Arrays
from xg_runtime.names import Names
from xg_runtime.run import fit, spread_params
from xg_torch.compare.causes import (
    OtherWeights,
    edge_cause,
    forward_cause,
    param_cause,
    steps_between,
)
from xg_torch.compare.flat_program import (
    FlatEdge,
    FlatProgram,
    GivenMask,
    dropping_by,
    flat_run,
    in_shape,
    masks_of,
    off,
)
from xg_torch.compare.foreign_run import (
    Event,
    ForeignRun,
    HookedRun,
    MatchedEdge,
    Matcher,
    Matches,
    Owners,
    WholeArray,
    all_inputs,
    at_all_sizes,
    called_with,
    compared,
    config_of,
    cotangents_of,
    failure,
    parameters,
    results_of,
)

if TYPE_CHECKING:
    from torch import nn


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
    """Return whether ranks hold terms of a gradient, and a parameter that it reaches agrees."""
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
        f"{counted(found.forward, 'forward tensor')}, {counted(found.backward, 'backward tensor')} "
        f"and the gradients of {counted(found.gradients, 'parameter')}"
    )
    if found.first is None:
        yield f"{name} and the diagram agree: {counts}, within {found.tolerance:.0e}"
    else:
        yield f"{name} differs from the diagram (compared {counts})"
        yield from _difference(found.first, found.on)
    if found.unmatched:
        yield f"without an edge in the diagram: {', '.join(found.unmatched)}"


def _difference(first: FirstDifference, on: str | None) -> Iterator[str]:
    error = f"relative error {first.error:.1e}" + (f" {on}" if on else "")
    yield f"first {first.direction} difference: {first.edge}, {error}"
    yield f"  compared with {first.theirs}"
    if first.cause is not None:
        at = f" at {first.at}" if first.at and first.at != first.edge else ""
        yield f"  likely cause{at}: {first.cause}"
        yield "  the diagram with this error reproduces your numbers"
    elif first.between:
        yield f"  the cause is in: {', '.join(first.between)}"


# Code that others wrote, run beside a diagram on the same weights and inputs.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false


TRIES: Final = 2  # of one input, to see whether their code draws numbers
STATISTICS: Final = ("running_mean", "running_var")  # of batch norms


@dataclass(frozen=True)
class Counterpart:
    """A module and the diagram at its sizes, with its weights under the diagram's names.

    `spelled` are the names that a checkpoint of the module would have, by the module's own.
    """

    module: nn.Module
    program: Program
    params: Arrays
    names: Names | None
    spelled: Mapping[str, str]
    others: OtherWeights

    @classmethod
    def of(
        cls, project: Project, options: Namespace, module: nn.Module, given: Arrays, *, draw: bool
    ) -> Counterpart:
        """Give the module weights that hide nothing, and read them; raises InputError."""
        module.double().eval()
        before = _arrays(module)
        if draw:
            _draw(module, before)
        tensors = _arrays(module)
        held, spelled = _read_weights(project, options, module, tensors, given)
        program = at_all_sizes(project, options, held, given)
        wanted = expected(program.params)
        params = fit(held.params, wanted, dtype="float64", source="the module")
        plain = cls(module, program, params, held.names, spelled, OtherWeights({}))
        first = plain.ours(before) if draw else {}
        return replace(plain, others=OtherWeights(plain.mistaken(first, tensors)))

    def ours(self, tensors: Arrays) -> Arrays:
        """Tensors of the module, or gradients, as the diagram's parameters."""
        if self.names is None:
            return {path: tensors[path] for path in self.params}
        shapes = {path: array.shape for path, array in self.params.items()}
        published = {self.spelled[name]: array for name, array in tensors.items()}
        for copy_, original in self.names.tied.items():
            if original in published and self._is_tied(copy_):
                published.pop(copy_, None)
        held = weights.Weights("the module", published)
        block = self.program.graphs.main.block
        return rename.to_diagram(self.names, held, shapes, size_numbers(self.program), block)

    def _is_tied(self, name: str) -> bool:
        """Whether the diagram has no parameter of its own for this tensor."""
        assert self.names is not None
        lines = {line.tensor: line for line in self.names.lines}
        return name not in lines or lines[name].params[0] not in self.params

    def owners(self) -> dict[str, list[list[str]]]:
        """The parameters that each tensor of the module holds."""
        if self.names is None:
            return {path: [[path]] for path in self.params}
        block, params = self.program.graphs.main.block, list(self.params)
        spelled, sizes = list(self.spelled.values()), size_numbers(self.program)
        found = rename.owners(self.names, spelled, params, block, sizes)
        return {name: found[own] for name, own in self.spelled.items() if own in found}

    def mistaken(self, first: Arrays, tensors: Arrays) -> dict[str, list[tuple[str, Array]]]:
        """By path, arrays that may be taken for a parameter: its first numbers, copies, others."""
        found: dict[str, list[tuple[str, Array]]] = {path: [] for path in self.params}
        for path, array in first.items():
            if not np.array_equal(array, self.params[path]):
                name = path.rpartition(".")[2]
                words = f"{name} is as it was when the model was built: a stale copy"
                found[path].append((words, array))
        for name, parts in self.owners().items():
            path = parts[0][0]
            alone = len(parts) == len(parts[0]) == 1
            fits = alone and tensors[name].shape == self.params[path].shape
            if fits and not np.array_equal(tensors[name], self.params[path]):
                found[path].append((f"{name} is used, which is not tied", tensors[name]))
        for path, array in self.params.items():
            folder, _, name = path.rpartition(".")
            for other, its in self.params.items():
                beside, _, its_name = other.rpartition(".")
                if other != path and beside == folder and its.shape == array.shape:
                    found[path].append((f"{its_name} is used in place of {name}", its))
        return found


def compare_module(
    counterpart: Counterpart,
    given: Arrays,
    tolerance: float,
    seed: int = 0,
    dropout: int | None = None,
) -> ModuleAgreement:
    """Run both, forward and backward, and compare; raises InputError.

    With a seed of `dropout` both drop: the module, in training mode, by the diagram's masks.
    """
    inputs = all_inputs(counterpart.program, given, seed)
    called = called_with(counterpart.module, counterpart.names, inputs)
    graphs, params = counterpart.program.graphs, counterpart.params
    masks: list[GivenMask] = []
    if dropout is not None:
        masks = masks_of(flat_run(graphs, params, inputs, {}, dropout))
        counterpart.module.train()
    runs = [_run(counterpart.module, called, number, masks) for number in range(TRIES)]
    drawn = _drawn(runs, tolerance)
    if drawn is not None:
        return _random(counterpart, inputs, runs[0].found, drawn)
    results = results_of(counterpart.program, runs[0].found.outputs)
    d_outputs = cotangents_of(counterpart.program, list(results), seed)
    cotangents = {
        place: _back(d_outputs[name], runs[0].found.outputs[place][1].shape)
        for name, place in results.items()
        if name in d_outputs
    }
    run = runs[0].backward(cotangents)
    flat = flat_run(graphs, params, inputs, d_outputs, dropout)
    arrays = {
        name: _in_ours(run.outputs[place][1], flat.outputs[name].array.shape)
        for name, place in results.items()
    }
    owners, gradients = counterpart.owners(), _gradients(counterpart, run)
    others = counterpart.others
    return CodeComparison(flat, run, owners, arrays, gradients, others, tolerance).judge()


# ---- weights -------------------------------------------------------------------------------------


def _arrays(module: nn.Module) -> Arrays:
    """Parameters, and the running statistics of batch norms, which are frozen ones here."""
    running = {n: b for n, b in module.named_buffers() if n.endswith(STATISTICS)}
    tensors = parameters(module) | running
    return {name: np.array(tensor.detach().cpu().numpy()) for name, tensor in tensors.items()}


def _draw(module: nn.Module, before: Arrays) -> None:
    """Move every parameter off what it starts as: zeros and ones would hide errors."""
    import torch

    moved = spread_params(before, 0)
    with torch.no_grad():
        for name, param in module.named_parameters():
            param.copy_(torch.from_numpy(moved[name]))


def _read_weights(
    project: Project, options: Namespace, module: nn.Module, tensors: Arrays, given: Arrays
) -> tuple[Published, dict[str, str]]:
    """The module's weights read for the diagram, and its names as a checkpoint has them."""
    told = config_of(module)
    names = names_for(options, project)
    tied = set(names.tied) if names is not None else set[str]()
    ways = [dict(zip(tensors, tensors, strict=True))]
    if hasattr(module, "save_pretrained"):
        ways.append({})  # filled below, where the first does not fit
    first: XgRuntimeError | None = None
    for way in ways:
        spelled = way or _saved_names(module)
        for dropped in (tied, set[str]()):
            held = {own: tensors[name] for name, own in spelled.items() if own not in dropped}
            checkpoint = weights.Weights("the module", held, own_config=told)
            try:
                return Published.of(project, options, checkpoint, given), spelled
            except InputError as error:
                first = first or error
    assert first is not None
    raise first


def _saved_names(module: nn.Module) -> dict[str, str]:
    """The name of each parameter in what transformers saves: a number in it for a moment tells."""
    import torch

    saving: Any = module
    numbers = {name: n for n, name in enumerate(parameters(module))}
    kept = {name: param.detach().clone() for name, param in module.named_parameters()}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        try:
            for name, param in module.named_parameters():
                param.fill_(float(numbers[name]))
            saving.save_pretrained(folder)
        finally:
            for name, param in module.named_parameters():
                param.copy_(kept[name])
        saved = weights.read(Path(folder)).tensors
    by_number = {int(array.flat[0]): name for name, array in saved.items()}
    return {name: by_number.get(n, name) for name, n in numbers.items()}


# ---- runs --------------------------------------------------------------------------


def _run(
    module: nn.Module,
    called: tuple[dict[str, Any], int],
    seed: int,
    masks: Sequence[GivenMask] = (),
) -> HookedRun:
    import torch

    torch.manual_seed(seed)
    try:
        with dropping_by(masks) if masks else nullcontext():
            return HookedRun(module, *called)
    except InputError:  # of masks that do not fit
        raise
    except Exception as error:
        raise failure("the module", "fails on the diagram's inputs", error) from error


def _gradients(counterpart: Counterpart, run: ForeignRun) -> dict[str, Array | None]:
    """Their gradients of the diagram's parameters; None where none arrived."""
    zeros = _arrays(counterpart.module)
    arrays = {name: np.zeros_like(array) for name, array in zeros.items()}
    arrays |= {name: each for name, each in run.gradients.items() if each is not None}
    ours = counterpart.ours(arrays)
    missing = {name for name, gradient in run.gradients.items() if gradient is None}
    owners = counterpart.owners()

    def of(names: Iterable[str]) -> set[str]:
        return {path for name in names for part in owners.get(name, ()) for path in part}

    without, held = of(missing), of(run.gradients.keys() - missing)
    return {path: None if path in without - held else array for path, array in ours.items()}


def _drawn(runs: Sequence[HookedRun], tolerance: float) -> Event | None:
    """The first tensor that differs from run to run."""
    first, second = (run.found for run in runs)
    ends = [Event("", "output", array, edge="its result") for _, array in first.outputs]
    again = [array for _, array in second.outputs] + [each.array for each in second.events]
    both = zip([*first.events, *ends], again[len(ends) :] + again[: len(ends)], strict=True)
    for event, array in both:
        if event.array.shape != array.shape or off(event.array, array) > tolerance:
            return event
    return None


def _random(
    counterpart: Counterpart, inputs: Arrays, run: ForeignRun, event: Event
) -> ModuleAgreement:
    """The result for code that draws numbers, at the edge that shows it first."""
    flat = flat_run(counterpart.program.graphs, counterpart.params, inputs, {})
    only = replace(run, events=[event])
    found = Matcher(flat, only, counterpart.owners(), TOLERANCE).match().found
    name = found[0].edge.full_name if found else str(event)
    edge = str(found[0].edge) if found else str(event)
    cause = "it is random: two runs on the same inputs differ, as with dropout left on"
    first = FirstDifference("forward", edge, name, str(event), float("inf"), cause)
    return ModuleAgreement(len(run.events), 0, 0, float("inf"), first, TOLERANCE)


def _in_ours(array: Array, shape: tuple[int, ...]) -> Array:
    found = in_shape(array, shape)
    assert found is not None, "results are matched by shape"
    return found


def _back(array: Array, shape: tuple[int, ...]) -> Array:
    """A cotangent in the shape of their result."""
    found = in_shape(array, shape)
    return array.reshape(shape) if found is None else np.ascontiguousarray(found)
