"""The types of edges: the results of inference for the values at a place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from xg.diagnostics.source import Span
from xg.frontend.typed import TypedBlocks
from xg.ir.graph import Graph, Value
from xg.ir.plan import Cuts, Layout
from xg.syntax import ast
from xg.syntax.ast import Syntax
from xg.syntax.spelling import greek_name

_WORD = re.compile(r"[A-Za-z]\w*")


def types_at(typed: TypedBlocks, block: ast.Block, tree: Syntax) -> list[str]:
    """The types of the values of a tree of a block, one for each of them.

    In choices of options that differ the types may differ: then they are listed one after the
    other.

        Args:
            typed: the blocks that were typed.
            block: the block as written.
            tree: a node, an operand, a chain, or the port or declaration of a name.
    """
    spellings: dict[int, dict[str, None]] = {}
    for graph in typed.of(block):
        for place, value in enumerate(values_of(graph, block, tree)):
            if value in graph.types:
                spellings.setdefault(place, {})[spelled(graph, value)] = None
    return [" or ".join(types) for _, types in sorted(spellings.items())]


def numbers_at(typed: TypedBlocks, block: ast.Block, tree: Syntax) -> dict[str, int]:
    """The sizes in those types that have a number."""
    numbers: dict[str, int] = {}
    for graph in typed.of(block):
        known = typed.numbers(graph)
        for value in values_of(graph, block, tree):
            names = _symbols(graph, value)
            numbers.update({name: known[name] for name in names if name in known})
    return numbers


def spelled(graph: Graph, value: Value) -> str:
    """The type of a value as the file would write it: `[B, S/N_T, D]`, `[B, S] in V`."""
    range_ = graph.types[value].range
    shape = laid_out(graph, value, graph.layouts.get(value, {}))
    return shape + (f" in {in_greek(str(graph.sizes.fold(range_)))}" if range_ is not None else "")


def laid_out(graph: Graph, value: Value, cuts: Cuts) -> str:
    """The shape of a value, its axes divided by the mesh axes that cut them."""
    shape = graph.shape(value)
    cutting = [tuple(a for a in cuts if cuts[a] == axis) for axis in range(-len(shape), 0)]
    return in_greek(str(Layout(shape, tuple(cutting))))


def in_greek(text: str) -> str:
    """A text with its names as `xg fmt` writes them."""
    return _WORD.sub(lambda word: greek_name(word[0]), text)


def _symbols(graph: Graph, value: Value) -> Iterator[str]:
    if value in graph.types:
        for dim in graph.shape(value):
            yield from dim.symbols()


def values_of(graph: Graph, block: ast.Block, tree: Syntax) -> tuple[Value, ...]:
    """The values of a tree in one graph of its block; none where this choice leaves it out.

    The graph may be that of the same text at another place.
    """
    match tree:
        case ast.NodeUse() | ast.Call():
            return _made(graph, block, tree.span)
        case ast.Chain():
            return _end(graph, block, tree)
        case ast.Path():
            return _named(graph, tree.name)
        case ast.Port() | ast.Param() | ast.State():
            return _named(graph, tree.name.name)
        case _:
            return ()


def _end(graph: Graph, block: ast.Block, chain: ast.Chain) -> tuple[Value, ...]:
    """The values at the end of a chain: from its last node, or from its sources."""
    values: list[Value] = []
    waiting: list[ast.Start] = [chain]
    while waiting:
        operand = waiting.pop()
        if not isinstance(operand, ast.Chain):
            values += values_of(graph, block, operand)
            continue
        leaving = _leaving(graph, block, operand.steps)
        if leaving is None:
            waiting += reversed(operand.sources)
        elif not leaving:
            return ()  # a node with an error: its results are unknown
        values += leaving or ()
    return tuple(values)


def _leaving(
    graph: Graph, block: ast.Block, nodes: Sequence[ast.NodeUse]
) -> tuple[Value, ...] | None:
    """The results of the last node that this choice keeps; None where it keeps none."""
    for node in reversed(nodes):
        values = _made(graph, block, node.span)
        if values or node.guard is None:
            return values
    return None


def _made(graph: Graph, block: ast.Block, span: Span) -> tuple[Value, ...]:
    by = graph.span.start - block.span.start
    there = Span(graph.span.source, span.start + by, span.end + by)
    made = next((step.outputs for step in graph.steps if step.span == there), ())
    return tuple(value for value in made if value.role != "cache")


def _named(graph: Graph, name: str) -> tuple[Value, ...]:
    foreign = ((str(value.name), value) for value in graph.foreign)
    return next(((value,) for other, value in (*graph.names(), *foreign) if other == name), ())
