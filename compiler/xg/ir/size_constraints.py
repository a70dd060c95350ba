"""Constraints of operators on sizes, in the sizes of the entry block: ``S <= S_max``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xg.ir.dim import Dim, number
from xg.ir.graph import Apply, Graph, Program
from xg.ir.instances import instances
from xg.ir.integer_reach import WIDEST, at_most, reaches
from xg.ir.op import AtMost

EXACT: Final = "integers are exact up to int64, so write float(i) where they may be larger"


def size_constraints(program: Program) -> Iterator[AtMost]:
    """The conditions of every operator in every use of its block."""
    for graph, symbols in instances(program):
        for _, fact in facts_of(graph):
            smaller, larger = (
                graph.sizes.expand(dim).substitute(symbols) for dim in (fact.smaller, fact.larger)
            )
            yield AtMost(smaller, larger, fact.why)


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
