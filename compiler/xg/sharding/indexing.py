"""Typing rules of primitives that read and write by ids."""

from __future__ import annotations

from collections.abc import Sequence

from xg.ir.placement import CONSTANT, PARTIAL, REPLICATED, AxisState, shard
from xg.ir.prim import Expr, batch_of
from xg.sharding.argument import IllTyped, PlacedArgument


def gather(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Rows by their ids; of a table that is cut by rows each rank has some, zeros elsewhere."""
    table, ids = args
    batch, rank = batch_of(expr), table.expr.rank
    inner = rank - 1 - batch
    if ids.state.kind == "S":
        shared = ids.state.axis + ids.expr.rank - rank  # the axis of the table, if it has it
        of_batch = shared < batch - rank
        fits = (shard(shared), CONSTANT) if of_batch else (REPLICATED, CONSTANT)
        if table.state not in fits:
            raise IllTyped("rows of a table meet a part of the ids", expr, [0])
        return shard(ids.state.axis - inner)
    _needs_whole(expr, ids, 1)
    if table.state.kind == "S" and table.state.axis < -inner:
        shared = table.state.axis + rank
        return PARTIAL if shared == batch else shard(shared - expr.rank)
    return table.state


def scatter_add(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Rows summed by their ids: parts of the rows give terms of the sum."""
    updates, ids = args
    inner = updates.expr.rank - ids.expr.rank
    if ids.state.kind == "S":
        if updates.state != shard(ids.state.axis - inner) and updates.state != CONSTANT:
            raise IllTyped("rows to add meet a part of the ids", expr, [0])
        return _added(expr, ids.state.axis + ids.expr.rank)
    _needs_whole(expr, ids, 1)
    if updates.state.kind == "S" and updates.state.axis < -inner:
        return _added(expr, updates.state.axis + updates.expr.rank)  # by its part of the ids
    return updates.state


def _added(expr: Expr, axis: int) -> AxisState:
    """The result of adding a part of the rows: whole tables, or a term of each."""
    return shard(axis - expr.rank) if axis < batch_of(expr) else PARTIAL


def pick(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """One element per row; of rows that are cut each rank has some, zeros elsewhere."""
    x, ids = args
    if x.state == shard(-1):
        _needs_whole(expr, ids, 1)
        return PARTIAL
    if x.state.kind == "S" or ids.state.kind == "S":
        axis = x.state.axis + 1 if x.state.kind == "S" else ids.state.axis
        fits = x.state in (shard(axis - 1), CONSTANT) and ids.state in (shard(axis), CONSTANT)
        if not fits:
            raise IllTyped("a part of the rows meets all ids", expr, (0, 1))
        return shard(axis)
    return x.state


def place(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """One value per row, at its id."""
    values, ids = args
    if values.state.kind == "S" or ids.state.kind == "S":
        axis = values.state.axis if values.state.kind == "S" else ids.state.axis
        ready = values.state == shard(axis) or values.can_be_cut(axis)
        if not ready or ids.state not in (shard(axis), CONSTANT):
            raise IllTyped("a part of the rows meets all ids", expr, (0, 1))
        return shard(axis - 1)
    return values.state


def _needs_whole(expr: Expr, arg: PlacedArgument, place: int) -> None:
    if arg.state != CONSTANT:
        raise IllTyped("ids have to be whole", expr, [place])
