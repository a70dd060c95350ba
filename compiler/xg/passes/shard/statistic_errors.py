"""Running statistics that ranks would not move as one device does (XG08xx)."""

from __future__ import annotations

from collections.abc import Iterator

from xg.diagnostics.diagnostic import Problem, ProblemAt
from xg.ir.graph import Graph, Value
from xg.ir.parameters import gathered, moving
from xg.ir.placement import local_shape
from xg.ir.tensor import spell_shape


class GatheredStatistic(ProblemAt):
    """A running statistic of which each rank keeps a part, and that is gathered for its use."""

    code = "XG0809"
    title = "the running statistic {name} is gathered, and each rank would move only its part of it"
    label = "read here"
    fix = "leave it whole on every rank: a line `{name} {shape}` of a plan of {block}"
    name: str
    shape: str
    block: str


class StatisticApart(ProblemAt):
    """A running statistic that is placed otherwise than the mean or variance it moves to."""

    code = "XG0813"
    title = "the running statistic {name} is {held}, and what it moves to {found}"
    label = "moved here"
    fix = "place it as the channels are: a line `{name} {found}` of a plan of {block}"
    name: str
    held: str
    found: str
    block: str


def refuse_statistics(graph: Graph) -> Iterator[Problem]:
    """The running statistics of a graph that are gathered, or placed otherwise than their goal."""
    for param, step in gathered(graph):
        whole = spell_shape(graph.sizes.fold_shape(graph.shape(param)))
        yield GatheredStatistic(step.span, str(param.name), whole, graph.block)
    for each in moving(graph):
        held, found = _part(each.param, graph), _part(each.target, graph)
        if held != found:
            yield StatisticApart(each.target.span, str(each.param.name), held, found, graph.block)


def _part(value: Value, graph: Graph) -> str:
    """The shape of what a rank has of a value."""
    shape = graph.shape(value)
    for axis, state in graph.placements.get(value, {}).items():
        shape = local_shape(shape, state, axis)
    return spell_shape(graph.sizes.fold_shape(shape))
