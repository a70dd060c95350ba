"""The results of experts brought back to their tokens and weighed (Lepikhin et al. 2020)."""

from __future__ import annotations

from typing import Final

from xg.ir.dim import ZERO
from xg.ir.op import Op
from xg.ir.prim import Expr, contract, gather, pad, reshape
from xg.ir.use import Attrs, Data, Misuse, Use

LETTERS: Final = "abcdefgh"


def configure(use: Use) -> Attrs:
    """Refuse places of others, and weights that are not one for each place."""
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
    """A choice without a place brings zeros."""
    *lead, experts, capacity, width = y.shape
    places = experts * capacity
    rows = pad(reshape(y, (*lead, places, width)), -2, ZERO, places + 1)
    taken = gather(rows, slot, len(lead)).named("taken")
    batch = LETTERS[: slot.rank - 1]
    return contract(g, taken, f"{batch}k,{batch}kx->{batch}x")


OP: Final = Op(
    glyph="combine",
    name="combine",
    family="layout",
    data=(Data("y"), Data("slot", "int"), Data("g")),
    outputs=("z",),
    forward=forward,
    configure=configure,
    meaning="brings the results of experts back from their places and sums them, weighed; a choice "
    "without a place adds nothing",
    formula="Z[s] = Σ_j g[s, j] Y[slot[s, j]]",
    gradient="dY[e, c] = g[s, j] dZ[s] of the choice there; dg[s, j] = <dZ[s], Y[slot[s, j]]>",
    source="Lepikhin et al. 2020; Fedus et al. 2021",
    legend="weighed sum of what a token's experts give",
)
