"""Rows of a table (seed 001, 5.2: token and position embeddings)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.op import AtMost, Op
from xg.ir.prim import Expr, gather
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs, Data, Misuse, Tensor, Use


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


OP: Final = Op(
    glyph="Emb",
    name="embedding",
    family="nonlinear",
    data=(Data("ids", "int"),),
    own=(Tensor("E", shape=("range", "target")),),
    forward=forward,
    configure=configure,
    facts=facts,
    meaning="takes the rows of a table that integers point at: tokens, types, positions",
    formula="Y = E[ids]",
    gradient="dE[v] = Σ of dY where ids = v",
    source="seed 001, 5.2",
)
