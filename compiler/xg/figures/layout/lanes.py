"""Labels of lanes, and the frames of groups: what is drawn around paths that are already there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import pairwise
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.frames import Frame, finished, frame_box
from xg.figures.layout.measure import Extent, label_size
from xg.figures.layout.obstacles import Obstacles, strip
from xg.figures.layout.placed import PlacedFigure
from xg.figures.model import style
from xg.figures.model.geometry import Box, DrawnPath, Point, flattened
from xg.figures.model.structure import EdgePlace

_LABEL_STEP: Final = 4.0
_WIDE, _NARROW = 8.0, 1.0  # room around a lane's label
_LEFT_GAP: Final = 3.0  # between a label at the left of a lane and the lane


@dataclass(slots=True)
class Lanes:
    """The label boxes of lanes by edge number, and the frames of the groups."""

    labels: dict[int, Box] = field(default_factory=dict[int, Box])
    frames: dict[str, Frame] = field(default_factory=dict[str, Frame])


def lanes(placed: PlacedFigure) -> Lanes:
    """Find room for the labels of lanes, then for frames and their headings."""
    found, obstacles = Lanes(), Obstacles(placed)
    for number, path in placed.paths.items():
        for a, b in pairwise(flattened(path)):
            obstacles.add(number, strip(a, b))
    for bar in placed.figure.levels:
        box = placed.nodes[bar]
        obstacles.add(bar, Box(-1e4, box.top, 1e4, box.bottom))
    for number, place in enumerate(placed.facts.places):
        label = placed.figure.edges[number].label
        if place is EdgePlace.LANE and label:
            box = _label_box(label_size(label), placed.paths[number], obstacles)
            found.labels[number] = box
            obstacles.add(number, box)
    boxes = _boxes(placed, found.labels)
    taken = [*placed.nodes.values(), *placed.labels.values(), *found.labels.values()]
    for group in placed.figure.groups:
        box = frame_box(placed, group, boxes)
        if box is not None:
            found.frames[group.id] = finished(group, box, taken, placed.paths.values())
    return found


def _boxes(placed: PlacedFigure, labels: Mapping[int, Box]) -> dict[int, list[Box]]:
    """Return what each line takes up: its path and its label."""
    return {
        number: [path.bounds(), *([labels[number]] if number in labels else [])]
        for number, path in placed.paths.items()
    }


def _label_box(size: Extent, path: DrawnPath, obstacles: Obstacles) -> Box:
    """Find room beside the lane's upright parts, nearest to their middle: the longest first."""
    parts = [(a, b) for a, b in pairwise(flattened(path)) if a[0] == b[0]]
    parts.sort(key=lambda part: -abs(part[0][1] - part[1][1]))
    for clearance in (_WIDE, _NARROW):
        for part in parts:
            for side, center in _places(part, size):
                box = Box.around(center, size.width, size.height)
                if not _is_taken(box, side, clearance, obstacles):
                    return box
    (x, start), (_, end) = parts[0]
    return Box.around((x + size.width / 2, (start + end) / 2), size.width, size.height)


def _places(part: tuple[Point, Point], size: Extent) -> Iterator[tuple[int, Point]]:
    """Yield middles for a label at the right of an upright part, then at its left."""
    (x, start), (_, end) = part
    middle, reach = (start + end) / 2, abs(end - start) / 2 - size.height
    steps = range(max(int(reach / _LABEL_STEP), 0) + 1)
    for side, away in ((1, size.width / 2), (-1, -size.width / 2 - _LEFT_GAP)):
        for step in steps:
            yield from ((side, (x + away, middle + sign * step * _LABEL_STEP)) for sign in (1, -1))


def _is_taken(box: Box, side: int, clearance: float, obstacles: Obstacles) -> bool:
    """Return whether something occupies a label's place, besides its own line next to it."""
    inset = style.LABEL_GAP - 1.0
    area = box.grown(clearance)
    area = replace(area, left=box.left + inset) if side > 0 else replace(area, right=box.right)
    return any(True for _ in obstacles.near(area))
