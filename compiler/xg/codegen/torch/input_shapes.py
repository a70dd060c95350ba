"""Lines of a model that refuse inputs of other shapes, by the names that the file gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xg.codegen.emit.line_breaks import dictionary
from xg.codegen.emit.locate import Source
from xg.codegen.emit.spelling import Scope
from xg.codegen.emit.text import tuple_of
from xg.ir.graph import Graph, Value
from xg.ir.known_sizes import closure, symbols_of


def as_given(graph: Graph, given: str) -> list[Source]:
    """The inputs in the dict `given`; the number of axes is checked where one is read."""
    shapes = [(value, graph.types[value].shape) for value in graph.inputs]
    return [(f'_array({given}, "{value.name}", {len(shape)})', shape) for value, shape in shapes]


def shape_lines(
    graph: Graph, given: str, wanted: str, own: Sequence[Source], scope: Scope
) -> list[str]:
    """A check of all inputs whose sizes they carry themselves, or parameters of the model.

    `given` is the variable of the inputs, `wanted` that of their shapes, if the line is long.
    """
    items = [
        f'"{value.name}": {tuple_of(scope.shape(graph.types[value].shape))}'
        for value in _known(graph, own)
    ]
    lines = dictionary(f"_check({given}, {{}}, ", items, ")", 8) if items else []
    if len(lines) < 2:
        return lines
    return [*dictionary(f"{wanted} = ", items, "", 8), f"_check({given}, {{}}, {wanted})"]


def _known(graph: Graph, own: Sequence[Source]) -> Iterator[Value]:
    sizes = graph.sizes
    shapes = [*(shape for _, shape in own), *(graph.types[value].shape for value in graph.inputs)]
    carried = symbols_of(shapes, sizes)
    for value in graph.inputs:
        shape = graph.types[value].shape
        symbols = {name for dim in shape for name in sizes.computed(dim).symbols()}
        names, defined = closure(symbols, carried, sizes)
        if {*carried, *defined}.issuperset(names):
            yield value
