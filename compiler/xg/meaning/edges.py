"""The types of edges: what inference found out about the values that a place speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from xg.graph import Apply, Call, Graph, Value
from xg.source import Span
from xg.syntax import ast
from xg.syntax.spelling import greek_name
from xg.tensor import TensorType

_WORD = re.compile(r"[A-Za-z]\w*")


def types_at(graphs: Sequence[Graph], block: ast.Block, tree: ast.Syntax) -> list[str]:
    """The types of what a tree of a block gives, one for each of its values.

    In choices of options that differ the types may differ: then they stand behind one another.

    Args:
        graphs: every graph that was typed; those of other blocks do not count.
        block: the block as written.
        tree: a node, an operand, a chain, or the port or declaration of a name.
    """
    found: dict[int, dict[str, None]] = {}
    for graph in graphs:
        if graph.span == block.span:
            for place, value in enumerate(values_of(graph, block, tree)):
                if value in graph.types:
                    found.setdefault(place, {})[spelled(graph, value)] = None
    return [" or ".join(types) for _, types in sorted(found.items())]


def numbers_at(graphs: Sequence[Graph], block: ast.Block, tree: ast.Syntax) -> dict[str, int]:
    """The sizes in those types that have a number."""
    numbers: dict[str, int] = {}
    for graph in graphs:
        if graph.span == block.span:
            known = graph.sizes.bind({})
            for value in values_of(graph, block, tree):
                names = _symbols(graph, value)
                numbers.update({name: known[name] for name in names if name in known})
    return numbers


def spelled(graph: Graph, value: Value) -> str:
    """The type of a value as the file would write it: `[B, S, D]`, `[B, S] in V`."""
    range_ = graph.types[value].range
    folded = graph.sizes.fold(range_) if range_ is not None else None
    return _WORD.sub(lambda word: greek_name(word[0]), str(TensorType(graph.shape(value), folded)))


def _symbols(graph: Graph, value: Value) -> Iterator[str]:
    if value in graph.types:
        for dim in graph.shape(value):
            yield from dim.symbols()


def values_of(graph: Graph, block: ast.Block, tree: ast.Syntax) -> tuple[Value, ...]:
    """What a tree gives in one graph of its block; nothing where this choice leaves it out."""
    match tree:
        case ast.NodeUse() | ast.Call():
            return _made(graph, tree.span)
        case ast.Chain():
            return edge_before(graph, block, tree, len(tree.steps))
        case ast.Path():
            return _named(graph, block, tree.name)
        case ast.Port() | ast.Param() | ast.State():
            return _named(graph, block, tree.name.name)
        case _:
            return ()


def edge_before(
    graph: Graph, block: ast.Block, chain: ast.Chain, position: int
) -> tuple[Value, ...]:
    """What flows along the arrow in front of a node of a chain."""
    found: list[Value] = []
    before = ast.Chain(chain.span, chain.sources, chain.label, chain.steps[:position])
    waiting: list[ast.Operand] = [before]
    while waiting:
        operand = waiting.pop()
        if not isinstance(operand, ast.Chain):
            found += values_of(graph, block, operand)
            continue
        made = _leaving(graph, operand.steps)
        if made is None:
            waiting += reversed(operand.sources)
        elif not made:
            return ()  # a node with a mistake: nothing is known of what it gives
        found += made or ()
    return tuple(found)


def _leaving(graph: Graph, nodes: Sequence[ast.NodeUse]) -> tuple[Value, ...] | None:
    """What leaves the last node that this choice keeps; None where it keeps none."""
    for node in reversed(nodes):
        made = _made(graph, node.span)
        if made or node.guard is None:
            return made
    return None


def _made(graph: Graph, span: Span) -> tuple[Value, ...]:
    for step in graph.steps:
        if step.span == span:
            return _visible(step)
    return ()


def _visible(step: Apply | Call) -> tuple[Value, ...]:
    return tuple(value for value in step.outputs if value.role != "cache")


def _named(graph: Graph, block: ast.Block, name: str) -> tuple[Value, ...]:
    """The value of a name; an edge with several labels is known by the first of them."""
    params = (param.value for param in graph.params)
    made = (value for step in graph.steps for value in _visible(step))
    for value in (*graph.inputs, *params, *graph.foreign, *made):
        if value.name == name:
            return (value,)
    for chain in (tree for tree in ast.walk(block) if isinstance(tree, ast.Chain)):
        for position, node in enumerate(chain.steps, 1):
            ports = node.label.ports if node.label else ()
            if [port.name.name for port in ports] == [name]:
                return edge_before(graph, block, chain, position)
    return ()
