"""Units: a node together with the tensors that stand beside it, placed as one box.

Graphviz keeps two nodes side by side only as long as one such pair stands in a row; in one box they
cannot part. The lines of the node pass through the box off its middle, so the box is made of equal
fields one of which is the port: all its text is the bars between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from xg.backends.graphviz import style
from xg.backends.graphviz.figure import Figure
from xg.backends.graphviz.geometry import Box, Point
from xg.backends.graphviz.measure import Size, node_size
from xg.backends.graphviz.structure import Structure

FIELD: Final = 4  # points


@dataclass(frozen=True, slots=True)
class Unit:
    """A node's box, or the box of a node with its tensors; `before` fields precede the port."""

    node: str
    size: Size
    before: int = 0
    after: int = 0
    left: tuple[str, Size] | None = None
    right: tuple[str, Size] | None = None

    @property
    def is_compound(self) -> bool:
        """Tell whether tensors stand beside the node."""
        return self.left is not None or self.right is not None

    @property
    def width(self) -> float:
        """Return the width of the whole box."""
        return FIELD * (self.before + 1 + self.after) if self.is_compound else self.size.width

    @property
    def height(self) -> float:
        """Return the height of the whole box."""
        beside = [size.height for _, size in filter(None, (self.left, self.right))]
        return max(self.size.height, *beside) if beside else self.size.height

    def boxes(self, center: Point) -> dict[str, Box]:
        """Return the boxes of the node and of its tensors, given the middle of the whole."""
        x, y = center
        if self.is_compound:
            x += FIELD * (self.before - self.after) / 2
        boxes = {self.node: Box.around((x, y), self.size.width, self.size.height)}
        for beside, sign in ((self.left, -1), (self.right, 1)):
            if beside is not None:
                tensor, size = beside
                reach = (self.size.width + size.width) / 2 + style.NODE_GAP
                boxes[tensor] = Box.around((x + sign * reach, y), size.width, size.height)
        return boxes


def units(figure: Figure, facts: Structure) -> list[Unit]:
    """Return the units of a figure in the order of its nodes."""
    sizes = {node.id: node_size(node) for node in figure.nodes}
    beside = {*facts.left.values(), *facts.right.values()}
    found: list[Unit] = []
    for node in figure.nodes:
        if node.id not in beside:
            left, right = facts.left.get(node.id), facts.right.get(node.id)
            half = sizes[node.id].width / 2
            found.append(
                Unit(
                    node.id,
                    sizes[node.id],
                    _fields(half, sizes[left] if left else None),
                    _fields(half, sizes[right] if right else None),
                    (left, sizes[left]) if left else None,
                    (right, sizes[right]) if right else None,
                )
            )
    return found


def _fields(half: float, beside: Size | None) -> int:
    """Count the fields between the port and one side of the box."""
    room = half + (style.NODE_GAP + beside.width if beside else 0.0)
    return math.ceil((room - FIELD / 2) / FIELD)
