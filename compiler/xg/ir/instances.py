"""The uses of a program's graphs, each with its symbols in the sizes of the entry block."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from xg.ir.dim import Dim, number
from xg.ir.graph import Call, Graph, Program

INSTANCES_AT_MOST = 1_000  # with sizes of their own; a repetition is one

Symbols = Mapping[str, Dim]


def instances(program: Program) -> Iterator[tuple[Graph, Symbols]]:
    """Every graph under every binding of its symbols, callers first."""
    waiting: deque[tuple[Graph, Symbols]] = deque([(program.main, {})])
    seen: set[tuple[str, frozenset[tuple[str, Dim]]]] = set()
    while waiting and len(seen) < INSTANCES_AT_MOST:
        graph, symbols = waiting.popleft()
        key = (graph.key, frozenset(symbols.items()))
        if key in seen:
            continue
        seen.add(key)
        yield graph, symbols
        for step in graph.steps:
            if isinstance(step, Call):
                callee = program.graphs[step.callee]
                waiting.append((callee, inside(step, graph, callee, symbols)))


def inside(call: Call, caller: Graph, callee: Graph, symbols: Symbols) -> dict[str, Dim]:
    """A callee's symbols in the sizes of the entry, given the caller's.

    The call binds what it gives and what its operands carry; a number that the callee declares for
    itself stands before the program's. What is left open is the program's.
    """
    own = callee.sizes.defaults
    local = {name: number(own[name]) for name in callee.sizes.local if name in own}
    bound = {name: dim.substitute(symbols) for name, dim in call.sizes.items()}
    return {**symbols, **local, **bound}
