"""Ports: where an edge may leave or enter a node."""

from __future__ import annotations

from enum import Enum

from xg.diagnostics.lazy_dataclass import dataclass


class NodeSide(Enum):
    """A side of a node."""

    TOP = "top", 0
    BOTTOM = "bottom", 0
    LEFT = "left", -1
    RIGHT = "right", 1

    def __init__(self, _: str, sign: int) -> None:
        """Take the direction in x of a line that leaves it."""
        self.sign = sign
        self.is_level = sign != 0  # whether lines leave it sideways


@dataclass(frozen=True, slots=True)
class RimPort:
    """A place at a node's rim: `x` is where its line begins, `cost` how much it is shunned."""

    node: str
    row: int
    side: NodeSide
    x: float
    cost: float = 0.0
    at_bar: bool = False  # which others may pass
    wide: bool = False  # of a bar: any x will do
    head: bool = False  # an arrow enters there
