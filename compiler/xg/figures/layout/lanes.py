"""Labels of lanes, and the frames of groups: what is drawn around paths that are already there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import pairwise
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.frames import Frame, finished, frame_box, strips
from xg.figures.layout.measure import Extent, label_size
from xg.figures.layout.obstacles import Obstacles, strip
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.request import pair_shift
from xg.figures.model import style
from xg.figures.model.geometry import Box, DrawnPath, Point, flattened
from xg.figures.model.structure import EdgePlace, nested

_LABEL_STEP: Final = 4.0
_WIDE, _NARROW = 8.0, 1.0  # room around a lane's label
_LEFT_GAP: Final = 3.0  # between a label at the left of a lane and the lane


@dataclass(slots=True)
class Lanes:
    """The label boxes of lanes by edge number, and the frames of the groups.

    Labels in `crowded` found no room; they need so much at the left of their lines.
    """

    labels: dict[int, Box] = field(default_factory=dict[int, Box])
    crowded: dict[int, float] = field(default_factory=dict[int, float])
    frames: dict[str, Frame] = field(default_factory=dict[str, Frame])


def lanes(placed: PlacedFigure) -> Lanes:
    """Find room for the labels of lanes, then for frames and their headings."""
    result = _labelled(placed.turned()) if placed.is_turned else _labelled(placed)
    if placed.is_turned:
        result.labels = {number: box.turned() for number, box in result.labels.items()}
    if not placed.figure.groups:
        return result
    boxes = _boxes(placed, result.labels)
    taken = [*placed.nodes.values(), *placed.labels.values(), *result.labels.values()]
    taken += (part for path in placed.paths.values() for part in strips(path))
    inside_of = nested(placed.figure.groups)
    for number, group in reversed(list(enumerate(placed.figure.groups))):
        ids = (placed.figure.groups[other].id for other in inside_of[number])
        inner = [result.frames[one].box for one in ids if one in result.frames]
        box = frame_box(placed, group, boxes, inner)
        if box is not None:
            result.frames[group.id] = finished(group, box, [*taken, *inner], placed.nodes)
    return result


def crowded_lanes(placed: PlacedFigure) -> dict[int, float]:
    """Return the labels that find no room, and how much they need at the left of their lines."""
    return _labelled(placed).crowded


def _labelled(placed: PlacedFigure) -> Lanes:
    result = Lanes()
    edges = zip(placed.figure.edges, placed.facts.places, strict=True)
    if not any(place is EdgePlace.LANE and edge.label for edge, place in edges):
        return result
    obstacles = Obstacles(placed)
    for number, path in placed.paths.items():
        for a, b in pairwise(flattened(path)):
            obstacles.add(number, strip(a, b))
    for bar in placed.figure.levels:
        box = placed.nodes[bar]
        obstacles.add(bar, Box(-1e4, box.top, 1e4, box.bottom))
    for number, place in enumerate(placed.facts.places):
        label = placed.figure.edges[number].label
        if place is EdgePlace.LANE and label:
            beside = 2 * pair_shift(placed) if number in placed.facts.twins else 0.0
            size = label_size(label, turned=placed.figure.rightward)
            box = _label_box(size, placed.paths[number], beside, obstacles)
            if box is None:
                result.crowded[number] = size.width + _LEFT_GAP + _NARROW
                (x, start), (_, end) = _upright(placed.paths[number])[0]
                center = x + beside + size.width / 2, (start + end) / 2
                box = Box.around(center, size.width, size.height)
            result.labels[number] = box
            obstacles.add(number, box)
    return result


def _boxes(placed: PlacedFigure, labels: Mapping[int, Box]) -> dict[int, list[Box]]:
    """Return what each line takes up: its path and its label."""
    return {
        number: [path.bounds(), *([labels[number]] if number in labels else [])]
        for number, path in placed.paths.items()
    }


def _upright(path: DrawnPath) -> list[tuple[Point, Point]]:
    """Return the upright parts of a path, the longest first."""
    parts = [(a, b) for a, b in pairwise(flattened(path)) if a[0] == b[0]]
    parts.sort(key=lambda part: -abs(part[0][1] - part[1][1]))
    return parts


def _label_box(size: Extent, path: DrawnPath, beside: float, obstacles: Obstacles) -> Box | None:
    """Find room beside the lane's upright parts, nearest to their middle: the longest first.

    A gradient's arrow is that far `beside` it at the right.
    """
    parts = _upright(path)
    for clearance in (_WIDE, _NARROW):
        for part in parts:
            for side, center in _places(part, size, beside):
                box = Box.around(center, size.width, size.height)
                if not _is_taken(box, side, clearance, obstacles):
                    return box
    return None


def _places(part: tuple[Point, Point], size: Extent, beside: float) -> Iterator[tuple[int, Point]]:
    """Yield middles for a label at the right of an upright part, then at its left.

    One of a pair prefers the left, where it is next to its own line.
    """
    (x, start), (_, end) = part
    middle, reach = (start + end) / 2, abs(end - start) / 2 - size.height
    steps = range(max(int(reach / _LABEL_STEP), 0) + 1)
    sides = [(1, beside + size.width / 2), (-1, -size.width / 2 - _LEFT_GAP)]
    for side, away in reversed(sides) if beside else sides:
        for step in steps:
            yield from ((side, (x + away, middle + sign * step * _LABEL_STEP)) for sign in (1, -1))


def _is_taken(box: Box, side: int, clearance: float, obstacles: Obstacles) -> bool:
    """Return whether something occupies a label's place, besides its own line next to it."""
    area = box.grown(clearance)
    inset = replace(area, left=box.left + style.LABEL_GAP - 1.0)  # a label's text begins there
    area = inset if side > 0 or clearance == _NARROW else replace(area, right=box.right)
    area = area if side > 0 else replace(area, right=box.right)
    return any(True for _ in obstacles.near(area))
