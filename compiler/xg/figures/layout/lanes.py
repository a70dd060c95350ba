"""Lanes: the way of residual edges, at the left of what they pass, and with them the frames.

Both are drawn around what is placed, and each may have to reach around the other: a lane runs
outside the frames of groups it does not belong to, a frame holds the lanes between its own nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from xg.figures.layout.frames import Frame, finished, frame_box
from xg.figures.layout.measure import Size, label_size
from xg.figures.layout.obstacles import Obstacles, Owner, strip
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.rails import Flank
from xg.figures.layout.route import rim
from xg.figures.model import style
from xg.figures.model.figure import FigureEdge
from xg.figures.model.geometry import Box, Path, Point, flattened, rounded
from xg.figures.model.structure import Place

_LABEL_STEP: Final = 4.0
_WIDE, _NARROW = 8.0, 2.0  # room around a lane's label
_ROOM: Final = 5.0  # between a lane and any box
_MOST_TRIES: Final = 64
_LANE: Final = "lane"  # owner of the lines of lanes, which may cross each other
_FAR: Final = 1e6


@dataclass(slots=True)
class Lanes:
    """The lanes' paths and label boxes by edge number, and the frames of the groups."""

    paths: dict[int, Path] = field(default_factory=dict[int, Path])
    labels: dict[int, Box] = field(default_factory=dict[int, Box])
    frames: dict[str, Frame] = field(default_factory=dict[str, Frame])

    def boxes(self) -> dict[int, list[Box]]:
        """Return what each lane takes up: its path and its label."""
        return {
            number: [path.bounds(), *([self.labels[number]] if number in self.labels else [])]
            for number, path in self.paths.items()
        }


def lanes(placed: PlacedFigure, drawn: Mapping[int, Path]) -> Lanes:
    """Lay lanes around boxes and flat arrows, shorter lanes inside longer ones."""
    found, obstacles = Lanes(), Obstacles(placed)
    for number, place in enumerate(placed.facts.places):
        if place in (Place.FROM_LEFT, Place.FROM_RIGHT):
            obstacles.add(number, drawn[number].bounds())
    crossing = [
        strip(a, b)
        for number, place in enumerate(placed.facts.places)
        if place in (Place.SIDE, Place.AROUND)
        for a, b in pairwise(flattened(drawn[number]))
    ]
    crossing += _between(placed)
    residual = _shortest_first(placed)
    edges = placed.figure.edges
    forks = {
        edges[number].tail: drawn[number].start[0]
        for number, place in enumerate(placed.facts.places)
        if place is Place.PAIRED
    }
    frames: dict[str, Box] = {}
    for position, group in enumerate(placed.figure.groups):
        inside = [
            number
            for number in residual
            if {edges[number].tail, edges[number].head} <= set(group.nodes)
        ]
        for number in inside:
            _lay(placed, number, found, obstacles, forks)
        for number in inside:
            _label(placed, number, found, obstacles, crossing)
        box = frame_box(placed, group, found.boxes())
        if box is not None:
            frames[group.id] = box
            obstacles.add(_frame_owner(position), box)
    outside = [number for number in residual if number not in found.paths]
    for number in outside:
        _lay(placed, number, found, obstacles, forks)
    for number in outside:
        _label(placed, number, found, obstacles, crossing)
    taken = [*placed.nodes.values(), *placed.labels.values(), *found.labels.values()]
    paths = [*drawn.values(), *found.paths.values()]
    found.frames |= {
        group.id: finished(group, frames[group.id], taken, paths)
        for group in placed.figure.groups
        if group.id in frames
    }
    return found


def _between(placed: PlacedFigure) -> Iterator[Box]:
    """Yield the room of each bar, from what stands above it to what stands below."""
    levels = [placed.nodes[node] for node in placed.figure.levels]
    others = [box for node, box in placed.nodes.items() if node not in placed.figure.levels]
    for bar in levels:
        top = max((box.bottom for box in others if box.bottom <= bar.top), default=bar.top)
        bottom = min((box.top for box in others if box.top >= bar.bottom), default=bar.bottom)
        yield Box(-_FAR, top, _FAR, bottom)


def _shortest_first(placed: PlacedFigure) -> list[int]:
    def length(number: int) -> float:
        edge = placed.figure.edges[number]
        return abs(placed.nodes[edge.head].center[1] - placed.nodes[edge.tail].center[1])

    places = enumerate(placed.facts.places)
    return sorted((number for number, place in places if place is Place.LANE), key=length)


def _lay(
    placed: PlacedFigure,
    number: int,
    found: Lanes,
    obstacles: Obstacles,
    forks: Mapping[str, float],
) -> None:
    edge = placed.figure.edges[number]
    beginning, ending = _beginning(placed, edge, forks), _ending(placed, edge)
    entered = (
        _frame_owner(position)
        for position, group in enumerate(placed.figure.groups)
        if edge.tail in group.nodes or edge.head in group.nodes
    )
    x = _lane_x(beginning, ending, (edge.tail, edge.head, *entered), obstacles)
    top, bottom = beginning[1], ending[0][1]
    path = rounded([beginning, (x, top), (x, bottom), *ending], style.CORNER)
    found.paths[number] = path
    for a, b in ((beginning, (x, top)), ((x, top), (x, bottom)), ((x, bottom), ending[0])):
        obstacles.add(_LANE, strip(a, b))


def _frame_owner(position: int) -> int:
    """Return who owns the frame of a group: numbers from -1 downwards are no edge's."""
    return -1 - position


def _label(
    placed: PlacedFigure,
    number: int,
    found: Lanes,
    obstacles: Obstacles,
    crossing: Sequence[Box],
) -> None:
    """Find a place for a lane's label, once all lanes around it stand.

    `crossing` are the lines that come from beside: a lane may be crossed by them, its label not.
    """
    label = placed.figure.edges[number].label
    if label:
        lane = found.paths[number].bounds()
        span = (lane.top, lane.bottom)
        found.labels[number] = _label_box(label_size(label), lane.left, span, obstacles, crossing)
        obstacles.add(number, found.labels[number])


def _lane_x(
    beginning: Point, ending: list[Point], own: tuple[Owner, ...], obstacles: Obstacles
) -> float:
    """Find the nearest lane at the left that no box stands in; failing that, the leftmost."""
    top, bottom = sorted((beginning[1], ending[0][1]))
    nearest = min(beginning[0], ending[0][0]) - style.CORNER - style.LANE_GAP
    passed = [box for _, box in obstacles.near(Box(-_FAR, top, nearest + style.LANE_GAP, bottom))]
    beside = sorted({box.left - style.LANE_GAP for box in passed}, reverse=True)
    tries = [nearest, *(x for x in beside if x < nearest)]
    for x in tries[:_MOST_TRIES]:
        way = [beginning, (x, beginning[1]), (x, ending[0][1]), ending[0]]
        is_near = any(o not in own for o, _ in obstacles.near(Box(x, top, x, bottom).grown(_ROOM)))
        if not is_near and not obstacles.block(way, own):
            return x
    return tries[-1]


def _beginning(placed: PlacedFigure, edge: FigureEdge, forks: Mapping[str, float]) -> Point:
    """Leave at the left; where that side is taken, or a bar's, fork off the line below the node.

    `forks` tells where that line is, if not in the middle.
    """
    entered = any(
        other.head == edge.tail and place is Place.LANE
        for other, place in zip(placed.figure.edges, placed.facts.places, strict=True)
    )
    is_bar = edge.tail in placed.figure.levels
    if edge.tail not in placed.facts.left and not entered and not is_bar:
        return rim(placed, edge.tail, Flank.LEFT)
    box = placed.nodes[edge.tail]
    return forks.get(edge.tail, box.center[0]), box.bottom + style.FORK_DROP


def _ending(placed: PlacedFigure, edge: FigureEdge) -> list[Point]:
    """Enter at the left; where a tensor stands there, pass above it and enter from the top."""
    if edge.head not in placed.facts.left:
        return [rim(placed, edge.head, Flank.LEFT)]
    box = placed.nodes[edge.head]
    x = box.center[0] - box.width / 4
    above = min(box.top, placed.nodes[placed.facts.left[edge.head]].top) - style.LANE_GAP / 2
    return [(x, above), (x, box.top)]


def _label_box(
    size: Size,
    x: float,
    span: tuple[float, float],
    obstacles: Obstacles,
    crossing: Sequence[Box],
) -> Box:
    """Find room at the right of the lane, nearest to its middle; else stand at its left."""
    around = Box(x - 2 * size.width, min(span), x + 2 * size.width, max(span)).grown(size.height)
    crossing = [line for line in crossing if line.overlaps(around)]
    middle = sum(span) / 2
    reach = abs(span[1] - span[0]) / 2 - style.CORNER - size.height
    steps = range(max(int(reach / _LABEL_STEP), 0) + 1)
    shifts = [sign * step * _LABEL_STEP for step in steps for sign in (1, -1)]
    for clearance in (_WIDE, _NARROW):
        for shift in shifts:
            box = Box.around((x + size.width / 2, middle + shift), size.width, size.height)
            # At its left stands the lane itself, half a gap away.
            area = replace(box.grown(clearance), left=box.left + style.LABEL_GAP / 2)
            struck = any(line.overlaps(box) for line in crossing)
            if not struck and not any(True for _ in obstacles.near(area)):
                return box
    left = x - size.width / 2 - style.LABEL_GAP
    half = max(int((abs(span[1] - span[0]) - size.height) / 2), 0)
    ways = [sign * step for step in range(half + 1) for sign in (1, -1)]
    boxes = [Box.around((left, middle + way), size.width, size.height) for way in ways]
    free = (box for box in boxes if not any(line.overlaps(box) for line in crossing))
    return next(free, boxes[0])
