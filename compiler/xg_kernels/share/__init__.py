"""Compute numbers that depend only on sizes once, before all calls that read them.

A rotation by position has the same cosines in every layer, for queries and for keys. Where blocks
are called they become inputs, which the entry makes. Only steps of generation with kernels ask for
it: they are short, and few of their numbers are products.
"""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.body import map_sizes
from xg.ir.content import prune
from xg.ir.graph import Apply, Graph, IRProgram, Step
from xg.ir.prim import Expr
from xg.ir.walk import inside
from xg_kernels.share.constants import SizeTable, SizeTables, known_parts, reading


def share(program: IRProgram) -> IRProgram:
    """The program whose blocks are given what depends on sizes alone."""
    graphs: dict[str, Graph] = {}
    given: dict[str, tuple[SizeTable, ...]] = {}
    loops = {call.callee for graph in program.graphs.values() for call in graph.calls if call.loop}
    for key, graph in program.graphs.items():  # callees come first
        asked = {step: list(_find_numbers(step, graph, graphs, given)) for step in graph.steps}
        if key in loops or key in program.entries:
            graphs[key], given[key] = _making(graph, asked), ()
        else:
            graphs[key], given[key] = _taking(graph, asked)
    return replace(program, graphs=graphs)


Asked = Mapping[Step, list[tuple[Expr, ...]]]


def _find_numbers(
    step: Step,
    graph: Graph,
    graphs: Mapping[str, Graph],
    given: Mapping[str, tuple[SizeTable, ...]],
) -> list[tuple[Expr, ...]]:
    """The numbers that a step reads, in the sizes of its graph."""
    if isinstance(step, Apply):
        parts = known_parts(step.body(graph.types))
        return [parts] if parts else []
    callee = graphs[step.callee]
    symbols = inside(step, graph, callee, {})
    return [
        map_sizes(table.parts, lambda dim: callee.sizes.expand(dim).substitute(symbols))
        for table in given[step.callee]
    ]


def _making(graph: Graph, asked: Asked) -> Graph:
    """A graph that makes them itself, first of all; not what only one operator of it reads."""
    tables = SizeTables(graph, "edge")
    for step, lists in asked.items():
        for parts in lists:
            tables.count(parts, 1 if isinstance(step, Apply) else 2)
    steps = _steps(graph, asked, tables, least=2)
    made = [table.step() for table in tables.used]
    return _with(graph, (*made, *steps), tables) if made else graph


def _taking(graph: Graph, asked: Asked) -> tuple[Graph, tuple[SizeTable, ...]]:
    """A graph that is given them, and what it is given."""
    tables = SizeTables(graph, "input")
    for lists in asked.values():
        for parts in lists:
            tables.count(parts, 1)
    steps = _steps(graph, asked, tables, least=1)
    if not tables.used:
        return graph, ()
    inputs = (*graph.inputs, *(value for table in tables.used for value in table.values))
    return _with(replace(graph, inputs=inputs), steps, tables), tuple(tables.used)


def _steps(graph: Graph, asked: Asked, tables: SizeTables, least: int) -> tuple[Step, ...]:
    """Return the steps, which read the tables with at least `least` readers."""
    steps: list[Step] = []
    for step in graph.steps:
        read = [(parts, tables.table(parts)) for parts in asked[step]]
        read = [(parts, table) for parts, table in read if table.readers >= least]
        values = tuple(value for _, table in read for value in table.values)
        for _, table in read:
            tables.use(table)
        if isinstance(step, Apply):
            steps += [reading(step, graph.types, parts, table.values) for parts, table in read]
            steps += [] if read else [step]
        else:
            steps.append(replace(step, inputs=(*step.inputs, *values)) if values else step)
    return tuple(steps)


def _with(graph: Graph, steps: tuple[Step, ...], tables: SizeTables) -> Graph:
    return prune(replace(graph, steps=steps, types={**graph.types, **tables.types()}))
