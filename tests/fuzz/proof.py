"""Properties of every program: text, code and gradients agree with their references."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
from backends import in_words_alone
from fuzz.decoding import step_failures
from fuzz.recorded import Provable
from numpy.typing import DTypeLike, NDArray

from xg.codegen.backend import Backend, backends, default, load
from xg.diagnostics.diagnostic import Source
from xg.driver import BACKENDS
from xg.ir.graph import IRProgram
from xg.ir.size_checks import check_numbers
from xg.ir.walk import frozen_paths
from xg.passes.infer import infer
from xg.passes.pipelines import BLOCKS, DIFFERENTIATE, STEP, run
from xg.passes.resolve import resolve
from xg.syntax import ast
from xg.syntax.format import format
from xg.syntax.parse import parse
from xg.verify.reference.interpret import Interpreter, initial
from xg_kernels.pipelines import FUSED, FUSED_BLOCKS
from xg_runtime.module import move_of
from xg_runtime.tensors import OnArrays

Array = NDArray[Any]
Arrays = dict[str, Array]


class Generated(Protocol):
    """`init`, `forward` and `backward` on arrays."""

    def init(self, seed: int, dtype: DTypeLike, **sizes: int) -> Arrays: ...
    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Any]: ...
    def backward(self, params: Arrays, saved: Any, d_outputs: Arrays) -> Arrays: ...  # noqa: ANN401


CLOSE = 1e-10  # the module against the interpreter
SLOPE = 1e-7  # gradients against differences
NOISE = 4.0  # so many times as far as outputs scatter may a difference be off
LAST_DIGITS = 1e-9
ROUNDED = 2.0**-23  # an error that falls by more than this from 32 to 64 bits is one of rounding
FOURTH = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))  # weights of a difference
EIGHTH = tuple(
    (sign * place, sign * weight)
    for place, weight in ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))
    for sign in (-1, 1)
)
# Long steps of a high order lose few digits, short ones cross few kinks.
STEPS = (
    *((1e-3, FOURTH), (1e-2, EIGHTH), (3e-2, EIGHTH), (1e-3, EIGHTH)),
    *((3e-4, EIGHTH), (1e-4, EIGHTH), (1e-5, FOURTH), (1e-6, FOURTH), (1e-7, FOURTH)),
)
DROPOUT = 3  # the seed that it is drawn from
FUSE_AT = (1, 2)  # of eight programs: the first backend's kernels, those of the others
STEPS_OF = 20  # so many programs for one that steps of generation are derived of
RARELY = 200  # so many programs for one that backends meet which differ in their words alone
REACH = 30.0  # by how much a direction may magnify a tensor with small gradients


class Failure(AssertionError):
    """One of the properties does not hold; `kind` says which, so that a shrunk case keeps it."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


def prove(sketch: Provable, seed: int, *, whole: bool = True) -> str:
    """The source of the generated module, after all properties were found to hold.

    One that is not `whole` is for many programs: values and slopes of all, every other one in every
    backend, every fourth one's layout, every other one at two sizes, every eighth one in kernels of
    the first backend and as many in those of the others. Of every twentieth a step of generation
    is derived for each output that has one; such seeds are odd, for no dead steps.
    """
    text = str(sketch)
    tree = check_layout(text) if whole or seed % 4 == 0 else parse(Source("case.xg", text))
    program = compiled(tree, sketch, dead=seed % 2 == 0)
    fused = run(FUSED, program).result if whole or seed % 8 in FUSE_AT else program
    kernels = not whole and seed % 8 == FUSE_AT[0]
    source = default().source(fused if kernels else program, None, kernels=kernels)
    module = cast(Generated, load(source, "case"))
    others: list[Generated] = []
    if whole or seed % 8 in (0, 4, 6):
        others += _others(program, seed)
    if whole or seed % 8 == FUSE_AT[1]:
        others += _others(fused, seed, kernels=True)
    if whole:
        others.append(on_arrays(default(), fused, kernels=True))
    for numbers in (sketch.numbers, {**sketch.numbers, **sketch.resized}):
        case = Case.draw(program, module, numbers, seed)
        case.check_values()
        case.check_slopes()
        case.check_precision()
        case.check_initial()
        if seed % STEPS_OF == 1 and numbers == sketch.numbers:
            case.check_steps(seed)
        for other in others:
            again = case.of(other)
            again.check_values()
            again.check_precision()
            again.check_initial()
            if isinstance(other, OnArrays):
                check_model(again)
        if not sketch.resized or not (whole or seed % 4 in (0, 3)):
            break
    return source


def _others(program: IRProgram, seed: int, *, kernels: bool = False) -> Iterator[Generated]:
    """The modules of the other backends; those that differ in words alone need few programs."""
    for name in BACKENDS[1:]:
        if name not in in_words_alone() or seed % RARELY == 0:
            yield on_arrays(backends()[name], program, kernels=kernels)


def on_arrays(backend: Backend, program: IRProgram, *, kernels: bool = False) -> Generated:
    """The module of a backend on arrays."""
    blocks = FUSED_BLOCKS if kernels else BLOCKS
    derived = run(blocks, program).result if backend.pipeline else None
    source = backend.source(program, derived, kernels=kernels)
    return cast(Generated, backend.on_arrays(load(source, f"case_{backend.name}")))


def check_layout(text: str) -> ast.Module:
    """The tree, which formatting keeps; formatting again changes nothing."""
    source = Source("case.xg", text)
    tree = parse(source)
    once = format(source)
    again = Source("case.xg", once)
    if parse(again) != tree:
        raise Failure("format", f"another tree:\n{once}")
    if format(again) != once:
        raise Failure("format", f"not idempotent:\n{once}")
    return tree


def compiled(tree: ast.Module, sketch: Provable, *, dead: bool) -> IRProgram:
    """The program with its backward pass, with or without its dead steps."""
    typed = infer(resolve(tree, _no_file, None, sketch.settings))
    check_numbers(typed, {})
    return run((DIFFERENTIATE,) if dead else STEP, typed).result


def _no_file(use: ast.Use) -> ast.Module:
    raise AssertionError(f"generated programs are one file: {use}")


def check_model(case: Case) -> None:
    """The `torch.nn.Module` gives, under autograd, what the functions give."""
    from xg.verify.autograd_model import model_gradients

    assert isinstance(case.module, OnArrays)
    expected, saved = case.module.forward(case.params, case.inputs, seed=DROPOUT)
    derived = case.module.backward(case.params, saved, case.cotangents)
    sizes = case.given_sizes()
    outputs, gradients = model_gradients(
        case.module.module, sizes, case.params, case.inputs, case.cotangents, DROPOUT
    )
    for name, value in expected.items():
        if not np.allclose(outputs[name], value, CLOSE, CLOSE):
            raise Failure("model value", f"{name} is {outputs[name]}, not {value}")
    case.compare(gradients, derived)


def draw_inputs(
    program: IRProgram, sizes: Mapping[str, int], random: np.random.Generator
) -> Arrays:
    """Random floats, and integers within their ranges."""
    inputs: Arrays = {}
    for value in program.main.inputs:
        type_ = program.main.types[value]
        shape = tuple(dim.evaluate(sizes) for dim in type_.shape)
        if type_.range is None:
            inputs[str(value.name)] = random.standard_normal(shape)
        else:
            inputs[str(value.name)] = random.integers(0, type_.range.evaluate(sizes), shape)
    return inputs


@dataclass(frozen=True)
class Case:
    """A program and its module on random arrays; `sizes` numbers all symbols."""

    program: IRProgram
    module: Generated
    sizes: Mapping[str, int]
    params: Arrays
    inputs: Arrays
    random: np.random.Generator
    moved: Arrays = field(default_factory=dict[str, Array])

    @classmethod
    def draw(
        cls, program: IRProgram, module: Generated, numbers: Mapping[str, int], seed: int
    ) -> Case:
        """Random inputs and parameters: nothing zero, whatever the file starts parameters as."""
        random = np.random.default_rng(seed)
        graph = program.main
        sizes = graph.sizes.bind(numbers)
        inputs = draw_inputs(program, sizes, random)
        counted = replace(program, numbers=numbers)
        statistics = frozen_paths(counted)  # variances among them
        params = {n: abs(x) if n in statistics else x for n, x in initial(counted, seed).items()}
        return cls(program, module, sizes, params, inputs, random)

    def of(self, module: Generated) -> Case:
        """Another module of the program on the same arrays, with the same answers expected."""
        case = replace(self, module=module)
        vars(case).update(interpreted=self.interpreted, cotangents=self.cotangents)
        return case

    # ---- what the interpreter says --------------------------------------------------------------

    @cached_property
    def interpreted(self) -> tuple[Arrays, Arrays]:
        """Outputs, and gradients at the cotangents.

        An array with an axis of F = D*T tells F, which may be all that code needs. The interpreter
        numbers everything, and gets the others.
        """
        numbered = self.program.main.sizes.defaults
        others = {name: n for name, n in self.sizes.items() if name not in numbered}
        interpreter = Interpreter(replace(self.program, numbers=others), self.params, DROPOUT)
        outputs, record = interpreter.forward(self.inputs)
        return outputs, interpreter.backward(record, self.cotangents)

    def check_values(self) -> None:
        """Outputs and gradients are those of the interpreter, and no array of a caller changes."""
        outputs, gradients = self.interpreted
        given = {**self.params, **self.inputs, **{f"d{n}": a for n, a in self.cotangents.items()}}
        before = {name: array.copy() for name, array in given.items()}
        found, saved = self.module.forward(self.params, self.inputs, seed=DROPOUT)
        if list(found) != list(outputs):
            raise Failure("outputs", f"{list(found)} instead of {list(outputs)}")
        for name, expected in outputs.items():
            if not np.allclose(found[name], expected, CLOSE, CLOSE):
                raise Failure("value", f"{name} is {found[name]}, not {expected}")
            if not np.isfinite(expected).all():
                raise Failure("finite", name)
        self.check_moved(saved)
        derived = self.module.backward(self.params, saved, self.cotangents)
        self.compare(derived, gradients)
        for name, array in given.items():
            if not np.array_equal(array, before[name]):
                raise Failure("overwritten", f"{name} is {array}, and was {before[name]}")

    def check_moved(self, saved: object) -> None:
        """Every running statistic is moved, and as by the first module on these arrays."""
        move = move_of(self.module)
        found = move(dict(self.params), saved) if move else {}
        for name, value in found.items():
            if np.allclose(value, self.params[name], CLOSE, CLOSE):
                raise Failure("statistic", f"{name} stays")
            if not np.allclose(value, self.moved.setdefault(name, value), CLOSE, CLOSE):
                raise Failure("statistic", f"{name} is {value}, not {self.moved[name]}")
        if set(found) != set(self.moved):
            raise Failure("statistics", f"{sorted(found)} instead of {sorted(self.moved)}")

    @cached_property
    def cotangents(self) -> Arrays:
        """A random cotangent for each float output, sometimes none for one of several."""
        outputs, _ = self.module.forward(self.params, self.inputs, seed=DROPOUT)
        floats = [name for name, value in outputs.items() if value.dtype == np.float64]
        kept = floats[1:] if len(floats) > 1 and self.random.random() < 0.2 else floats
        return {name: self.random.standard_normal(outputs[name].shape) for name in kept}

    def compare(self, derived: Arrays, expected: Arrays) -> None:
        """The derived gradients are those that are expected."""
        if set(derived) != set(expected):
            raise Failure("gradients", f"{sorted(derived)} instead of {sorted(expected)}")
        whole = _norm(expected) + 1e-2 * _norm(self.cotangents)
        for name, gradient in expected.items():
            if np.shape(derived[name]) != gradient.shape:
                shapes = f"{np.shape(derived[name])} instead of {gradient.shape}"
                raise Failure("gradient shape", f"{name} has {shapes}")
            distance = float(np.linalg.norm(derived[name] - gradient))
            if distance <= CLOSE * (float(np.linalg.norm(gradient)) + 1e-2 * whole):
                continue
            # Where a softmax is saturated, nothing is left of a gradient but what was rounded.
            single = self.single[1][name]
            if not distance <= ROUNDED * float(np.linalg.norm(single - gradient)):
                raise Failure("gradient", f"d{name} is {derived[name]}, not {gradient}")

    # ---- what differences say -------------------------------------------------------------------

    def check_slopes(self) -> None:
        """The gradients predict how the outputs change along one direction through all tensors.

        Each tensor takes part with about the same weight, however small its gradient is, so that
        none hides behind the others. A step that crosses a kink, or loses digits of large numbers,
        is no proof of an error, so others are tried. A difference of outputs is known to their last
        digit, no better.
        """
        given = self.params | self.inputs
        statistics = frozen_paths(replace(self.program, numbers=self.sizes))
        floats = [n for n, a in given.items() if a.dtype == np.float64 and n not in statistics]
        outputs, saved = self.module.forward(self.params, self.inputs, seed=DROPOUT)
        gradients = self.module.backward(self.params, saved, self.cotangents)
        direction = {name: self._direction(gradients[name]) for name in floats}
        parts = [float(np.sum(gradients[name] * direction[name])) for name in floats]
        slope, weight = sum(parts), sum(map(abs, parts))
        summed = sum(float(np.sum(np.abs(outputs[n] * c))) for n, c in self.cotangents.items())
        measured: list[float] = []
        for step, weights in STEPS:
            moved = sum(w * self._moved(direction, n * step) for n, w in weights)
            measured.append(moved / step)
            rounded = float(np.finfo(np.float64).eps) * summed / step
            if abs(measured[-1] - slope) <= SLOPE * (weight + 1e-3) + rounded:
                return
        for (step, _), difference in zip(STEPS, measured, strict=True):
            noise = self._noise(direction, step)
            if abs(difference - slope) <= SLOPE * (weight + 1e-3) + NOISE * noise / step:
                return
        raise Failure("slope", f"{slope} along a direction, measured {measured}")

    def _noise(self, direction: Arrays, step: float) -> float:
        """How far outputs scatter within last digits, at the points that a difference is made of.

        Some programs compare numbers that are equal but for rounding.
        """
        points = {
            (place, near): self._moved(direction, place * step + near)
            for place in range(-4, 5)
            for near in (-LAST_DIGITS, 0.0, LAST_DIGITS)
        }
        return max(
            abs(points[place, -LAST_DIGITS] + points[place, LAST_DIGITS] - 2 * points[place, 0.0])
            for place in range(-4, 5)
        )

    def _direction(self, gradient: Array) -> Array:
        drawn = self.random.standard_normal(np.shape(gradient))
        norm = float(np.linalg.norm(gradient))
        return drawn * min(REACH, 1 / norm) if norm else drawn

    def _moved(self, direction: Arrays, by: float) -> float:
        """The outputs, weighed by the cotangents, at a point along the direction."""

        def at(arrays: Arrays) -> Arrays:
            return {n: a + by * direction[n] if n in direction else a for n, a in arrays.items()}

        outputs, _ = self.module.forward(at(self.params), at(self.inputs), seed=DROPOUT)
        return sum(float(np.sum(outputs[name] * c)) for name, c in self.cotangents.items())

    # ---- precision, initial parameters ----------------------------------------------------------

    def check_precision(self) -> None:
        """Of 32-bit parameters and inputs everything is computed in 32 bits."""
        if not any(a.dtype == np.float64 for a in (*self.params.values(), *self.inputs.values())):
            return
        outputs, gradients = self.single
        for name, value in {**outputs, **gradients}.items():
            if value.dtype == np.float64:
                raise Failure("precision", f"{name} is float64")

    @cached_property
    def single(self) -> tuple[Arrays, Arrays]:
        """Outputs and gradients of the module on arrays of 32 bits."""
        params, inputs, cotangents = map(_single, (self.params, self.inputs, self.cotangents))
        outputs, saved = self.module.forward(params, inputs, seed=DROPOUT)
        return outputs, self.module.backward(params, saved, cotangents)

    def given_sizes(self) -> dict[str, int]:
        """The sizes that `init` lets a caller choose."""
        made_by = getattr(self.module, "module", self.module)
        wanted = inspect.signature(made_by.init).parameters
        return {name: self.sizes[name] for name in wanted if name in self.sizes}

    def check_initial(self) -> None:
        """`init` makes every parameter, in its shape."""
        made = self.module.init(0, np.float64, **self.given_sizes())
        shapes = {name: value.shape for name, value in made.items()}
        expected = {name: value.shape for name, value in self.params.items()}
        if shapes != expected:
            raise Failure("init", f"{shapes} instead of {expected}")

    # ---- steps of generation --------------------------------------------------------------------

    def check_steps(self, seed: int) -> None:
        """Every output of which a step can be derived is, in pieces, that of the whole text."""
        program = replace(self.program, numbers=self.sizes)
        for difference in step_failures(program, self.sizes, self.params, self.inputs, seed):
            raise Failure("step", difference)


def _norm(arrays: Arrays) -> float:
    return sum(float(np.sum(array * array)) for array in arrays.values()) ** 0.5


def _single(arrays: Arrays) -> Arrays:
    return {n: a.astype(np.float32) if a.dtype == np.float64 else a for n, a in arrays.items()}
