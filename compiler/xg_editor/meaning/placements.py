"""Where the plans of a project put a value."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.choose_plan import plans_of
from xg.frontend.project import Project
from xg.frontend.typed import TypedBlocks
from xg.ir.graph import Graph, Value
from xg.ir.plan import Plan
from xg.sharding.placing import Clash, Misfit, placing, reach_of
from xg.syntax import ast
from xg.syntax.ast import Syntax
from xg_editor.meaning.edges import laid_out, values_of


def placements_at(
    project: Project, typed: TypedBlocks, block: ast.Block, tree: Syntax
) -> dict[str, str]:
    """The placement of a value in each plan that names it: `[D, D_ff/N_T] -> [D, D_ff]`.

    Args:
        project: the files whose plans count, without errors where there are graphs.
        typed: the blocks that were typed.
        block: the block as written; plans of its callers are not considered.
        tree: the port or the declaration of the name.
    """
    near = typed.of(block)
    if not near:
        return {}
    try:
        plans = plans_of(project).values()
    except DiagnosticError:
        return {}
    is_param = isinstance(tree, ast.Param)
    by_plan: dict[str, str] = {}
    for graph, plan in product(near, plans):
        for value in values_of(graph, block, tree):
            by_plan.update((plan.name, text) for text in _placed(graph, plan, value, is_param))
    return by_plan


def _placed(graph: Graph, plan: Plan, value: Value, is_param: bool) -> Iterator[str]:
    entries = reach_of(plan, graph.block_id).of(str(value.name), is_param=is_param)
    if not entries or value not in graph.types:
        return
    try:
        placed = placing(entries, graph.types[value].shape, graph.sizes)
    except (Misfit, Clash):
        return  # an error, reported at its place
    rest, use = (laid_out(graph, value, cuts) for cuts in (placed.rest, placed.use))
    yield rest if rest == use else f"{rest} -> {use}"
