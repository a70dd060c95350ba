"""Whether a file is the model: it checks, it compiles, and it computes the same numbers.

torch runs the module, if it is in memory, or else the exported program, on drawn inputs with moved
parameters; the file's own NumPy code does the same. Outputs and the gradient of every parameter
must agree. `ModelComparison` says what was compared: without torch the file is checked and
compiled only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import product
from math import hypot
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.driver import Program, compile_project
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project
from xg.ir.dim import Dim
from xg_runtime import probe
from xg_runtime.module import Arrays
from xg_torch.importing.archive import Array
from xg_torch.importing.errors import (
    DoesNotCheck,
    NotDerived,
    NotFinite,
    NotTheExport,
    NotTheModel,
    first_line,
)
from xg_torch.importing.exported import (
    BOOL,
    INTEGERS,
    Argument,
    AtenCall,
    DType,
    Exported,
    Ref,
    Unread,
    clamp_size,
    needed_calls,
)
from xg_torch.importing.lowering import LAYOUT
from xg_torch.importing.views import Model, ModelValue, Weight

if TYPE_CHECKING:
    from torch import Tensor


# Memory in pages of the usual size, for computations that need much of it once.


@contextmanager
def small_pages() -> Generator[None]:
    """Let NumPy not ask the system for huge pages.

    Where none is free, the system moves other memory together for each, which took a third of an
    import's time. NumPy reads the switch from the environment when it starts, too late for a caller
    that has it; a NumPy without this function keeps its pages.
    """
    core: Any = np
    switch: Callable[[bool], bool] | None = getattr(
        core._core.multiarray, "_set_madvise_hugepage", None
    )
    if switch is None:
        yield
        return
    before = switch(False)
    try:
        yield
    finally:
        switch(before)


# Inputs and parameters that are drawn to compare a model with its diagram.


VECTOR: Final = 0.1  # how far the entries of vectors are moved, which often start as 0 or 1
PART: Final = 2**18  # numbers that are moved at once
MATRIX: Final = 0.5  # how far those of others are, in their own measure
DEAR: Final = 24  # the largest size to compare at, if the model was traced at a smaller one
Span = tuple[float, float] | None  # of inputs with a point; None is around 0
SPANS: Final[tuple[Span, ...]] = (None, (0.0, 1.0), (1.0, 2.0))  # in turn, for log and sqrt


def trials(exported: Exported, *, ends: bool = False) -> list[dict[str, int]]:
    """List the sizes to compare at: the traced ones, and others within the limits.

    With `ends` the largest that the limits have, because a module may have a branch on a size.
    """
    symbols = sorted(exported.limits)
    traced = {name: exported.traced.get(name, 5 + place) for place, name in enumerate(symbols)}
    tried = [traced, {name: _nearest(exported, name, traced[name] + 1) for name in symbols}]
    if ends:
        tried.append({name: _nearest(exported, name, max(DEAR, traced[name])) for name in symbols})
        for name in symbols:
            if exported.limits[name][1] is None:
                tried[-1][name] = traced[name]
    return [dict(each) for each in dict.fromkeys(tuple(each.items()) for each in tried)]


def _nearest(exported: Exported, name: str, size: int) -> int:
    return clamp_size(exported.limits[name], size)


def parameters(exported: Exported, rng: np.random.Generator, *, moved: bool) -> Arrays:
    """Every parameter in float64, by its name in the model; `moved` away from 0 and from others."""
    arrays: Arrays = {}
    for entry in exported.entries:
        if entry.kind == "parameter" and entry.target not in arrays:  # frozen ones are moved too
            array = exported.arrays[entry.target].astype(np.float64, order="C")
            if moved:
                flat = array.reshape(-1)
                own = float(np.sqrt(np.dot(flat, flat) / flat.size)) if flat.size else 0.0
                _move(flat, VECTOR if array.ndim < 2 else MATRIX * (own or VECTOR), rng)
            arrays[entry.target] = array
    return arrays


def _move(numbers: Array, measure: float, rng: np.random.Generator) -> None:
    """Add evenly drawn numbers of a measure in place; drawing normal ones takes four times as long.

    Of large arrays part by part, since memory takes longer to get than to fill.
    """
    for first in range(0, len(numbers), PART):
        part = numbers[first : first + PART]
        moves = rng.random(len(part), np.float32) - np.float32(0.5)
        part += moves * np.float32(measure * 12**0.5)


def draw_inputs(
    exported: Exported,
    model: Model,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    span: Span = None,
) -> Arrays:
    """The inputs, by their names in the graph; padding is at the end of rows, never all of one."""
    polarity = _masks(model)
    reaches = [step.attrs.get("reach") for step in model.steps]
    hidden = min((reach for reach in reaches if reach is not None), default=None)
    arrays: Arrays = {}
    for entry in exported.entries:
        if entry.kind != "user" or not entry.name:
            continue
        meta = exported.metas[entry.name]
        assert meta.shape is not None
        shape = [int(dim.evaluate(sizes)) for dim in meta.shape]
        value = model.inputs.get(entry.name)
        if meta.dtype not in INTEGERS and meta.dtype != BOOL:
            drawn = rng.standard_normal(shape) if span is None else rng.uniform(*span, shape)
            arrays[entry.name] = drawn
        elif value in polarity:
            arrays[entry.name] = _padding(shape, rng, hidden) ^ (not polarity[value])
        else:
            size = model.ranges.get(value) if value is not None else None
            below = 2 if size is None else int(model.sizes.dim(size).evaluate(sizes))
            arrays[entry.name] = rng.integers(0, below, shape)
    return arrays


def _padding(shape: list[int], rng: np.random.Generator, hidden: int | None) -> Array:
    """Draw rows of 1s, then at most `hidden` 0s, so that every window sees some 1s."""
    if not shape:
        return np.ones((), np.int64)
    least = 1 if hidden is None else max(1, shape[-1] - hidden)
    lengths = rng.integers(least, shape[-1] + 1, [*shape[:-1], 1])
    return (np.arange(shape[-1]) < lengths).astype(np.int64)


def _masks(model: Model) -> dict[ModelValue | None, bool]:
    """The inputs that hide scores, and whether 1 shows."""
    masks: dict[ModelValue | None, bool] = {}
    producer = {value: step for step in model.steps for value in step.outputs}
    for step in model.steps:
        if step.operator == "SM" and len(step.data) > 1:
            value, shows = step.data[1], True
            while value in producer and producer[value].operator in (*LAYOUT, "not"):
                shows ^= producer[value].operator == "not"
                value = producer[value].data[0]
            masks[value] = shows
    return masks


# The exported program itself, run by torch: its aten calls in order, in float64.
#
# Only operators of torch's own `aten` are called, by name, with numbers that were read as data.
# Other contents of a file (pickles, expressions) stay closed. Dropout is off.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false


WHERE = ("layout", "memory_format", "pin_memory", "non_blocking")  # change no number


class NotReplayed(Exception):
    """Why the program could not be run here."""


def has_torch() -> bool:
    """Whether the program can be run."""
    return find_spec("torch") is not None


def replay(
    exported: Exported, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]
) -> list[Tensor]:
    """The outputs of the program; `tensors` are inputs, parameters and constants by name.

    Raises NotReplayed where a call does not fit these sizes, or is none of torch's own.
    """
    values: dict[str, Any] = dict(tensors)
    with double_by_default():
        for call in needed_calls(exported):
            results = _run(call, values, sizes)
            values.update(zip(call.outputs, results, strict=False))
    return [_output(values, each) for each in exported.outputs]


def _output(values: Mapping[str, Any], argument: Argument) -> Tensor:
    if not isinstance(argument, Ref):
        raise NotReplayed("an output is no tensor")
    return values[argument.name]


def tensor(array: Array) -> Tensor:
    """An array as torch has it; numbers with a point are float64."""
    import torch

    result = torch.tensor(array)
    return result.double() if result.is_floating_point() else result


@contextmanager
def double_by_default() -> Generator[None]:
    """Let torch make float64 where no element type is named."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _run(call: AtenCall, values: Mapping[str, Any], sizes: Mapping[str, int]) -> Sequence[Any]:
    operator = _operator(call.target)
    args = {
        name: _argument(argument, values, sizes)
        for name, argument in call.args.items()
        if name not in (*WHERE, "device")
    }
    args |= {name: False for name in ("train", "training") if name in call.args}
    args |= {name: "cpu" for name in ("device",) if name in call.args}
    if "dropout_p" in args:
        args["dropout_p"] = 0.0
    if operator.__name__.startswith("embedding."):
        args.pop("padding_idx", None)  # it stops a gradient, which the diagram says in a note
    try:
        result = operator(**args)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        raise NotReplayed(f"{call.target}: {error}") from error
    results = result if isinstance(result, list | tuple) else [result]
    return [_double(each) for each in results]


def _operator(target: str) -> Any:  # noqa: ANN401 - torch makes its operators as it is asked
    import torch

    namespace, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    packet = getattr(torch.ops.aten, name, None) if namespace == "aten" else None
    if packet is None or overload not in packet.overloads():
        raise NotReplayed(f"{target} is no operator of torch")
    return getattr(packet, overload)


def _double(value: Any) -> Any:  # noqa: ANN401 - what an operator gives
    import torch

    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value


def _argument(argument: Argument, values: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:  # noqa: ANN401
    match argument:
        case Ref(name):
            if name not in values:
                raise NotReplayed(f"{name} is not there")
            return values[name]
        case DType(number):
            return _dtype(number)
        case Dim():
            return int(argument.evaluate(sizes))
        case tuple():
            return [_argument(item, values, sizes) for item in argument]
        case Unread(kind):
            raise NotReplayed(f"an argument is {kind}")
        case _:
            return argument


def _dtype(number: int) -> Any:  # noqa: ANN401 - a torch.dtype
    import torch

    integers = {1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64}
    if number == 12:
        return torch.bool
    return integers.get(number, torch.float64)


@dataclass(frozen=True)
class ModelComparison:
    """The compared outputs, the largest difference, and the largest possible one.

    `module` says whether the module itself was compared, and not only its exported program;
    `rounding` is how far off it is, if it rounds as it runs. `single` are the symbols at whose size
    of 1 it computes something else.
    """

    compared: bool
    worst: float = 0.0
    tolerance: float = 0.0
    sizes: Sequence[Mapping[str, int]] = ()
    module: bool = False
    rounding: float = 0.0
    single: Sequence[str] = ()


# The outputs of the source itself from inputs by name: where the program is another's.
Witness: TypeAlias = Callable[[Mapping[str, Array]], Sequence[Array]]
# The outputs of what is compared, from tensors by name, at sizes.
Run: TypeAlias = "Callable[[Exported, Mapping[str, Tensor], Mapping[str, int]], list[Tensor]]"


class LiveModule(Protocol):
    """A module in memory that can be compared itself."""

    def run(
        self, exported: Exported, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]
    ) -> list[Tensor]:
        """The outputs of tensors by their names in the program; raises NotReplayed."""
        ...

    def own_gradients(self) -> list[str]:
        """The parts of the module that may have a gradient of their own."""
        ...


def prove(
    text: str,
    weights: Mapping[str, Weight],
    model: Model,
    exported: Exported,
    witness: Witness | None = None,
    module: LiveModule | None = None,
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
        return _Comparison(program, weights, model, exported, witness).proof(module)


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


def restore_axes(gradient: Array, weight: Weight) -> Array:
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


def _name_differences(off: Sequence[Problem], own: Sequence[str]) -> Iterator[Problem]:
    """Say where the model differs from its exported program, and where that may be from."""
    for problem in off:
        if isinstance(problem, NotTheModel):
            help = f"the model has {', '.join(own)}" if own else ""
            yield NotTheExport(problem.name, problem.reason, help)
        else:
            yield problem


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
        self.exact = probe.OTHER_FLOAT32 if model.rounded else probe.OTHER_PROGRAM
        self.tolerance = self.exact
        self.worst = 0.0
        self.problems: list[Problem] = []
        self.drawn: dict[bool, Arrays] = {}

    def proof(self, module: LiveModule | None) -> ModelComparison:
        """Compare at every size that the program can be run at; raises DiagnosticError.

        A module that rounds to float32 as it runs is compared as closely as that lets it, and its
        exported program exactly.
        """
        found, off = None, list[Problem]()
        if module is not None:
            found = self._compare_all(module.run)
            off = self.problems
            if found is not None and not off:
                return replace(found, module=True, single=self._single(module.run))
        worst = self.worst
        self.problems, self.worst = [], 0.0
        exact = self._compare_all(replay)
        if exact is None:
            self.problems.append(NotTheModel("the model", f"torch cannot run it: {self.reason}"))
        if self.problems or exact is None:
            raise DiagnosticError.of(*dict.fromkeys(self.problems))
        if module is None or found is None:
            return exact
        if worst <= probe.OTHER_FLOAT32 and all(isinstance(each, NotTheModel) for each in off):
            self.tolerance = probe.OTHER_FLOAT32
            single = self._single(module.run)
            off = {"rounding": worst, "tolerance": self.tolerance}
            return replace(exact, **off, module=True, single=single)
        raise DiagnosticError.of(*dict.fromkeys(_name_differences(off, module.own_gradients())))

    def _compare_all(self, run: Run) -> ModelComparison | None:
        """Compare at every size at which `run` gives numbers; None if there is none."""
        done: list[Mapping[str, int]] = []
        self.reason, self.tolerance = "", self.exact
        for sizes in trials(self.exported, ends=run is not replay):
            try:
                self._compare(run, sizes)
                done.append(sizes)
            except NotReplayed as reason:
                self.reason = self.reason or str(reason)
            if self.problems:
                break
        return ModelComparison(True, self.worst, self.tolerance, tuple(done)) if done else None

    def _single(self, run: Run) -> tuple[str, ...]:
        """The symbols at whose size of 1, which torch does not trace, `run` gives other outputs."""
        traced = trials(self.exported)[0]
        return tuple(
            name
            for name, (low, _) in sorted(self.exported.limits.items())
            if low == 2 and not self._agrees(run, {**traced, name: 1})
        )

    def _agrees(self, run: Run, sizes: Mapping[str, int]) -> bool:
        inputs = draw_inputs(self.exported, self.model, sizes, np.random.default_rng(0))
        params = next(iter(self.drawn.values()))
        try:
            outputs = run(self.exported, self._tensors(params, inputs), sizes)
            results, _ = self.module.forward(*self._diagram_arrays(params, inputs))
        except (NotReplayed, ValueError, IndexError, ArithmeticError):
            return False
        unique = dict(zip(self.model.outputs, outputs, strict=False)).values()
        return len(outputs) == len(self.model.outputs) and all(
            mine.shape == its.shape
            and probe.error(mine, its.detach().numpy(), 0.0) <= self.tolerance
            for mine, its in zip(results.values(), unique, strict=True)
        )

    def _compare(self, run: Run, sizes: Mapping[str, int]) -> None:
        import torch

        for span, moved in product(SPANS, (True, False)):
            rng = np.random.default_rng(0)
            inputs = draw_inputs(self.exported, self.model, sizes, rng, span)
            params = self._parameters(moved=moved)
            leaves = self._tensors(params, inputs)
            outputs = run(self.exported, leaves, sizes)
            if len(outputs) != len(self.exported.outputs):
                why = f"there are {len(outputs)} where it was traced with {len(self.model.outputs)}"
                self.problems.append(NotTheModel("the outputs", why))
                return
            if all(bool(torch.isfinite(each).all()) for each in outputs):
                break
        else:
            self.problems.append(NotFinite())
            return
        self._judge(params, inputs, leaves, outputs)
        if self.witness is not None and not self.problems:
            self._ask(self.witness, inputs)

    def _parameters(self, *, moved: bool) -> Arrays:
        """Draw the parameters once for all sizes, because drawing large ones is slow."""
        if moved not in self.drawn:
            rng = np.random.default_rng(2)
            self.drawn = {moved: parameters(self.exported, rng, moved=moved)}
        return self.drawn[moved]

    def _ask(self, witness: Witness, inputs: Arrays) -> None:
        """Compare the outputs with the source's, in the precision of its weights."""
        params = self._parameters(moved=False)
        results, _ = self.module.forward(*self._diagram_arrays(params, inputs))
        unique = dict(zip(self.model.outputs, witness(inputs), strict=True))
        double = all(array.dtype == np.float64 for array in unique.values())
        tolerance = probe.OTHER_PROGRAM if double else probe.OTHER_FLOAT32
        self.tolerance = max(self.tolerance, tolerance)
        for (name, array), expected in zip(results.items(), unique.values(), strict=True):
            self._hold(f"output {name}", array, expected)

    def _diagram_arrays(self, params: Arrays, inputs: Arrays) -> tuple[Arrays, Arrays]:
        """Parameters and inputs under the names of the diagram, floats in float64."""
        arrays = {**self.exported.arrays, **params}  # buffers have the model's own type
        own = {
            path: np.asarray(part(arrays[weight.source], weight), np.float64)
            for path, weight in self.weights.items()
        }
        names = zip(self.model.inputs, self.program.inputs, strict=True)
        return own, {mine: inputs[its] for its, mine in names}

    def _judge(
        self,
        params: Arrays,
        inputs: Arrays,
        leaves: Mapping[str, Tensor],
        outputs: Sequence[Tensor],
    ) -> None:
        import torch

        own, arrays = self._diagram_arrays(params, inputs)
        names = dict(zip(self.model.inputs, self.program.inputs, strict=True))
        results, saved = self.module.forward(own, arrays)
        unique = dict(zip(self.model.outputs, outputs, strict=True))
        rng = np.random.default_rng(1)
        floats = {name: array for name, array in results.items() if array.dtype.kind == "f"}
        d_outputs = {name: rng.standard_normal(np.shape(array)) for name, array in floats.items()}
        wanted = dict(zip(results, unique.values(), strict=True))
        for name, array in results.items():
            self._hold(f"output {name}", array, wanted[name].detach().numpy())
        if self.problems or not floats:
            return
        gradients = self.module.backward(own, saved, d_outputs)
        sums = self._sums(params, gradients)
        pairs = [(wanted[name], torch.as_tensor(d)) for name, d in d_outputs.items()]
        trained = [(output, d_output) for output, d_output in pairs if output.requires_grad]
        try:
            with self._comparing(leaves, sums):
                torch.autograd.backward([y for y, _ in trained], [d for _, d in trained])
        except RuntimeError as error:  # of tensors that were changed in place
            self.problems.append(NotDerived(first_line(error).partition(":")[2].strip()))
            return
        for name, own_name in names.items():
            gradient = leaves[name].grad
            if gradient is not None and own_name in gradients:
                self._hold(f"the gradient of {name}", gradients[own_name], gradient.numpy())

    def _sums(self, params: Arrays, gradients: dict[str, Array]) -> Arrays:
        """The gradient of every parameter of the model: what its parts in the file add up to.

        They are taken out of `gradients`.
        """
        sums: Arrays = {}
        for path, weight in self.weights.items():
            if weight.frozen:
                continue
            name, whole = weight.source, params[weight.source].shape
            gradient = restore_axes(gradients.pop(path), weight)
            gradient = gradient.reshape(whole) if weight.flat else gradient
            if gradient.shape == whole:
                sums[name] = sums[name] + gradient if name in sums else gradient
                continue
            place = [slice(None)] * len(whole)
            place[weight.axis] = slice(weight.start, weight.stop)
            if name not in sums:
                sums[name] = np.zeros(whole)
            sums[name][tuple(place)] += gradient
        others = self._trained() - sums.keys()
        return sums | {name: np.zeros(params[name].shape) for name in sorted(others)}

    def _trained(self) -> set[str]:
        """The parameters that have a gradient, by their names in the model."""
        entries = self.exported.entries
        return {each.target for each in entries if each.kind == "parameter" and not each.frozen}

    @contextmanager
    def _comparing(self, leaves: Mapping[str, Tensor], sums: Arrays) -> Generator[None]:
        """Compare each gradient when torch has it, and let both go: there is memory for one set."""
        shared = {e.target: leaves[e.name] for e in self.exported.entries if e.kind == "parameter"}
        found: dict[str, probe.Apart] = {}

        def compare(name: str, leaf: Tensor) -> None:
            assert leaf.grad is not None
            found[name] = probe.Apart.of(sums.pop(name), leaf.grad.numpy())
            leaf.grad = None

        names = list(sums)
        for name in names:
            shared[name].register_post_accumulate_grad_hook(partial(compare, name))
        yield
        for name, array in sums.items():  # that torch found none for
            found[name] = probe.Apart.of(array, np.zeros_like(array))
        total = hypot(*(apart.second for apart in found.values()))
        for name in names:
            self._note(f"the gradient of {name}", found[name].error(total))

    def _tensors(self, params: Arrays, inputs: Arrays) -> dict[str, Tensor]:
        """Everything that the program reads, by its name in the graph; parameters are no copies."""
        import torch

        tensors: dict[str, Tensor] = {}
        trained = self._trained()
        shared = {
            name: torch.from_numpy(array).requires_grad_(name in trained)
            for name, array in params.items()
        }
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
            self._note(what, probe.error(mine, its, 0.0))
        else:
            why = f"its shape is {list(mine.shape)}, where that of the model is {list(its.shape)}"
            self.problems.append(NotTheModel(what, why))

    def _note(self, what: str, off: float) -> None:
        """Note a difference that is too large."""
        self.worst = max(self.worst, off)
        if not off <= self.tolerance:
            why = f"its relative error is {off:.1e}, above the tolerance {self.tolerance}"
            self.problems.append(NotTheModel(what, why))
