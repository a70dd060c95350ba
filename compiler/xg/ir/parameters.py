"""The parameters and states of a program: every one with its path through the calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.ir.dim import Dim
from xg.ir.graph import Call, Graph, Param, Program
from xg.ir.instances import inside
from xg.ir.tensor import TensorType


def param_specs(program: Program) -> Iterator[tuple[str, Param, Graph, Mapping[str, Dim]]]:
    """Every parameter with its path, in file order; rows of calls are counted by the numbers."""
    numbers = program.main.sizes.bind(program.numbers)
    waiting: list[tuple[Graph, str, Mapping[str, Dim]]] = [(program.main, "", {})]
    while waiting:
        graph, path, symbols = waiting.pop()
        for param in graph.params:
            yield join(path, str(param.value.name)), param, graph, symbols
        below: list[tuple[Graph, str, Mapping[str, Dim]]] = []
        for step in graph.named_calls():
            below += _called(program, step, graph, path, symbols, numbers)
        waiting += reversed(below)


def state_shapes(program: Program) -> Iterator[tuple[str, TensorType]]:
    """Every state with its path, in the sizes of the entry; rows of calls are counted."""
    numbers = program.main.sizes.bind(program.numbers)
    waiting: list[tuple[Graph, str, Mapping[str, Dim]]] = [(program.main, "", {})]
    while waiting:
        graph, path, symbols = waiting.pop()
        for state in graph.states:
            type_ = graph.sizes.expand_type(graph.types[state.past]).substitute(symbols)
            yield join(path, state.name), type_
        below: list[tuple[Graph, str, Mapping[str, Dim]]] = []
        for step in graph.steps:
            if isinstance(step, Call):
                below += _called(program, step, graph, path, symbols, numbers)
        waiting += reversed(below)


def _called(
    program: Program,
    call: Call,
    graph: Graph,
    path: str,
    symbols: Mapping[str, Dim],
    numbers: Mapping[str, int],
) -> Iterator[tuple[Graph, str, Mapping[str, Dim]]]:
    """The graphs that a call runs, in order, each with its path and symbols."""
    callee = program.graphs[call.callee]
    inner = inside(call, graph, callee, symbols)
    count = call.count and call.count.substitute(symbols).evaluate(numbers)
    rounds = [""] if count is None else [f".{index}" for index in range(count)]
    return ((callee, join(path, f"{call.path}{each}"), inner) for each in rounds)


def join(path: str, name: str) -> str:
    """A path below another; the top has the empty path."""
    return f"{path}.{name}" if path else name
