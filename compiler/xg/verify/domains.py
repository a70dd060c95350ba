"""Find where a program has values and slopes: inputs, lengths of axes, stopped values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.limits import DimSize
from xg.ir.dim import Dim
from xg.ir.functions import STEPS
from xg.ir.graph import Apply, Graph, IRProgram
from xg.ir.prim import Windows
from xg.ir.size_checks import check_numbers, difference_limits, value_of
from xg.ir.walk import instances
from xg.verify.reference.evaluate import Stopped
from xg.verify.reference.interpret import (
    BadInput,
    Interpreter,
    Record,
    check_positions,
)
from xg_runtime.errors import RunError
from xg_runtime.module import Array, Arrays, Module, Saved

DOMAINS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "": lambda x: x,  # around 0, positive and negative
    "inputs above 0": lambda x: np.abs(x) + 0.1,
    "inputs between 0 and 1": lambda x: 0.1 + 0.8 / (1.0 + np.exp(-x)),
    "inputs above 10": lambda x: np.abs(x) + 10.1,
}
ADVICE = (
    "parameters are drawn around 0, inputs also above 0, between 0 and 1 and above 10: put what",
    "needs others into a block of its own, or let it begin with what makes them so: x*x + 1",
)


def fitting_inputs(
    program: IRProgram, params: Mapping[str, Array], drawn: Arrays, seed: int
) -> tuple[Arrays, str]:
    """The drawn inputs in the first domain in which every edge is a number, and its name.

    Raises RunError with the first edge that is none as drawn, if there is no such domain.
    """
    refused: RunError | None = None
    for name, moved in DOMAINS.items():
        inputs = {key: moved(x) if x.dtype.kind == "f" else x for key, x in drawn.items()}
        try:
            refuse_nan(program, params, inputs, seed)
        except RunError as error:
            refused = refused or error
        else:
            return inputs, name
    assert refused
    raise refused


def refuse_nan(
    program: IRProgram,
    params: Mapping[str, Array],
    inputs: Mapping[str, Array],
    seed: int,
) -> None:
    """Raise RunError that names the first edge with a NaN, its operator and its line."""
    with np.errstate(all="ignore"):
        _, record = Interpreter(program, params, seed).forward(inputs)
    where = _first(record)
    if where is None:
        return
    run, step = where
    operands = ", ".join(f"{value.name or value.span.text}" for value in step.inputs)
    path = f" of {run.path}" if run.path else ""
    raise RunError(
        f"{step.outputs[0].name or step.op.glyph}{path} is not a number (NaN): "
        f"{step.op.glyph} of {operands}, line {step.span.line}",
        ADVICE,
    )


def _first(record: Record) -> tuple[Record, Apply] | None:
    """The run and the step that make the first NaN; a call is looked into."""
    run = record
    steps = iter(run.graph.steps)
    while (step := next(steps, None)) is not None:
        if not any(_has_nan(run.values[value]) for value in step.outputs):
            continue
        if isinstance(step, Apply):
            return run, step
        rounds = run.calls[step.saved]
        run = next(inner for inner in rounds if any(map(_has_nan, inner.values.values())))
        steps = iter(run.graph.steps)
    return None


def _has_nan(array: Array) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


# The lengths 0 and 1 of axes that only arrays number, and why a program refuses one.


SHORT: Final = (1, 0)
LOOKED_AT: Final = 64
LEFT_AT_MOST: Final = 3  # lengths of an axis besides 0 and 1: JAX compiles for each
LARGE: Final = DimSize.maximum
LEAST: Final = {"max": "the largest", "mean": "the mean"}  # of nothing there is none
WINDOWS: Final = ("window", "overlap")  # which no backend cuts out of nothing

Numbers = Mapping[str, int]


def free_axes(program: IRProgram, fixed: Iterable[str]) -> list[str]:
    """The symbols that are axes of inputs and that neither the file nor a setting `fixed`."""
    main = program.main
    axes = (dim.name for value in main.inputs for dim in main.types[value].shape)
    names = dict.fromkeys(name for name in axes if name is not None)
    return [name for name in names if name not in {*fixed, *main.sizes.definitions}]


def short(
    program: IRProgram, sizes: Numbers, free: Iterable[str]
) -> Iterator[tuple[str, IRProgram]]:
    """The program with each free axis as short as can be, and a name for it.

    Lengths 1 and 0 come first, then those at which another axis has 0 or 1: S = 2 of S - 1.
    """
    for name in free:
        for length in (*SHORT, *_lengths_left(program, sizes, name)):
            numbers = {**sizes, name: length}
            yield f"length {length} of {name}", replace(program, numbers=numbers)


def _lengths_left(program: IRProgram, sizes: Numbers, name: str) -> list[int]:
    """The smallest lengths of an axis, from 2 on, at which a difference with it is 0 or 1."""
    limits = [each.larger for each in difference_limits(program)]
    known = {**program.all_numbers, **sizes}
    found = (
        length
        for length in range(2, LOOKED_AT)
        if any(
            name in dim.symbols() and value_of(dim, {**known, name: length}) in SHORT
            for dim in limits
        )
    )
    return [*islice(found, LEFT_AT_MOST)]


def ranges_of(program: IRProgram) -> dict[str, int]:
    """The number that the integers of each input are below."""
    main, numbers = program.main, program.all_numbers
    ranges = ((str(value.name), main.types[value].range) for value in main.inputs)
    return {name: dim.evaluate(numbers) for name, dim in ranges if dim is not None}


def large_ranges(program: IRProgram, declared: Numbers) -> Numbers:
    """A large number for each range of integers that is no axis: the declared one if there is one.

    In narrow types integers are exact up to their range's end, so that is where they are tried.
    """
    main = program.main
    ranges = (main.types[value].range for value in main.inputs)
    names = sorted({dim.name for dim in ranges if dim is not None and dim.name is not None})
    types = (type_ for graph in program.graphs.values() for type_ in graph.types.values())
    axes = {name for type_ in types for dim in type_.shape for name in dim.symbols()}
    return {name: declared.get(name, LARGE) for name in names if name not in axes}


def refusal(program: IRProgram) -> str | None:
    """Return why a program can't have the numbers of its sizes; None if it can."""
    try:
        check_numbers(program, {}, least=0)
    except DiagnosticError as error:
        return error.diagnostics[0].message
    for graph, symbols in instances(program):
        found = _of_nothing(program, graph, symbols)
        if found:
            return found
    try:
        check_positions(program, program.all_numbers)
    except BadInput as error:
        return str(error)
    return None


def _of_nothing(program: IRProgram, graph: Graph, symbols: Mapping[str, Dim]) -> str | None:
    """Name an operator that needs a position of an empty axis."""
    numbers = program.all_numbers

    def length(dim: Dim) -> int:
        return graph.sizes.expand(dim).substitute(symbols).evaluate(numbers)

    for value in graph.inputs:
        type_ = graph.types[value]
        if type_.range is not None and length(type_.range) == 0 and all(map(length, type_.shape)):
            return f"no integer is below {type_.range}, the range of {value.name}"
    for param in graph.params:
        empty = next((dim for dim in param.type.shape if length(dim) == 0), None)
        if empty is not None:
            return f"{param.value.name} has no element without {empty}"
    for step in graph.steps:
        if isinstance(step, Apply):
            for expr in step.body(graph.types).order():
                if expr.prim in WINDOWS and length(Windows.of(expr).length) == 0:
                    return f"windows of an empty axis in {step.op.name}, {line_of(step)}"
                shape = expr.args[0].shape if expr.prim in LEAST else ()
                axes = [shape[axis] for axis in expr.axes()] if shape else []
                empty = next((dim for dim in axes if length(dim) == 0), None)
                if empty is not None:
                    return f"{LEAST[expr.prim]} over {empty} in {step.op.name}, {line_of(step)}"
    return None


def line_of(step: Apply) -> str:
    """The line of a step in words."""
    return f"line {step.span.line}"


# Differences of a program in which gradients end: what is stopped is a constant of the run.
#
# So is a route, the places of the largest, a comparison, and a step such as a sign: where it
# changes there is no derivative. Equal operands of a maximum stay equal partners: their gradient is
# the convention's, and any other is wrong.
#
# Generated code computes a stopped value again for other parameters, so differences of it would see
# through. Here the interpreter computes the outputs, with the stopped values of the first run; the
# gradients are those of the generated code.


def stops(program: IRProgram) -> bool:
    """Whether a gradient ends at some step of the forward pass."""
    return any(
        expr.prim in ("stop", "top", *STEPS)
        for graph in program.graphs.values()
        for step in graph.steps
        if isinstance(step, Apply)
        for expr in step.body(graph.types).order()
    )


@dataclass(frozen=True)
class StoppedModule:
    """A module whose outputs are computed with the stopped values of one run."""

    program: IRProgram
    module: Module
    stopped: Stopped

    @property
    def ties(self) -> tuple[str, ...]:
        """The operators whose operands are equal at the point and differ beside it."""
        steps = (step for step in self.stopped.ties if isinstance(step, Apply))
        return tuple(dict.fromkeys(f"{step.op.glyph} in {line_of(step)}" for step in steps))

    @classmethod
    def at(
        cls, program: IRProgram, module: Module, params: Arrays, inputs: Arrays, seed: int
    ) -> StoppedModule:
        """The module around a point, with the dropout of a seed."""
        stopped = Stopped()
        Interpreter(program, params, seed, stopped=stopped).forward(inputs)
        return cls(program, module, stopped)

    def init(self, seed: int = 0, dtype: DTypeLike = np.float32) -> Arrays:
        """Return the parameters of the module."""
        return self.module.init(seed, dtype)

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Saved]:
        """Return the outputs with what is stopped held, and what `backward` runs again."""
        replayed = self.stopped.replayed()
        runner = Interpreter(self.program, params, seed, stopped=replayed)
        return runner.forward(inputs)[0], (inputs, seed)

    def backward(self, params: Arrays, saved: Saved, d_outputs: Arrays) -> Arrays:
        """Return the gradients of the module."""
        inputs, seed = saved
        _, own = self.module.forward(params, inputs, seed=seed)
        return self.module.backward(params, own, d_outputs)
