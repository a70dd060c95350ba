"""A graph in which several symbols are one: an Attention that is called with S = S_k."""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.body import attribute
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Call, Graph


def specialize(graph: Graph, symbols: Mapping[str, Dim]) -> Graph:
    """The graph with symbols replaced in every type and every attribute; its values stay."""

    def change(dim: Dim) -> Dim:
        return dim.substitute(symbols)

    if not symbols:
        return graph
    steps: list[Apply | Call] = []
    for step in graph.steps:
        if isinstance(step, Apply):
            attrs = {key: attribute(value, change) for key, value in step.attrs.items()}
            steps.append(replace(step, attrs=attrs))
        else:
            sizes = {name: change(dim) for name, dim in step.sizes.items()}
            count = change(step.count) if step.count is not None else None
            steps.append(replace(step, sizes=sizes, count=count))
    types = {value: type_.substitute(symbols) for value, type_ in graph.types.items()}
    return replace(graph, steps=tuple(steps), types=types)
