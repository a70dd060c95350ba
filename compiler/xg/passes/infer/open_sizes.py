"""Sizes that a call leaves open: they are the program's, and must not look like the caller's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.ir.graph import Call, Graph
from xg.passes.infer.calls import bound_names
from xg.passes.infer.errors import OpenSize, OpenTwice

Graphs = Mapping[str, Graph]


def open_sizes(graphs: Graphs, numbers: Mapping[str, int]) -> Iterator[OpenSize | OpenTwice]:
    """The errors in sizes that calls of typed graphs leave open; `graphs` has callees first.

    `numbers` are the program's, where graphs have others.
    """
    left: dict[str, dict[str, str]] = {}
    for key, graph in graphs.items():
        bound = bound_names(graph)
        names = {name: graph.block for name in _mentioned(graph) if not _is_own(name, graph)}
        for call in graph.calls:
            opened = {n: b for n, b in left[call.callee].items() if n not in call.sizes}
            callee = graphs[call.callee]
            known = {**callee.sizes.defaults, **numbers}
            yield from _refused(graph, call, callee, opened, bound, known)
            names |= {name: block for name, block in opened.items() if name not in bound}
        left[key] = names


def _refused(
    graph: Graph,
    call: Call,
    callee: Graph,
    opened: Mapping[str, str],
    bound: frozenset[str],
    numbers: Mapping[str, int],
) -> Iterator[OpenSize | OpenTwice]:
    for name, block in opened.items():
        definition = callee.sizes.definitions.get(name)
        number = numbers.get(name) if name in callee.sizes.defaults else None
        if definition is None and number is None:
            ours = name in bound or name in graph.mentions
            yield OpenSize(call.span, callee.block, name, block, name if ours else "…")
        elif name in bound and name not in callee.sizes.local:
            program = str(definition or number)
            yield OpenTwice(call.span, callee.block, name, block, graph.block, program)


def _is_own(name: str, graph: Graph) -> bool:
    """Whether a block says itself what a symbol is."""
    sizes = graph.sizes
    return name in sizes.local and (name in sizes.definitions or name in sizes.defaults)


def _mentioned(graph: Graph) -> list[str]:
    """The dims that a graph's text mentions, with those by which they are defined."""
    waiting, mentioned = list(graph.mentions), dict[str, None]()
    while waiting:
        name = waiting.pop()
        if name not in mentioned:
            mentioned[name] = None
            needed = graph.sizes.definitions.get(name)
            waiting += needed.symbols() if needed else ()
    return list(mentioned)
