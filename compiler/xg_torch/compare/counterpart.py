"""Code that others wrote, run beside a diagram on the same weights and inputs."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xg.cli.input_arrays import Published, expected, names_for, size_numbers
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.driver import Program
from xg.frontend.project import Project
from xg_runtime import random_inputs, rename, weights
from xg_runtime.errors import InputError, XgRuntimeError
from xg_runtime.expect import fit
from xg_runtime.module import Array, Arrays
from xg_runtime.names import Names
from xg_torch.compare.causes import OtherWeights
from xg_torch.compare.comparison import (
    TOLERANCE,
    CodeComparison,
    FirstDifference,
    ModuleAgreement,
)
from xg_torch.compare.flat_program import GivenMask, dropping_by, flat_run, in_shape, masks_of, off
from xg_torch.compare.foreign_module import (
    HookedRun,
    all_inputs,
    at_all_sizes,
    called_with,
    config_of,
    cotangents_of,
    failure,
    parameters,
    results_of,
)
from xg_torch.compare.foreign_run import Event, ForeignRun, Matcher

if TYPE_CHECKING:
    from torch import nn

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
        held, spelled = _published(project, options, module, tensors, given)
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

    moved = random_inputs.spread_params(before, 0)
    with torch.no_grad():
        for name, param in module.named_parameters():
            param.copy_(torch.from_numpy(moved[name]))


def _published(
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
