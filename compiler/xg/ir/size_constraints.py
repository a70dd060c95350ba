"""Constraints of operators on sizes, in the sizes of the entry block: ``S <= S_max``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xg.ir.dim import ONE, Dim, number
from xg.ir.graph import Apply, Graph, Program
from xg.ir.instances import instances
from xg.ir.integer_reach import WIDEST, at_most, reaches
from xg.ir.op import AtMost
from xg.ir.prim import Expr

EXACT: Final = "integers are exact up to int64, so write float(i) where they may be larger"


def size_constraints(program: Program) -> Iterator[AtMost]:
    """The conditions of every operator in every use of its block."""
    for graph, symbols in instances(program):
        for _, fact in facts_of(graph):
            smaller, larger = (
                graph.sizes.expand(dim).substitute(symbols) for dim in (fact.smaller, fact.larger)
            )
            yield AtMost(smaller, larger, fact.why)


def axes_with_positions(program: Program) -> Iterator[AtMost]:
    """Every axis that may not be empty, and the operator that needs a position of it.

    Shapes hold for empty axes, too: a batch may have nothing. But there is no maximum of nothing,
    and no window of an axis without positions.
    """
    for graph, symbols in instances(program):
        for step in graph.steps:
            if isinstance(step, Apply):
                needed = [dim for expr in step.body(graph.types).order() for dim in _needed(expr)]
                for dim in needed:
                    why = f"{step.op.glyph} ({step.op.name}) needs at least one position"
                    yield AtMost(ONE, graph.sizes.expand(dim).substitute(symbols), why)


def _needed(expr: Expr) -> list[Dim]:
    """The axes of a primitive's operand that it can't find empty."""
    match expr.prim:
        case "max":
            return [expr.args[0].shape[axis] for axis in expr.axes()]
        case "top":
            return [expr.args[0].shape[-1]]
        case "window":
            return [expr.typed("length", Dim), expr.typed("width", Dim)]
        case "overlap":
            return [expr.typed("count", Dim), expr.typed("width", Dim)]
        case "cut":  # what is one position long is picked from the axis
            axis = expr.typed("axis", int)
            return [expr.args[0].shape[axis]] if expr.shape[axis] == ONE else []
        case _:
            return []


def facts_of(graph: Graph) -> Iterator[tuple[Apply, AtMost]]:
    """The conditions of every operator of a graph, in the graph's symbols."""
    for step in graph.steps:
        if not isinstance(step, Apply):
            continue
        types = [graph.types[value] for value in step.inputs]
        if step.op.facts is not None:
            yield from ((step, fact) for fact in step.op.facts(types, step.attrs))
        for reach in reaches_of(graph, step):
            if at_most(reach) > WIDEST:
                yield step, AtMost(reach, number(WIDEST), EXACT)


def reaches_of(graph: Graph, step: Apply) -> list[Dim]:
    """Bounds of the integers that an operator computes from other integers."""
    types = [graph.types[value] for value in step.inputs]
    return reaches(step.body(graph.types), types)
