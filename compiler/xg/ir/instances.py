"""The uses of a program's graphs, each with its symbols in the sizes of the entry block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xg.diagnostics.limits import Beyond, ExpandedOperators
from xg.ir.dim import Dim, number
from xg.ir.graph import Call, Graph, Program
from xg.ir.walk import level_by_level

Symbols = Mapping[str, Dim]


def instances(
    program: Program, starts: Sequence[tuple[str, Symbols]] | None = None
) -> Iterator[tuple[Graph, Symbols]]:
    """Every graph under every binding of its symbols, callers first; by default from the entries.

    There are no more of them than operators when all calls are expanded, which have a limit.
    """

    def below(instance: tuple[Graph, Symbols]) -> Iterator[tuple[Graph, Symbols]]:
        graph, symbols = instance
        for call in graph.calls:
            callee = program.graphs[call.callee]
            yield callee, inside(call, graph, callee, symbols)

    entries: Sequence[tuple[str, Symbols]] = [(key, {}) for key in program.entries]
    begun = entries if starts is None else starts
    graphs = [(program.graphs[key], symbols) for key, symbols in begun]
    return level_by_level(graphs, below, lambda each: (each[0].key, frozenset(each[1].items())))


def inside(call: Call, caller: Graph, callee: Graph, symbols: Symbols) -> dict[str, Dim]:
    """A callee's symbols in the sizes of the entry, given the caller's.

    The call binds the sizes that it gives and those of its operands; a number that the callee
    declares for itself overrides the program's. Symbols that stay open are the program's.
    """
    own = callee.sizes.defaults
    local = {name: number(own[name]) for name in callee.sizes.local if name in own}
    try:
        bound = {name: dim.substitute(symbols) for name, dim in call.sizes.items()}
    except Beyond as beyond:
        raise Beyond(beyond.limit.at(call.span)) from None
    return {**symbols, **local, **bound}


def too_many_operators(graphs: Mapping[str, Graph]) -> Iterator[ExpandedOperators]:
    """The first call with which the expanded operators pass their limit; `graphs`: callees first.

    Counted without expanding anything: a call counts what its callee does, at least one.
    """
    counts: dict[str, int] = {}
    for key, graph in graphs.items():
        count = 0
        for step in graph.steps:
            count += max(1, counts[step.callee]) if isinstance(step, Call) else 1
            if count > ExpandedOperators.maximum:
                yield ExpandedOperators(step.span, count)
                return
        counts[key] = count
