"""The lengths 0 and 1 of axes that only arrays number, and why a program refuses one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Graph, Program
from xg.ir.instances import instances
from xg.ir.size_checks import check_numbers
from xg.ir.window_prims import Windows

SHORT: Final = (1, 0)
LEAST: Final = {"max": "the largest", "mean": "the mean"}  # of nothing there is none
WINDOWS: Final = ("window", "overlap")  # which no backend cuts out of nothing

Numbers = Mapping[str, int]


def free_axes(program: Program, fixed: Iterable[str]) -> list[str]:
    """The symbols that are axes of inputs and that neither the file nor a setting `fixed`."""
    main = program.main
    axes = (dim.name for value in main.inputs for dim in main.types[value].shape)
    names = dict.fromkeys(name for name in axes if name is not None)
    return [name for name in names if name not in {*fixed, *main.sizes.definitions}]


def short(program: Program, sizes: Numbers, free: Iterable[str]) -> Iterator[tuple[str, Program]]:
    """The program with each free axis of length 1, then of length 0, and a name for it."""
    for name in free:
        for length in SHORT:
            numbers = {**sizes, name: length}
            yield f"length {length} of {name}", replace(program, numbers=numbers)


def refusal(program: Program) -> str | None:
    """Why the numbers of a program are none that it can have; None if they are fine."""
    try:
        check_numbers(program, {}, least=0)
    except DiagnosticError as error:
        return error.diagnostics[0].message
    for graph, symbols in instances(program):
        found = _of_nothing(program, graph, symbols)
        if found:
            return found
    return None


def _of_nothing(program: Program, graph: Graph, symbols: Mapping[str, Dim]) -> str | None:
    """Name an operator that needs a position of an empty axis."""
    numbers = program.all_numbers

    def length(dim: Dim) -> int:
        return graph.sizes.expand(dim).substitute(symbols).evaluate(numbers)

    for value in graph.inputs:
        type_ = graph.types[value]
        if type_.range is not None and length(type_.range) == 0 and all(map(length, type_.shape)):
            return f"no integer is below {type_.range}, the range of {value.name}"
    for param in graph.params:
        shape = param.type.shape
        if len(shape) > 1 and length(shape[-2]) == 0:
            return f"{param.value.name} is drawn from 1/sqrt({shape[-2]})"
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
