"""Calls that share their parameters: these must have one shape in all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.ir.dim import Dim
from xg.ir.graph import Call, Graph
from xg.ir.instances import inside
from xg.ir.tensor import Shape, spell_shape
from xg.passes.infer.errors import SharedShape

Graphs = Mapping[str, Graph]


def shared_shapes(graph: Graph, graphs: Graphs) -> Iterator[SharedShape]:
    """The errors in the calls of a typed graph that share a name."""
    first: dict[str, Call] = {}
    for step in graph.steps:
        if not isinstance(step, Call):
            continue
        known = first.setdefault(step.path, step)
        if known.sizes != step.sizes:
            yield from _differences(graph, known, step, graphs)


def _differences(graph: Graph, first: Call, again: Call, graphs: Graphs) -> Iterator[SharedShape]:
    wanted = dict(_params(graph, first, graphs))
    for name, shape in _params(graph, again, graphs):
        if shape != wanted[name]:
            shapes = [spell_shape(graph.sizes.fold_shape(s)) for s in (shape, wanted[name])]
            yield SharedShape(again.span, name, shapes[0], shapes[1], first.span)
            return  # one says it all


def _params(graph: Graph, call: Call, graphs: Graphs) -> Iterator[tuple[str, Shape]]:
    """Every parameter of a call and of its callees, by path, its shape in the caller's sizes."""
    waiting: list[tuple[str, Graph, Call, Mapping[str, Dim]]] = [("", graph, call, {})]
    while waiting:
        path, caller, step, symbols = waiting.pop()
        callee = graphs[step.callee]
        below = inside(step, caller, callee, symbols)
        here = f"{path}{step.path}."
        for param in callee.params:
            yield here + str(param.value.name), callee.types[param.value].substitute(below).shape
        calls = (inner for inner in callee.steps if isinstance(inner, Call))
        waiting.extend((here, callee, inner, below) for inner in calls)
