"""Frames: the rounded lane behind a group's nodes, and the place of its heading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw.typeset import TextLine, typeset
from xg.figures.layout.placed import PlacedFigure
from xg.figures.model import style
from xg.figures.model.figure import FigureGroup
from xg.figures.model.geometry import Box, DrawnPath, Point, bounding_box, flattened

_INSET: Final = 7.0
_ABOVE: Final = 6.0
_NEAR: Final = 2.0  # between a frame and a node beside it


@dataclass(frozen=True, slots=True)
class Frame:
    """A group's frame, its set heading, and the start of the heading's baseline."""

    box: Box
    heading: TextLine
    at: Point


def frame_box(
    placed: PlacedFigure,
    group: FigureGroup,
    around: Mapping[int, Iterable[Box]],
    inner: Sequence[Box] = (),
) -> Box | None:
    """Return the frame around a group's nodes, the lines between them and the frames inside.

    None if a node outside the group is among them: a frame must not claim it.
    """
    members = set(group.nodes)
    boxes = [*inner, *(placed.nodes[node] for node in group.nodes)]
    for number, edge in enumerate(placed.figure.edges):
        if {edge.tail, edge.head} <= members:
            boxes += [placed.labels[number]] if number in placed.labels else []
            boxes += around.get(number, ())
    inside = bounding_box(boxes)
    frame = inside.grown(style.GROUP_PADDING)
    # Above a column are lines that end in it; above a level line may run a lane.
    heading = style.GROUP_HEADING if group.label and not placed.is_turned else 0.0
    frame = replace(frame, top=frame.top - heading)
    strangers = [box for node, box in placed.nodes.items() if node not in members]
    for other in strangers:
        if frame.overlaps(other):
            frame = _beside(frame, inside, other)
    return None if any(frame.overlaps(box) for box in strangers) else frame


def _beside(frame: Box, inside: Box, other: Box) -> Box:
    """Return a frame with less room at the side where another node is near."""
    if other.left >= inside.right + 2 * _NEAR:
        return replace(frame, right=min(frame.right, other.left - _NEAR))
    if other.right <= inside.left - 2 * _NEAR:
        return replace(frame, left=max(frame.left, other.right + _NEAR))
    return frame


def finished(
    group: FigureGroup, box: Box, occupied: Sequence[Box], nodes: Mapping[str, Box]
) -> Frame:
    """Set the heading into the first corner of a frame that nothing else takes.

    Where all four are taken, the frame is widened to the right until its heading fits; where that
    would cut a node, its heading is above its nodes.
    """
    line = typeset(group.label, style.GROUP_SIZE)
    left, right = box.left + _INSET, box.right - _INSET - line.width
    top, bottom = box.top + _ABOVE + line.ascent, box.bottom - _ABOVE
    for at in ((left, top), (right, top), (left, bottom), (right, bottom)):
        if not _covers(line, at, occupied):
            return Frame(box, line, at)
    band = Box(box.left, top - line.ascent, box.right, top + line.descent)
    start = max(other.right for other in occupied if other.overlaps(band)) + _INSET
    wider = replace(box, right=max(box.right, start + line.width + _INSET))
    strangers = [other for node, other in nodes.items() if node not in group.nodes]
    if not any(wider.overlaps(other) for other in strangers):
        return Frame(wider, line, (start, top))
    higher = replace(box, top=box.top - line.height - _ABOVE)
    return Frame(higher, line, (left, higher.top + _ABOVE + line.ascent))


def _covers(line: TextLine, at: Point, occupied: Iterable[Box]) -> bool:
    x, y = at
    box = Box(x, y - line.ascent, x + line.width, y + line.descent).grown(1.5)
    return any(box.overlaps(other) for other in occupied)


def strips(path: DrawnPath) -> Iterable[Box]:
    """Yield the room that the parts of a line take."""
    for (x, y), (u, v) in pairwise(flattened(path)):
        yield Box(min(x, u), min(y, v), max(x, u), max(y, v)).grown(1.0)
