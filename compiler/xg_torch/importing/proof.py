"""Whether a file is the model: it checks, it compiles, and it computes the same numbers.

The exported program is run by torch on drawn inputs with moved parameters, the file by its own
NumPy code; outputs and the gradient of every parameter must agree. Without torch the file is
checked and compiled only, and `ModelComparison.compared` says so.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from math import hypot
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import Program, compile_project
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project
from xg_runtime import agreement
from xg_torch.importing import draws
from xg_torch.importing.archive import Array
from xg_torch.importing.diagram import Model, Weight
from xg_torch.importing.errors import DoesNotCheck, NotFinite, NotTheModel
from xg_torch.importing.exported import BOOL, Exported
from xg_torch.importing.replay import NotReplayed, has_torch, replay, tensor
from xg_torch.importing.small_pages import small_pages

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ModelComparison:
    """The compared outputs, the largest difference, and the largest possible one."""

    compared: bool
    worst: float = 0.0
    tolerance: float = 0.0
    sizes: Sequence[Mapping[str, int]] = ()


# The outputs of the source itself from inputs by name: where the program is another's.
Witness: TypeAlias = Callable[[Mapping[str, Array]], Sequence[Array]]


def prove(
    text: str,
    weights: Mapping[str, Weight],
    model: Model,
    exported: Exported,
    witness: Witness | None = None,
) -> ModelComparison:
    """Check, compile and compare; raises DiagnosticError with all that is wrong."""
    project = parse_project(text.encode())
    diagnostics = check_choices(project)
    if diagnostics:
        raise DiagnosticError.of(*(DoesNotCheck.of(each) for each in diagnostics))
    program = compile_project(project)
    problems = list(_misshapen(program, weights, exported))
    if problems:
        raise DiagnosticError.of(*problems)
    if not has_torch():
        return ModelComparison(compared=False)
    with small_pages():
        return _Comparison(program, weights, model, exported, witness).proof()


def part(array: Array, weight: Weight) -> Array:
    """The numbers of a parameter: a tensor of the model, cut and turned, as a view of it."""
    if weight.start is not None:
        taken = slice(weight.start, weight.stop)
        array = array[(*(slice(None),) * weight.axis, taken)]
    if weight.flat:
        array = array.reshape(len(array), -1)
    if weight.kernel:
        array = np.moveaxis(array, (1, 0), (-2, -1))
    return array.swapaxes(-1, -2) if weight.transposed else array


def as_stored(gradient: Array, weight: Weight) -> Array:
    """The gradient of a parameter with its axes as the model has them."""
    if weight.kernel:
        return np.moveaxis(gradient, (-2, -1), (1, 0))
    return gradient.swapaxes(-1, -2) if weight.transposed else gradient


def _misshapen(
    program: Program, weights: Mapping[str, Weight], exported: Exported
) -> Iterator[Problem]:
    """Parameters of the file that are not what a tensor of the model gives."""
    for path, spec in program.params.items():
        shape = tuple(map(int, spec.shape))
        weight = weights.get(path)
        if weight is None:
            yield NotTheModel(path, "no tensor of the model gives it")
            continue
        gives = part(exported.arrays[weight.source], weight).shape
        if gives != shape:
            yield NotTheModel(path, f"{weight.source} gives {list(gives)}, and it is {list(shape)}")


class _Comparison:
    """One program and the model that it is from."""

    def __init__(
        self,
        program: Program,
        weights: Mapping[str, Weight],
        model: Model,
        exported: Exported,
        witness: Witness | None,
    ) -> None:
        self.witness = witness
        self.program, self.weights, self.model, self.exported = program, weights, model, exported
        self.module = program.load()
        self.tolerance = agreement.OTHER_FLOAT32 if model.rounded else agreement.OTHER_PROGRAM
        self.worst = 0.0
        self.problems: list[Problem] = []
        self.drawn: dict[bool, draws.Arrays] = {}

    def proof(self) -> ModelComparison:
        """Compare at every size that the program can be run at; raises DiagnosticError."""
        done: list[Mapping[str, int]] = []
        reasons: list[str] = []
        for sizes in draws.trials(self.exported):
            try:
                self._compare(sizes)
                done.append(sizes)
            except NotReplayed as reason:
                reasons.append(str(reason))
        if not done:
            self.problems.append(NotTheModel("the model", f"torch cannot run it: {reasons[0]}"))
        if self.problems:
            raise DiagnosticError.of(*dict.fromkeys(self.problems))
        return ModelComparison(True, self.worst, self.tolerance, tuple(done))

    def _compare(self, sizes: Mapping[str, int]) -> None:
        import torch

        for span, moved in product(draws.SPANS, (True, False)):
            rng = np.random.default_rng(0)
            inputs = draws.inputs(self.exported, self.model, sizes, rng, span)
            params = self._parameters(moved=moved)
            leaves = self._tensors(params, inputs)
            outputs = replay(self.exported, leaves, sizes)
            if all(bool(torch.isfinite(each).all()) for each in outputs):
                break
        else:
            self.problems.append(NotFinite())
            return
        self._judge(params, inputs, leaves, outputs)
        if self.witness is not None and not self.problems:
            self._ask(self.witness, inputs)

    def _parameters(self, *, moved: bool) -> draws.Arrays:
        """The same at all sizes: to draw those of a large model takes longer than to use them."""
        if moved not in self.drawn:
            rng = np.random.default_rng(2)
            self.drawn = {moved: draws.parameters(self.exported, rng, moved=moved)}
        return self.drawn[moved]

    def _ask(self, witness: Witness, inputs: draws.Arrays) -> None:
        """Compare the outputs with those of the source, in the precision of its weights."""
        params = self._parameters(moved=False)
        results, _ = self.module.forward(*self._given(params, inputs))
        unique = dict(zip(self.model.outputs, witness(inputs), strict=True))
        double = all(array.dtype == np.float64 for array in unique.values())
        tolerance = agreement.OTHER_PROGRAM if double else agreement.OTHER_FLOAT32
        self.tolerance = max(self.tolerance, tolerance)
        for (name, array), expected in zip(results.items(), unique.values(), strict=True):
            self._hold(f"output {name}", array, expected)

    def _given(
        self, params: draws.Arrays, inputs: draws.Arrays
    ) -> tuple[draws.Arrays, draws.Arrays]:
        """Parameters and inputs under the names of the diagram."""
        arrays = {**self.exported.arrays, **params}
        own = {path: part(arrays[weight.source], weight) for path, weight in self.weights.items()}
        names = zip(self.model.inputs, self.program.inputs, strict=True)
        return own, {mine: inputs[its] for its, mine in names}

    def _judge(
        self,
        params: draws.Arrays,
        inputs: draws.Arrays,
        leaves: Mapping[str, Tensor],
        outputs: Sequence[Tensor],
    ) -> None:
        import torch

        own, arrays = self._given(params, inputs)
        names = dict(zip(self.model.inputs, self.program.inputs, strict=True))
        results, saved = self.module.forward(own, arrays)
        unique = dict(zip(self.model.outputs, outputs, strict=True))
        rng = np.random.default_rng(1)
        d_outputs = {name: rng.standard_normal(np.shape(array)) for name, array in results.items()}
        for (name, array), expected in zip(results.items(), unique.values(), strict=True):
            self._hold(f"output {name}", array, expected.detach().numpy())
        if self.problems:
            return
        gradients = self.module.backward(own, saved, d_outputs)
        sums = self._sums(params, gradients)
        with self._comparing(leaves, sums):
            torch.autograd.backward(
                list(unique.values()), [torch.as_tensor(d) for d in d_outputs.values()]
            )
        for name, own_name in names.items():
            gradient = leaves[name].grad
            if gradient is not None and own_name in gradients:
                self._hold(f"the gradient of {name}", gradients[own_name], gradient.numpy())

    def _sums(self, params: draws.Arrays, gradients: dict[str, Array]) -> draws.Arrays:
        """The gradient of every parameter of the model: what its parts in the file add up to.

        They are taken out of `gradients`.
        """
        sums: draws.Arrays = {}
        for path, weight in self.weights.items():
            if weight.frozen:
                continue
            name, whole = weight.source, params[weight.source].shape
            gradient = as_stored(gradients.pop(path), weight)
            gradient = gradient.reshape(whole) if weight.flat else gradient
            if gradient.shape == whole:
                sums[name] = sums[name] + gradient if name in sums else gradient
                continue
            place = [slice(None)] * len(whole)
            place[weight.axis] = slice(weight.start, weight.stop)
            if name not in sums:
                sums[name] = np.zeros(whole)
            sums[name][tuple(place)] += gradient
        return sums | {
            name: np.zeros(each.shape) for name, each in params.items() if name not in sums
        }

    @contextmanager
    def _comparing(self, leaves: Mapping[str, Tensor], sums: draws.Arrays) -> Generator[None]:
        """Compare each gradient when torch has it, and let both go: there is memory for one set."""
        shared = {e.target: leaves[e.name] for e in self.exported.entries if e.kind == "parameter"}
        found: dict[str, agreement.Apart] = {}

        def compare(name: str, leaf: Tensor) -> None:
            assert leaf.grad is not None
            found[name] = agreement.Apart.of(sums.pop(name), leaf.grad.numpy())
            leaf.grad = None

        names = list(sums)
        for name in names:
            shared[name].register_post_accumulate_grad_hook(partial(compare, name))
        yield
        for name, array in sums.items():  # that torch found none for
            found[name] = agreement.Apart.of(array, np.zeros_like(array))
        total = hypot(*(apart.second for apart in found.values()))
        for name in names:
            self._note(f"the gradient of {name}", found[name].error(total))

    def _tensors(self, params: draws.Arrays, inputs: draws.Arrays) -> dict[str, Tensor]:
        """Everything that the program reads, by its name in the graph; parameters are no copies."""
        import torch

        tensors: dict[str, Tensor] = {}
        shared = {name: torch.from_numpy(array).requires_grad_() for name, array in params.items()}
        for entry in self.exported.entries:
            if entry.kind == "parameter":
                tensors[entry.name] = shared[entry.target]
            elif entry.kind == "constant":
                tensors[entry.name] = tensor(self.exported.arrays[entry.target])
            elif entry.kind == "user" and entry.name:
                tensors[entry.name] = self._input(entry.name, inputs[entry.name])
        return tensors

    def _input(self, name: str, array: Array) -> Tensor:
        if self.exported.metas[name].dtype == BOOL:
            return tensor(array.astype(bool))
        result = tensor(array)
        return result.requires_grad_() if result.is_floating_point() else result

    def _hold(self, what: str, mine: Array, its: Array) -> None:
        if mine.shape == its.shape:
            self._note(what, agreement.error(mine, its, 0.0))
        else:
            why = f"its shape is {list(mine.shape)}, where that of the model is {list(its.shape)}"
            self.problems.append(NotTheModel(what, why))

    def _note(self, what: str, off: float) -> None:
        """Note a difference that is too large."""
        self.worst = max(self.worst, off)
        if not off <= self.tolerance:
            why = f"it is off by {off:.1e} of its size, beyond {self.tolerance}"
            self.problems.append(NotTheModel(what, why))
