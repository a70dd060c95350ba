"""Primitives across the ranks of a mesh axis: what one rank's body has beside the ordinary ones.

Shapes are those of one rank's part: an axis that is cut has its size divided by the mesh axis.
Their reference meaning asks the mesh on which the rank runs.
"""

from __future__ import annotations

from typing import Final

from xg.ir.dim import Dim, symbol
from xg.ir.mesh_axes import ranks_over
from xg.ir.placement import AxisState
from xg.ir.prim import Attr, Expr
from xg.ir.tensor import Shape

COLLECTIVES: Final = frozenset(
    {"all_reduce", "all_reduce_max", "all_gather", "reduce_scatter", "all_to_all"}
)
# On whole tensors the identity; a rank gathers and scatters there, by parts that go round a ring.
AROUND: Final = frozenset({"gather_around", "scatter_around"})
# These know their rank, no more.
LOCAL: Final = frozenset(
    {"shard_slice", "pad_from_shard", "first_rank_only", "owns_index", "to_local_index"}
)


def local_shape(shape: Shape, state: AxisState, mesh_axis: str) -> Shape:
    """The shape of one rank's part."""
    if state.kind != "S":
        return shape
    return _scaled(shape, state.axis, symbol(mesh_axis) ** -1)


def all_reduce(x: Expr, over: str) -> Expr:
    """The sum of all ranks' terms."""
    return _across("all_reduce", x, x.shape, over)


def all_reduce_max(x: Expr, over: str) -> Expr:
    """The largest of all ranks' values, element by element."""
    return _across("all_reduce_max", x, x.shape, over)


def all_gather(x: Expr, over: str, axis: int) -> Expr:
    """The parts of all ranks, one after the other along an axis."""
    return _across("all_gather", x, _scaled(x.shape, axis, ranks_over(over)), over, ("axis", axis))


def reduce_scatter(x: Expr, over: str, axis: int) -> Expr:
    """This rank's slice of the sum of all ranks' terms."""
    shape = _scaled(x.shape, axis, ranks_over(over) ** -1)
    return _across("reduce_scatter", x, shape, over, ("axis", axis))


def all_to_all(x: Expr, over: str, cut: int, joined: int) -> Expr:
    """Parts along one axis become parts along another: `cut` is divided, `joined` made whole."""
    shape = _scaled(_scaled(x.shape, cut, ranks_over(over) ** -1), joined, ranks_over(over))
    return _across("all_to_all", x, shape, over, ("cut", cut), ("joined", joined))


def gather_around(x: Expr, over: str, axis: int) -> Expr:
    """The whole of what is cut along an axis over this mesh axis, made of parts that go round."""
    return _across("gather_around", x, x.shape, over, ("axis", axis))


def scatter_around(x: Expr, over: str, axis: int) -> Expr:
    """A sum of terms, cut along an axis over this mesh axis: the sums go round with the parts."""
    return _across("scatter_around", x, x.shape, over, ("axis", axis))


def shard_slice(x: Expr, over: str, axis: int) -> Expr:
    """This rank's slice of a whole."""
    shape = _scaled(x.shape, axis, ranks_over(over) ** -1)
    return _across("shard_slice", x, shape, over, ("axis", axis))


def pad_from_shard(x: Expr, over: str, axis: int) -> Expr:
    """Zeros of the whole's size with this rank's slice in its place."""
    return _across(
        "pad_from_shard", x, _scaled(x.shape, axis, ranks_over(over)), over, ("axis", axis)
    )


def first_rank_only(x: Expr, over: str) -> Expr:
    """The value on the first rank, zeros on the others."""
    return _across("first_rank_only", x, x.shape, over)


def owns_index(ids: Expr, over: str, rows: Dim) -> Expr:
    """Whether ids point into this rank's rows, of which it holds `rows`."""
    return Expr("owns_index", (ids,), ids.shape, "bool", (("rows", rows), ("over", over)))


def to_local_index(ids: Expr, over: str, rows: Dim) -> Expr:
    """Where they point among this rank's rows; 0 for those that point elsewhere."""
    return Expr("to_local_index", (ids,), ids.shape, "int", (("rows", rows), ("over", over)))


def _across(prim: str, x: Expr, shape: Shape, over: str, *attrs: tuple[str, Attr]) -> Expr:
    return Expr(prim, (x,), shape, x.kind, (*attrs, ("over", over)))


def _scaled(shape: Shape, axis: int, factor: Dim) -> Shape:
    sizes = list(shape)
    sizes[axis] = sizes[axis] * factor
    return tuple(sizes)
