"""Define how tensors are placed on the ranks of mesh axes, and the primitives across ranks.

Every edge has one state per mesh axis. A state says which data each rank has and how the parts make
the global tensor; `dual` is the state of the cotangent: the pairing of both, summed over ranks, is
the derivative.

    state  on each rank                              global tensor its cotangent
    S(i)   a slice of axis i                         concatenated  S(i)
    I      the same, computed once in meaning        any of them   I
    R      the same, used by each rank for its own   any of them   P
    P      one term of a sum                         their sum     R
    M      one term of a maximum                     the largest   none
    C      the same, and nothing is differentiated   any of them   none
    G      whether a part of a term counts           if one does   none

I and R are the same numbers on every rank. They differ in the meaning of a gradient: of R each rank
computes only its own share. The free cast from I to R is where the all-reduce of the backward pass
comes from. G is only within a derived body: see `xg.sharding.type_body`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final, Literal

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim, product, symbol
from xg.ir.prim import Attr, Expr
from xg.ir.tensor import Shape

Kind = Literal["S", "I", "R", "P", "M", "C", "G"]


@dataclass(frozen=True, slots=True)
class AxisState:
    """One state; `axis` is the sharded axis of S, counted from the end (-1 is the last)."""

    kind: Kind
    axis: int = 0

    def __str__(self) -> str:
        return f"S({self.axis})" if self.kind == "S" else self.kind

    @property
    def is_same(self) -> bool:
        """Whether every rank holds the same numbers."""
        return self.kind in "IRC"


INVARIANT: Final = AxisState("I")
REPLICATED: Final = AxisState("R")
PARTIAL: Final = AxisState("P")
LARGEST: Final = AxisState("M")
CONSTANT: Final = AxisState("C")
GATE: Final = AxisState("G")


def shard(axis: int) -> AxisState:
    """A slice of an axis counted from the end."""
    assert axis < 0
    return AxisState("S", axis)


def dual(state: AxisState) -> AxisState | None:
    """The state of the cotangent, None where there is none."""
    match state.kind:
        case "R":
            return PARTIAL
        case "P":
            return REPLICATED
        case "M" | "C" | "G":
            return None
        case _:
            return state


def same(state: AxisState) -> AxisState:
    """A state where nothing is differentiated any more: what is the same is a constant."""
    return CONSTANT if state.is_same else state


def serves(state: AxisState, wanted: AxisState) -> bool:
    """Whether a value is used as it is where another state is wanted.

    A constant has no gradient, whose terms would be summed.
    """
    return state == wanted or (state == CONSTANT and wanted.kind in "IR")


# The operator that brings a value from one state into another, each with its transpose in the
# table: a move from s to t is answered by the move from the dual of t to the dual of s.
MOVES: Final[Mapping[tuple[Kind, Kind], str]] = {
    ("I", "R"): "cast",
    ("P", "I"): "AR",
    ("P", "R"): "AR",
    ("S", "R"): "AG",
    ("S", "I"): "AG",
    ("P", "S"): "RS",
    ("S", "S"): "A2A",
    ("I", "S"): "part",
    ("R", "S"): "part",
    ("C", "S"): "part",
    ("S", "P"): "spread",
}

Placement = Mapping[str, AxisState]  # by mesh axis; what is not mentioned is the same on every rank


def is_term(placement: Placement | None) -> bool:
    """Whether a rank has only one term of a sum."""
    return bool(placement) and any(state == PARTIAL for state in placement.values())


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """The placements that a plan, or a shape over a mesh axis, asks for: stored, and in use."""

    rest: AxisState
    use: AxisState | None = None


# Mesh axes that a move goes over: one, or several as one, ``N_G*N_T``.
#
# Which part of an axis a rank has is its place along the mesh axis, unless the plan says `zigzag`:
# then rank i of N has the chunks i and 2N - 1 - i of 2N. Types know nothing of this; the primitives
# and the cuts of one rank do, by the name of the mesh axis: ``N_S zigzag``.


ZIGZAG: Final = " zigzag"  # as `xg_runtime.ranks.order` spells it


def ordered_axis(axis: str, zigzag: Container[str]) -> str:
    """A mesh axis with the order of its ranks, given those in zigzag."""
    return axis + ZIGZAG if axis in zigzag else axis


def axis_of(over: str) -> str:
    """The mesh axis, or several, without the order of its ranks."""
    return over.removesuffix(ZIGZAG)


def is_zigzag(over: str) -> bool:
    """Whether each rank has two chunks, one from each end."""
    return over.endswith(ZIGZAG)


def joined_axes(axes: Iterable[str]) -> str:
    """Several mesh axes as one, the outermost first: ``N_G*N_T``."""
    return "*".join(axes)


def axes_over(over: str) -> tuple[str, ...]:
    """The mesh axes over which a move goes; `joint` the other way round."""
    return tuple(axis_of(over).split("*"))


def ranks_over(over: str) -> Dim:
    """How many ranks a move goes over."""
    return product(symbol(axis) for axis in axes_over(over))


# Primitives across the ranks of a mesh axis: what one rank's body has beside the ordinary ones.
#
# Shapes are those of one rank's part: an axis that is cut has its size divided by the mesh axis.
# Their reference meaning asks the mesh on which the rank runs.


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
