"""Constraints of operators on sizes, in the sizes of the entry block: ``S <= S_max``."""

from __future__ import annotations

from collections.abc import Iterator

from xg.ir.graph import Apply, Graph, Program
from xg.ir.instances import instances
from xg.ir.op import AtMost


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
        if isinstance(step, Apply) and step.op.facts is not None:
            types = [graph.types[value] for value in step.inputs]
            yield from ((step, fact) for fact in step.op.facts(types, step.attrs))
