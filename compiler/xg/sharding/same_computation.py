"""Whether two bodies are the same computation."""

from __future__ import annotations

from xg.ir.body import Body, topological


def same_computation(first: Body, second: Body) -> bool:
    """Whether two bodies apply the same primitives to the same operands in the same order."""
    left = list(topological((*first.operands, *first.outputs)))
    right = list(topological((*second.operands, *second.outputs)))
    if len(left) != len(right) or len(first.outputs) != len(second.outputs):
        return False
    places = {id(expr): place for place, expr in enumerate(left)}
    others = {id(expr): place for place, expr in enumerate(right)}
    return all(
        (a.prim, a.shape, a.kind, a.attrs) == (b.prim, b.shape, b.kind, b.attrs)
        and [places[id(x)] for x in a.args] == [others[id(x)] for x in b.args]
        for a, b in zip(left, right, strict=True)
    ) and [places[id(x)] for x in first.outputs] == [others[id(x)] for x in second.outputs]
