"""Code that others wrote, run beside a diagram on the same weights and inputs."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from xg.cli.foreign_module import failure
from xg.cli.input_arrays import expected, expected_inputs
from xg.cli.published import Published, at_sizes_of, names_for, size_numbers
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import Program
from xg.frontend.project import Project
from xg.frontend.typed import declared_dims
from xg.verify.counterpart.agreeing import in_shape, off
from xg.verify.counterpart.comparison import (
    TOLERANCE,
    CodeComparison,
    FirstDifference,
    ModuleAgreement,
)
from xg.verify.counterpart.flat_program import flat_run
from xg.verify.counterpart.foreign_run import Event, ForeignRun
from xg.verify.counterpart.matching import Matcher
from xg.verify.counterpart.torch_hooks import HookedRun, parameters
from xg.verify.counterpart.variants import OtherWeights
from xg.verify.proof_sizes import verification_sizes
from xg_runtime import random_inputs, rename, weights
from xg_runtime.errors import InputError, XgRuntimeError
from xg_runtime.expect import fit
from xg_runtime.names import Names

if TYPE_CHECKING:
    from torch import nn

Array = NDArray[Any]
Arrays = dict[str, Array]
TRIES: Final = 2  # of one input, to see whether their code draws numbers


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
        program = _at_all_sizes(project, options, held, given)
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
        found = rename.owners(self.names, list(self.spelled.values()), params, block)
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
    counterpart: Counterpart, given: Arrays, tolerance: float, seed: int = 0
) -> ModuleAgreement:
    """Run both, forward and backward, and compare; raises InputError."""
    inputs = _inputs(counterpart.program, given, seed)
    called = _called(counterpart, inputs)
    runs = [_run(counterpart.module, called, number) for number in range(TRIES)]
    drawn = _drawn(runs, tolerance)
    if drawn is not None:
        return _random(counterpart, inputs, runs[0].found, drawn)
    results = _results(counterpart.program, runs[0].found.outputs)
    d_outputs = _cotangents(counterpart.program, list(results), seed)
    cotangents = {
        place: _back(d_outputs[name], runs[0].found.outputs[place][1].shape)
        for name, place in results.items()
        if name in d_outputs
    }
    run = runs[0].backward(cotangents)
    flat = flat_run(counterpart.program.graphs, counterpart.params, inputs, d_outputs)
    arrays = {
        name: _in_ours(run.outputs[place][1], flat.outputs[name].array.shape)
        for name, place in results.items()
    }
    owners, gradients = counterpart.owners(), _gradients(counterpart, run)
    others = counterpart.others
    return CodeComparison(flat, run, owners, arrays, gradients, others, tolerance).judge()


# ---- weights -------------------------------------------------------------------------------------


def _arrays(module: nn.Module) -> Arrays:
    return {name: np.array(p.detach().cpu().numpy()) for name, p in parameters(module).items()}


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
    told = _config(module)
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


def _config(module: nn.Module) -> dict[str, Any] | None:
    """The sizes and words that a module keeps as its `config`, as config.json would have them."""
    config: Any = getattr(module, "config", None)
    if isinstance(config, Mapping):
        return dict(config)
    to_dict = getattr(config, "to_dict", None)
    told: Any = to_dict() if to_dict is not None else getattr(config, "__dict__", None)
    return dict(told) if told else None


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


def _at_all_sizes(project: Project, options: Namespace, held: Published, given: Arrays) -> Program:
    """The program with a number for every size: of arrays, of the user, and else one that is free.

    Even ones where the file allows them, as ranks cut them; else those that a proof takes.
    """
    graphs = held.program.on_one_device.graphs
    arrays = {**given, **held.params}
    proof = verification_sizes(graphs, graphs.all_numbers)
    open_ = [name for name in proof if name not in size_numbers(held.program)]
    taken = set(size_numbers(held.program).values())
    wished = (n for n in range(4, 100, 2) if n not in taken)
    for sizes in (dict(zip(open_, wished, strict=False)), proof):
        own = {name: n for name, n in sizes.items() if name in declared_dims(project)}
        try:
            return at_sizes_of(
                arrays, project, options.block, {**own, **held.settings}
            ).on_one_device
        except DiagnosticError:
            if sizes is proof:
                raise
    raise AssertionError("the last sizes compile or raise")


# ---- inputs and results --------------------------------------------------------------------------


def _inputs(program: Program, given: Arrays, seed: int) -> Arrays:
    """The inputs of the diagram: those given, and drawn ones in place of the others."""
    expectations = expected_inputs(program)
    missing = {name: want for name, want in expectations.items() if name not in given}
    drawn = random_inputs.random_inputs(missing, {}, seed)
    arrays = {**drawn, **{name: given[name] for name in given if name in expectations}}
    return fit(arrays, expectations, dtype="float64", source="the inputs")


def _called(counterpart: Counterpart, inputs: Arrays) -> tuple[dict[str, Any], int]:
    """The tensors that the module is called with, by name, and how many of them by place."""
    import torch

    tensors = {name: torch.from_numpy(array.copy()) for name, array in inputs.items()}
    for tensor in tensors.values():
        if tensor.is_floating_point():
            tensor.requires_grad_()
    kinds = signature(counterpart.module.forward).parameters
    table = counterpart.names.inputs if counterpart.names else {}
    wanted = {name: ours for name, ours in table.items() if ours in tensors}
    wanted |= {name: name for name in kinds if name in tensors}
    if wanted:
        return {name: tensors[ours] for name, ours in wanted.items()}, 0
    placed = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in kinds.values() if p.kind in placed]
    required = [p for p in places if p.default is Parameter.empty]
    several = any(p.kind is Parameter.VAR_POSITIONAL for p in kinds.values())
    count = len(tensors) if several else min(len(tensors), len(places))
    if len(required) > len(tensors):
        raise InputError(
            f"the module's forward needs {', '.join(p.name for p in required)}, and the diagram "
            f"has {', '.join(tensors)}: say which is which under [inputs] in the file of names"
        )
    return dict(list(tensors.items())[:count]), count


def _run(module: nn.Module, called: tuple[dict[str, Any], int], seed: int) -> HookedRun:
    import torch

    torch.manual_seed(seed)
    try:
        return HookedRun(module, *called)
    except Exception as error:
        raise failure("the module", "fails on the diagram's inputs", error) from error


def _shapes(program: Program) -> dict[str, tuple[int, ...]]:
    """The shapes of the diagram's outputs."""
    sizes = size_numbers(program)
    return {
        name: tuple(n if isinstance(n, int) else sizes[n] for n in spec.shape)
        for name, spec in program.outputs.items()
    }


def _results(program: Program, outputs: Sequence[tuple[str, Array]]) -> dict[str, int]:
    """The place of each of the diagram's outputs among the module's results, by name or shape."""
    shapes = _shapes(program)
    found: dict[str, int] = {}
    for by_name in (True, False):
        for name, shape in shapes.items():
            for place, (its, array) in enumerate(outputs):
                is_free = name not in found and place not in found.values()
                if is_free and (its == name or not by_name) and in_shape(array, shape) is not None:
                    found[name] = place
    if not found:
        ours = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        theirs = ", ".join(str(list(array.shape)) for _, array in outputs) or "nothing"
        raise InputError(f"the module gives {theirs}, and the diagram {ours}")
    return found


def _cotangents(program: Program, names: list[str], seed: int) -> Arrays:
    """1 for a loss, else random numbers for every result that both have."""
    outputs, shapes = program.outputs, _shapes(program)
    floats = [name for name in names if outputs[name].dtype == "float"]
    losses = [name for name in floats if not shapes[name]]
    if losses:
        return {name: np.ones(()) for name in losses}
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shapes[name]) for name in floats}


def _gradients(counterpart: Counterpart, run: ForeignRun) -> dict[str, Array | None]:
    """Their gradients of the diagram's parameters; None where none arrived."""
    zeros = _arrays(counterpart.module)
    arrays = {
        name: np.zeros_like(zeros[name]) if gradient is None else gradient
        for name, gradient in run.gradients.items()
    }
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
