"""Rows of a table (seed 001, 5.2: token and position embeddings)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.op import Op
from xg.ir.prim import Expr, gather
from xg.ir.tensor import TensorType
from xg.ir.use import AtMost, Attrs, Data, Misuse, Tensor, Use


def configure(use: Use) -> Attrs:
    """Refuse ids that can point beside the table."""
    ids, table = use.types
    if len(table.shape) != 2:
        raise Misuse("Emb takes rows of a table", {1: f"{use.spell(table.shape)} is no [V, D]"})
    assert ids.range is not None
    if ids.range != table.shape[0] and not _positions(ids):
        rows, range_ = use.sizes.fold(table.shape[0]), use.sizes.fold(ids.range)
        raise Misuse(
            f"Emb looks up ids in {range_} in a table of {rows} rows",
            {0: f"these are in {range_}", 1: f"this is {use.spell(table.shape)}"},
        )
    return use.own


def _positions(ids: TensorType) -> bool:
    """Whether these look like ``range(a, b)``: one axis of length b - a, integers in b.

    Such ids may be fewer than the rows of their table, as S positions of S_max.
    """
    if len(ids.shape) != 1 or ids.range is None:
        return False
    start = ids.range - ids.shape[0]
    return all(coefficient > 0 for monomial, coefficient in start.terms if monomial)


def facts(types: Sequence[TensorType], attrs: Attrs) -> tuple[AtMost, ...]:
    """Positions must not run past the end of their table."""
    ids, table = types
    if ids.range is None or ids.range == table.shape[0]:
        return ()
    return (AtMost(ids.range, table.shape[0], "the table must have a row for every position"),)


def forward(ids: Expr, E: Expr) -> Expr:
    """``Y[i] = E[ids[i]]``."""
    return gather(E, ids)


CONVENTIONS: Final = (
    Convention("index outside",
        "xg refuses an id that is not in the table, also -1; under jax.jit its row is NaN",
        "ids -> Emb(E)", {"ids [K] in 2": (0, 2)}, torch="F.embedding(ids, E)", result="y [K, D]",
        params={"E [2, D]": ((3.0,), (5.0,))}, refused="is 2, expected integers from 0 to 1",
        others={"jax jit": ((3.0,), (math.nan,))}),
    Convention("half type", "the gradient of a row is added in float32 over all its positions",
        "ids -> Emb(E)", {"ids [K] in 2": (0,) * 4096}, ((1.0,),) * 4096,
        {"E": ((4096.0,), (0.0,))}, "F.embedding(ids, E)", "y [K, D]",
        params={"E [2, D]": ((1.0,), (1.0,))}, dtype="bfloat16",
        differs="PyTorch adds in bfloat16 on a CPU, where 256 + 1 is 256: the gradient is 256. On "
        "a GPU it adds in float32, as xg does everywhere."),
)  # fmt: skip

OP: Final = Op(
    glyph="Emb",
    name="embedding",
    family="nonlinear",
    data=(Data("ids", "int"),),
    own=(Tensor("E", shape=("range", "target")),),
    forward=forward,
    configure=configure,
    facts=facts,
    conventions=CONVENTIONS,
    meaning="looks up rows of a table by integer: tokens, types, positions",
    formula="Y = E[ids]",
    gradient="dE[v] = Σ of dY where ids = v",
    source="seed 001, 5.2",
)
