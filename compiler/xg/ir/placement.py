"""The placement of a tensor on the ranks of one mesh axis, and its meaning.

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
comes from. G is only within a derived body: see `xg.sharding.gates`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from xg.diagnostics.lazy_dataclass import dataclass

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
