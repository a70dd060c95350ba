"""Ports: where an edge may leave or enter a node."""

from __future__ import annotations

from enum import Enum

from xg.diagnostics.lazy_dataclass import dataclass


class NodeSide(Enum):
    """A side of a node."""

    TOP = "top"
    BOTTOM = "bottom"
    LEFT = "left"
    RIGHT = "right"

    @property
    def is_level(self) -> bool:
        """Return whether lines leave it sideways."""
        return self in (NodeSide.LEFT, NodeSide.RIGHT)

    @property
    def sign(self) -> int:
        """Return the direction in x of a line that leaves it."""
        return {NodeSide.LEFT: -1, NodeSide.RIGHT: 1}.get(self, 0)


@dataclass(frozen=True, slots=True)
class RimPort:
    """A place at a node's rim: `x` is where its line begins, `cost` how much it is shunned."""

    node: str
    row: int
    side: NodeSide
    x: float
    cost: float = 0.0
    wide: bool = False  # of a bar: any x will do
    head: bool = False  # an arrow enters there
