"""The results of experts brought back to their tokens and weighed (Lepikhin et al. 2020)."""

from __future__ import annotations

from typing import Final

from xg.ir.conventions import Convention
from xg.ir.op import Op
from xg.ir.prim import Expr, contract, reshape, rows_or_zeros
from xg.ir.use import Attrs, Data, Misuse, Use

LETTERS: Final = "abcdefgh"


def configure(use: Use) -> Attrs:
    """Reject places that do not fit the experts, and weights that are not one for each place."""
    y, slot, g = use.types
    if len(y.shape) < 3 or slot.shape[:-2] != y.shape[:-3] or len(slot.shape) < 2:
        raise Misuse(
            f"combine takes {use.spell(slot.shape)} places of {use.spell(y.shape)}",
            {0: "experts give [.., N_E, N_C, D]", 1: "places are [.., S, k]"},
        )
    experts, capacity = y.shape[-3:-1]
    if slot.range != experts * capacity + 1:
        count = use.sizes.fold(experts * capacity)
        raise Misuse(
            f"combine takes results of {count} places",
            {1: f"these numbers are not `in {count} + 1`: dispatch gives them"},
        )
    if g.shape != slot.shape:
        raise Misuse(
            f"combine weighs {use.spell(slot.shape)} places",
            {2: f"a weight for each is {use.spell(slot.shape)}, not {use.spell(g.shape)}"},
        )
    return use.own


def forward(y: Expr, slot: Expr, g: Expr) -> Expr:
    """A choice without a place brings zeros.

    Of experts that are cut each rank brings what its own give, a term of the sum.
    """
    *lead, experts, capacity, width = y.shape
    rows = reshape(y, (*lead, experts * capacity, width))
    taken = rows_or_zeros(rows, slot, len(lead)).named("taken")
    batch = LETTERS[: slot.rank - 1]
    return contract(g, taken, f"{batch}k,{batch}kx->{batch}x")


CONVENTIONS: Final = (
    Convention("index outside", "a choice without a place adds zeros", "y -> combine<-slot<-g",
        {"y [1, 1, D]": (((3.0,),),), "slot [S, K] in 2": ((0,), (1,)),
            "g [S, K]": ((0.5,), (0.5,))},
        ((1.5,), (0.0,)), {"y": (((0.5,),),), "g": ((3.0,), (0.0,))}, result="z [S, D]"),
    Convention("empty axis", "a token without choices is 0", "y -> combine<-slot<-g",
        {"y [1, 1, D]": (((3.0,),),), "slot [S, K] in 2": ((), ()), "g [S, K]": ((), ())},
        ((0.0,), (0.0,)), {"y": (((0.0,),),), "g": ((), ())}, result="z [S, D]"),
    Convention("half type", "choices are added in float32, and rounded once",
        "y -> combine<-slot<-g",
        {"y [1, 1, D]": (((1.0,),),), "slot [S, K] in 2": ((0,) * 4096,),
            "g [S, K]": ((1.0,) * 4096,)},
        ((4096.0,),), {"y": (((4096.0,),),)}, result="z [S, D]", dtype="bfloat16"),
)  # fmt: skip

OP: Final = Op(
    glyph="combine",
    name="combine",
    family="layout",
    data=(Data("y"), Data("slot", "int"), Data("g")),
    outputs=("z",),
    forward=forward,
    configure=configure,
    conventions=CONVENTIONS,
    meaning="sums the experts' results with their weights; a dropped choice adds nothing",
    formula="Z[s] = Σ_j g[s, j] Y[slot[s, j]]",
    gradient="dY[e, c] = g[s, j] dZ[s] of the choice there; dg[s, j] = <dZ[s], Y[slot[s, j]]>",
    source="Lepikhin et al. 2020; Fedus et al. 2021",
    legend="weighed sum of what a token's experts give",
)
