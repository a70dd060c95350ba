"""Send tokens to their experts while these have free places (Lepikhin et al. 2020)."""

from __future__ import annotations

from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import ONE, Dim, size
from xg.ir.op import Op
from xg.ir.prim import (
    Expr,
    all_axes,
    binary,
    broadcast,
    earlier,
    integer,
    reduce_sum,
    reshape,
    sums_of_rows,
    where,
)
from xg.ir.use import Attrs, Data, Length, Misuse, Use


def configure(use: Use) -> Attrs:
    """Check the operands, and count the places in `range`: the last one is no place."""
    x, ids = use.types
    experts, capacity = use.own["experts"], use.own["capacity"]
    if len(x.shape) < 2 or ids.shape[:-1] != x.shape[:-1]:
        raise Misuse(
            f"dispatch sends tokens {use.spell(x.shape)} to experts {use.spell(ids.shape)}",
            {1: f"k experts for each are {use.spell(x.shape[:-1])[:-1]}, k]"},
            (f"topk chooses among the experts of a token: {use.spell((*x.shape[:-1], experts))}",),
        )
    if ids.range != experts:
        name = use.sizes.fold(experts)
        raise Misuse(f"dispatch has {name} experts", {1: f"these numbers are not `in {name}`"})
    return {"experts": experts, "capacity": capacity, "range": experts * capacity + 1}


def forward(x: Expr, ids: Expr, *, experts: Dim, capacity: Dim, range: Dim) -> list[Expr]:
    """Each choice of a token takes the next place of its expert: earlier tokens come first.

    Under `jax.jit` an expert that is not there is a very large number, whose place would overflow.
    """
    *lead, tokens, width = x.shape
    chosen = reshape(ids, (*lead, tokens * ids.shape[-1]))
    before = earlier(chosen).named("before")
    has_place = integer(size(capacity)) > before
    fits = binary("and", has_place, integer(size(experts)) > chosen).named("fits")
    place = chosen * integer(size(capacity)) + before
    slot = reshape(where(fits, place, integer(size(range - 1))), ids.shape).named("slot")
    each = reshape(x, (*lead, tokens, ONE, width))
    copies = broadcast(each, (*ids.shape, width))
    rows = sums_of_rows(copies, slot, range - 1, len(lead))
    lost = where(fits, 0.0, 1.0)
    dropped = reduce_sum(lost, all_axes(lost), keep=False)
    return [reshape(rows, (*lead, experts, capacity, width)), slot, dropped]


CONVENTIONS: Final = (
    Convention("index outside", "a token that finds no place is dropped, and has no gradient",
        "x -> dispatch(2, 1)<-ids : y, slot, dropped",
        {"x [S, D]": ((3.0,), (5.0,)), "ids [S, K] in 2": ((0,), (0,))}, (((3.0,),), ((0.0,),)),
        {"x": ((1.0,), (0.0,))}, result="y [2, 1, D]"),
    Convention("index outside",
        "xg refuses an expert that is not there; under jax.jit its token is sent nowhere",
        "x -> dispatch(2, 1)<-ids : y, slot, dropped",
        {"x [S, D]": ((3.0,), (5.0,)), "ids [S, K] in 2": ((0,), (2,))}, result="y [2, 1, D]",
        refused="is 2, expected integers from 0 to 1", others={"jax jit": (((3.0,),), ((0.0,),))}),
)  # fmt: skip

OP: Final = Op(
    glyph="dispatch",
    name="dispatch",
    family="layout",
    data=(Data("x"), Data("ids", "int")),
    own=(Length("experts"), Length("capacity")),
    outputs=("rows", "slot", "dropped"),
    forward=forward,
    configure=configure,
    conventions=CONVENTIONS,
    meaning="sends tokens to the experts that integers name; earlier tokens get slots first, and "
    "a choice without a slot is dropped; slot is each choice's slot, or experts·capacity if "
    "dropped; dropped counts the dropped choices",
    formula="Y[e, c] = X[s] where choice (s, j) is the (c+1)-th of expert e; slot[s, j] = e·C + c",
    gradient="dX[s] = Σ_j dY[slot[s, j]], 0 where a choice has no place",
    source="Lepikhin et al. 2020; Fedus et al. 2021",
    legend="tokens to slots of their experts",
)
