"""Calls that share their parameters: these must have one shape in all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.ir.graph import Call, Graph
from xg.ir.parameters import CallSite, join
from xg.ir.tensor import Shape, spell_shape
from xg.ir.walk import callers_first
from xg.passes.infer.errors import SharedShape

Graphs = Mapping[str, Graph]


def shared_shapes(graph: Graph, graphs: Graphs) -> Iterator[SharedShape]:
    """The errors in the calls of a typed graph that share a name."""
    first: dict[str, Call] = {}
    for call in graph.calls:
        before = first.setdefault(call.path, call)
        if before.sizes != call.sizes:
            yield from _differences(graph, before, call, graphs)


def _differences(graph: Graph, first: Call, again: Call, graphs: Graphs) -> Iterator[SharedShape]:
    first_shapes = dict(_params(graph, first, graphs))
    for name, shape in _params(graph, again, graphs):
        if shape != first_shapes[name]:
            shapes = [spell_shape(graph.sizes.fold_shape(s)) for s in (shape, first_shapes[name])]
            yield SharedShape(again.span, name, shapes[0], shapes[1], first.span)
            return  # one says it all


def _params(graph: Graph, call: Call, graphs: Graphs) -> Iterator[tuple[str, Shape]]:
    """Every parameter of a call and of its callees, by path, its shape in the caller's sizes."""

    def below(site: CallSite) -> Iterator[CallSite]:
        return (site.enter(inner, graphs) for inner in site.graph.calls)

    for site in callers_first(CallSite(graph, "", {}).enter(call, graphs), below):
        for param in site.graph.params:
            shape = site.graph.types[param.value].substitute(site.symbols).shape
            yield join(site.path, str(param.value.name)), shape
