"""The side of a label in pictures that have its line and not yet the way back beside that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from xg.figures.draw.display import DrawnShape, DrawnText, Element
from xg.figures.draw.typeset import line_bounds
from xg.figures.model import style
from xg.figures.model.geometry import Box, Point, flattened

_NEAR: Final = style.LABEL_GAP + 1.0  # a label is that near to the line that it belongs to

_Part = tuple[Point, Point]


def beside_own_line(element: Element, back: Element) -> Element:
    """Return an edge whose label is next to its own line, where it was next to the way back."""
    own, other = list(_straight(element)), list(_straight(back))
    parts = (_moved(part, own, other) for part in element.parts)
    return replace(element, parts=tuple(parts))


def _moved(
    part: DrawnShape | DrawnText, own: Iterable[_Part], other: Iterable[_Part]
) -> DrawnShape | DrawnText:
    if not isinstance(part, DrawnText):
        return part
    box = line_bounds(part.line, part.x, part.y)
    if any(_beside(box, one) is not None for one in own):
        return part
    near = [(axis, one) for one in other if (axis := _beside(box, one)) is not None]
    shifts = [
        mine[0][axis] - back[0][axis]
        for axis, back in near
        for mine in own
        if mine[0][axis] == mine[1][axis] and _overlap(mine, box, axis)
    ]
    if not shifts:
        return part
    shift = min(shifts, key=abs)
    return replace(part, x=part.x + shift) if near[0][0] == 0 else replace(part, y=part.y + shift)


def _straight(element: Element) -> Iterator[_Part]:
    """Yield the upright and the level parts of an edge's lines."""
    for part in element.parts:
        if isinstance(part, DrawnShape) and not part.path.closed:
            for a, b in pairwise(flattened(part.path)):
                if a[0] == b[0] or a[1] == b[1]:
                    yield a, b


def _beside(box: Box, part: _Part) -> int | None:
    """Return across which axis a box is next to a part of a line, None if it is not."""
    axis = 0 if part[0][0] == part[1][0] else 1
    low, high = (box.left, box.right) if axis == 0 else (box.top, box.bottom)
    is_near = low - _NEAR <= part[0][axis] <= high + _NEAR
    return axis if is_near and _overlap(part, box, axis) else None


def _overlap(part: _Part, box: Box, axis: int) -> bool:
    """Return whether a part of a line runs along a box, somewhere at its side."""
    low, high = (box.top, box.bottom) if axis == 0 else (box.left, box.right)
    start, end = sorted((part[0][1 - axis], part[1][1 - axis]))
    return start < high and low < end
