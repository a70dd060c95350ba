"""Entries of values that a pass removed from a graph are removed from the graph's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from xg.ir.graph import Backward, Call, Graph, Step, Value

Entry = TypeVar("Entry")
G = TypeVar("G", bound=Graph)


def entering(graph: Graph) -> Iterator[Value]:
    """Every value that is there before the first step."""
    yield from graph.inputs
    yield from graph.param_values()
    yield from (state.past for state in graph.states)
    if isinstance(graph, Backward):
        yield from graph.saved


def made(step: Step) -> tuple[Value, ...]:
    """The values that a step makes, with what a call keeps for its backward pass."""
    if isinstance(step, Call) and step.origin is None:
        return (*step.outputs, step.saved)
    return step.outputs


def values(graph: Graph) -> Iterator[Value]:
    """Every value of a graph, in the order in which they come into being."""
    yield from entering(graph)
    for step in graph.steps:
        yield from made(step)


def prune(graph: G) -> G:
    """The graph with only its own values in its tables."""
    present = frozenset(values(graph))

    def kept(table: Mapping[Value, Entry]) -> dict[Value, Entry]:
        return {value: entry for value, entry in table.items() if value in present}

    return replace(
        graph,
        types=kept(graph.types),
        layouts=kept(graph.layouts),
        placement_requests=kept(graph.placement_requests),
        placements=kept(graph.placements),
        aliases=tuple((name, value) for name, value in graph.aliases if value in present),
        reusable=tuple(value for value in graph.reusable if value in present),
    )
