"""Define how tensors are placed on the ranks of mesh axes.

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
comes from. G is only within a derived body: see `xg.sharding.primitive_rules`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final, Literal

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim, product, symbol
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
    def is_uniform(self) -> bool:
        """Return whether every rank holds the same numbers."""
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
    """Return the state of the cotangent, or None if there is no cotangent."""
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
    """Turn a state that is the same on every rank into a constant, which has no gradient."""
    return CONSTANT if state.is_uniform else state


def serves(state: AxisState, wanted: AxisState) -> bool:
    """Whether a value is used as it is where another state is wanted.

    A constant has no gradient, whose terms would be summed.
    """
    return state == wanted or (state == CONSTANT and wanted.kind in "IR")


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


def local_shape(shape: Shape, state: AxisState, mesh_axis: str) -> Shape:
    """The shape of one rank's part."""
    if state.kind != "S":
        return shape
    sizes = list(shape)
    sizes[state.axis] = sizes[state.axis] * symbol(mesh_axis) ** -1
    return tuple(sizes)
