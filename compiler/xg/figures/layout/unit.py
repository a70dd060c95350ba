"""Units: a node together with the tensors beside it, placed as one box.

Graphviz keeps two nodes side by side only as long as there is one such pair in a row; in one box
they cannot part. The lines of the node pass through the box off its middle, so the box is made of
equal fields one of which is the port: all its text is the bars between them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.measure import Extent, label_size, node_lines, node_size
from xg.figures.model import style
from xg.figures.model.figure import Figure, FigureEdge, FigureNode
from xg.figures.model.geometry import Box, Point
from xg.figures.model.structure import EdgePlace, Structure

FIELD: Final = 4  # points
_PAIR_HEIGHT: Final = 13.5  # of an arrow and its way back, at a side of a box
_MORE: Final = 28.0  # points beside a node at which lines are too near to each other
_MORE_PORTS: Final = 18.0  # points of a turned box at whose low side lines are too near
_BOXES: Final = (style.Outline.SHARP, style.Outline.ROUNDED)


@dataclass(frozen=True, slots=True)
class NodeUnit:
    """A node's box, or the box of a node with its tensors; `before` fields precede the port."""

    node: str
    size: Extent
    before: int = 0
    after: int = 0
    left: tuple[str, Extent] | None = None
    right: tuple[str, Extent] | None = None

    @property
    def is_compound(self) -> bool:
        """Return whether the box has more than the node."""
        return self.before > 0 or self.after > 0

    @property
    def width(self) -> float:
        """Return the width of the whole box."""
        return FIELD * (self.before + 1 + self.after) if self.is_compound else self.size.width

    @property
    def reach(self) -> float:
        """Return how far the box reaches to the left of the node's middle."""
        return FIELD * (self.before + 0.5) if self.is_compound else self.size.width / 2

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


def units(figure: Figure, facts: Structure, cramped: Collection[str] = ()) -> list[NodeUnit]:
    """Return the units of a figure in the order of its nodes; more room beside cramped ones."""
    sizes = node_sizes(figure, facts, cramped)
    beside = {*facts.left.values(), *facts.right.values()}
    node_units = {
        node.id: _unit(node.id, sizes, facts, 0.0) for node in figure.nodes if node.id not in beside
    }
    for node in node_units.keys() & set(cramped):
        unit = node_units[node]
        half = _fields(unit.size.width / 2)
        more = math.ceil(_MORE / FIELD)
        before, after = max(unit.before, half) + more, max(unit.after, half) + more
        node_units[node] = replace(unit, before=before, after=after)
    below = {
        edge.tail: edge.head
        for edge, place in zip(figure.edges, facts.places, strict=True)
        if place is EdgePlace.DOWN
    }
    for number, place in enumerate(facts.places):
        if place is EdgePlace.LANE:
            edge = figure.edges[number]
            head = edge.head
            widest = _widest(edge, below, node_units)
            size = label_size(edge.label, turned=figure.rightward)
            label = size.width if edge.label else 0.0
            label += style.LANE_GAP / 2 if number in facts.twins else 0.0
            room = widest + style.LANE_GAP + label  # how far lane and label are from the middle
            node_units[head] = _unit(head, sizes, facts, room)
    for head, room in _beside_wide(figure, facts, below, node_units):
        if room > node_units[head].reach:
            node_units[head] = _unit(head, sizes, facts, room)
    return list(node_units.values())


def _beside_wide(
    figure: Figure, facts: Structure, below: Mapping[str, str], units: Mapping[str, NodeUnit]
) -> Iterator[tuple[str, float]]:
    """Yield where branches lead, with the room that puts them beside the box that they leave.

    Under a corner of it, an arrow would hang at that corner.
    """
    heads = {first: second for first, second, *_ in (fork.children for fork in facts.forks)}
    for edge, place in zip(figure.edges, facts.places, strict=True):
        first = below.get(edge.tail)
        if place is EdgePlace.BRANCH and first and heads.get(first) == edge.head:
            after = units[first].width - units[first].reach
            aside = units[edge.tail].size.width / 2 + style.LANE_GAP
            yield edge.head, aside - after - style.NODE_GAP


def node_sizes(
    figure: Figure, facts: Structure, cramped: Collection[str] = ()
) -> dict[str, Extent]:
    """Return how large each node is: as high as the pairs of lines at a side need.

    A cramped one has room for one pair more, and in a figure that will be turned for two lines.
    """
    sides: dict[tuple[str, bool], int] = defaultdict(int)
    pairs = zip(figure.edges, facts.places, strict=True)
    for edge, place in pairs if facts.twins else ():
        sides[edge.tail, True] += place in (EdgePlace.BRANCH, EdgePlace.AROUND)
        sides[edge.head, False] += place in (EdgePlace.SIDE, EdgePlace.AROUND)
    sizes: dict[str, Extent] = {}
    for node in figure.nodes:
        size = _turned_size(node) if figure.rightward else node_size(node)
        count = max(sides.get((node.id, is_out), 0) for is_out in (True, False))
        count += node.id in cramped
        outline = style.NODE_STYLES[node.kind].outline
        if count > 1 and outline in _BOXES:
            size = Extent(size.width, max(size.height, count * _PAIR_HEIGHT))
        if figure.rightward and node.id in cramped and outline in _BOXES:
            size = Extent(size.width + _MORE_PORTS, size.height)
        sides_free = (node.id not in facts.left) + (node.id not in facts.right)
        if count > sides_free and outline is style.Outline.CIRCLE:
            least = max(size.width, (count - sides_free + 1) * _PAIR_HEIGHT)
            size = Extent(least, least)
        sizes[node.id] = size
    return sizes


def _turned_size(node: FigureNode) -> Extent:
    """Return the size of a node of a figure that will be turned.

    Lines end before a text and begin behind it, not above and below: as near to a narrow letter.
    """
    size = node_size(node).turned()
    if style.NODE_STYLES[node.kind].outline is not style.Outline.NONE:
        return size
    length = max(line.width for line in node_lines(node))
    return Extent(size.width, length + 2 * style.TEXT_GAP)


def _unit(node: str, sizes: Mapping[str, Extent], facts: Structure, room: float) -> NodeUnit:
    """Return a node's unit that reaches at least `room` to the left of its middle."""
    half = sizes[node].width / 2
    left, right = facts.left.get(node), facts.right.get(node)
    before, after = half, half
    if left:
        before += style.NODE_GAP + sizes[left].width
    if right:
        after += style.NODE_GAP + sizes[right].width
    before = max(before, room)
    is_plain = before == after == half
    return NodeUnit(
        node,
        sizes[node],
        0 if is_plain else _fields(before),
        0 if is_plain else _fields(after),
        (left, sizes[left]) if left else None,
        (right, sizes[right]) if right else None,
    )


def _widest(edge: FigureEdge, below: Mapping[str, str], units: Mapping[str, NodeUnit]) -> float:
    """Return how far the column that a lane passes reaches to the left of its middle."""
    widest, node = 0.0, below.get(edge.tail)
    while node is not None and node != edge.head:
        widest, node = max(widest, units[node].reach), below.get(node)
    return widest


def _fields(room: float) -> int:
    """Count the fields between the port and one side of the box."""
    return math.ceil((room - FIELD / 2) / FIELD)
