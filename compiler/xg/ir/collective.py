"""Operators that only change the placement of a tensor on the ranks of a mesh axis.

On the global tensor each is the identity, so shapes, figures and derivatives need to know nothing
of ranks. `moved` is the computation of one rank; the transpose of a move is the move between the
dual states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.op import Gradient, Op, Term
from xg.ir.placement import (
    INVARIANT,
    MOVES,
    PARTIAL,
    AxisState,
    all_gather,
    all_reduce,
    all_to_all,
    dual,
    first_rank_only,
    pad_from_shard,
    reduce_scatter,
    shard_slice,
)
from xg.ir.prim import Expr
from xg.ir.use import Attrs, MeshAxis

FAMILY: Final = "collective"
SENDING: Final = frozenset({"AR", "AG", "RS", "A2A"})  # the others stay on their rank


def move(over: str, source: AxisState, target: AxisState) -> tuple[str, Attrs]:
    """The glyph and the attributes of the operator from one state to another."""
    glyph = MOVES[source.kind, target.kind]
    return glyph, {"over": over, "source": source, "target": target}


def collective(
    glyph: str, name: str, meaning: str, formula: str, gradient: str, source: str, *, derived: bool
) -> Op:
    """The operator of a kind of move; a `derived` one is never written, only found."""
    return Op(
        glyph=glyph,
        name=name,
        family=FAMILY,
        own=(MeshAxis("over"),),
        forward=_whole,
        pullback=_transposed,
        derived=derived,
        keeps_shape=True,
        meaning=meaning,
        formula=formula,
        gradient=gradient,
        source=source,
    )


def moved(x: Expr, attrs: Attrs) -> Expr:
    """One rank's computation: from its part of `x` in one state to its part in the other."""
    over, source, target = attrs["over"], attrs["source"], attrs["target"]
    if (source, target) == (INVARIANT, PARTIAL):
        return first_rank_only(x, over)  # no move of a plan's: `passes.shard.joining` makes it
    match MOVES[source.kind, target.kind]:
        case "AR":
            return all_reduce(x, over)
        case "AG":
            return all_gather(x, over, source.axis)
        case "RS":
            return reduce_scatter(x, over, target.axis)
        case "A2A":
            return all_to_all(x, over, target.axis, source.axis)
        case "part":
            return shard_slice(x, over, target.axis)
        case "spread":
            return pad_from_shard(x, over, source.axis)
        case _:
            return x


def _whole(x: Expr, **_: object) -> Expr:
    return x


def _transposed(attrs: Attrs) -> Mapping[str, Gradient]:
    source, target = dual(attrs["target"]), dual(attrs["source"])
    if source is None or target is None:
        return {}
    glyph, back = move(attrs["over"], source, target)
    return {"x": Term(glyph, ("d",), back)}
