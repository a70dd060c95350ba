"""The reference meaning of what reads, writes, ranks and counts by ids."""

from __future__ import annotations

import numpy as np

from xg.ir.prim import Expr, batch_of
from xg.verify.reference.windows import KnownSizes
from xg_runtime.module import Array


def gather(expr: Expr, numbers: KnownSizes, table: Array, ids: Array) -> Array:
    """Rows by their ids, of each table by its own."""
    batch = batch_of(expr)
    return table[_index(_inside(ids, table.shape[batch]), batch)]


def scatter_add(expr: Expr, numbers: KnownSizes, updates: Array, ids: Array) -> Array:
    """Rows summed by their ids, into each table by its own."""
    result = np.zeros(numbers.shape(expr.shape), dtype=updates.dtype)
    np.add.at(result, _index(ids, batch_of(expr)), updates)
    return result


def pick(expr: Expr, numbers: KnownSizes, x: Array, ids: Array) -> Array:
    """One element of each row."""
    return np.take_along_axis(x, _inside(ids, x.shape[-1])[..., None], axis=-1)[..., 0]


def place(expr: Expr, numbers: KnownSizes, values: Array, ids: Array) -> Array:
    """Zeros with one value in each row."""
    result = np.zeros(numbers.shape(expr.shape), dtype=values.dtype)
    np.put_along_axis(result, ids[..., None], values[..., None], axis=-1)
    return result


def top(expr: Expr, numbers: KnownSizes, x: Array) -> Array:
    """Where the largest are, row by row, NaN first; sorting keeps the order of equal ones."""
    result = np.zeros(numbers.shape(expr.shape), dtype=np.int64)
    for row in np.ndindex(x.shape[:-1]):
        order = sorted(range(x.shape[-1]), key=lambda i: (x[row][i] == x[row][i], -x[row][i]))
        result[row] = order[: result.shape[-1]]
    return result


def earlier(expr: Expr, numbers: KnownSizes, ids: Array) -> Array:
    """How many equal ones are before each, counted one by one."""
    result = np.zeros_like(ids)
    for row in np.ndindex(ids.shape[:-1]):
        seen: dict[int, int] = {}
        for i, value in enumerate(ids[row].tolist()):
            result[row][i] = seen.get(value, 0)
            seen[value] = seen.get(value, 0) + 1
    return result


def _inside(ids: Array, length: int) -> Array:
    """The ids, refused if one is out of range: NumPy would count a negative one from the end."""
    if ids.size and not 0 <= ids.min() <= ids.max() < length:
        raise IndexError(f"ids from {ids.min()} to {ids.max()} do not index {length} rows")
    return ids


def _index(ids: Array, batch: int) -> tuple[Array, ...]:
    """An index for every axis up to the one that ids point along."""
    axes = np.meshgrid(*map(np.arange, ids.shape), indexing="ij", sparse=True)
    return (*axes[:batch], ids)
