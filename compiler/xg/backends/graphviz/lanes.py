"""Lanes: the way of residual edges, at the left of everything they pass, and the frames of groups.

Both are drawn around what is placed, and each may have to reach around the other: a lane runs
outside the frames of groups it does not belong to, a frame holds the lanes between its own nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xg.backends.graphviz import style
from xg.backends.graphviz.figure import FigureEdge, FigureGroup
from xg.backends.graphviz.geometry import Box, Path, Point, bounding_box, rounded
from xg.backends.graphviz.measure import Size, label_size
from xg.backends.graphviz.placed import PlacedFigure
from xg.backends.graphviz.placement import has_label_box
from xg.backends.graphviz.rails import Flank
from xg.backends.graphviz.route import rim
from xg.backends.graphviz.structure import Place

_FORK_DROP = 4.5  # below a node, where a lane leaves the node's line
_LABEL_STEP = 4.0
_WIDE, _NARROW = 8.0, 2.0  # room around a lane's label


@dataclass(slots=True)
class Lanes:
    """The lanes' paths and label boxes by edge number, and the frames of the groups."""

    paths: dict[int, Path] = field(default_factory=dict[int, Path])
    labels: dict[int, Box] = field(default_factory=dict[int, Box])
    frames: dict[str, Box] = field(default_factory=dict[str, Box])


def lanes(placed: PlacedFigure, drawn: Mapping[int, Path]) -> Lanes:
    """Lay lanes around boxes and routes already drawn, shorter lanes inside longer ones."""
    found = Lanes()
    edges = placed.figure.edges
    residual = [n for n, place in enumerate(placed.facts.places) if place is Place.LANE]
    residual.sort(
        key=lambda n: abs(_middle(placed, edges[n].head) - _middle(placed, edges[n].tail))
    )
    for group in placed.figure.groups:
        inside = [n for n in residual if {edges[n].tail, edges[n].head} <= set(group.nodes)]
        for number in inside:
            _lay(placed, number, found, drawn)
        found.frames[group.id] = _frame(placed, group, found)
    for number in residual:
        if number not in found.paths:
            _lay(placed, number, found, drawn)
    return found


def _middle(placed: PlacedFigure, node_id: str) -> float:
    return placed.nodes[node_id].center[1]


def _lay(placed: PlacedFigure, number: int, found: Lanes, drawn: Mapping[int, Path]) -> None:
    edge = placed.figure.edges[number]
    beginning, ending = _beginning(placed, edge), _ending(placed, edge)
    size = label_size(edge.label) if edge.label else None
    top, bottom = beginning[-1][1], ending[0][1]
    passed = [box for box in _passed(placed, found, drawn) if _spans(box, top, bottom)]
    start = min(beginning[-1][0], ending[0][0]) - style.CORNER
    x = min((box.left for box in passed), default=start) - style.LANE_GAP
    x = min(x, start)
    points = [*beginning, (x, top), (x, bottom), *ending]
    found.paths[number] = rounded(points, style.CORNER)
    if size is not None:
        found.labels[number] = _label_box(size, x, (top, bottom), passed)


def _beginning(placed: PlacedFigure, edge: FigureEdge) -> list[Point]:
    """Leave at the left; where that side is taken, fork off the line below the node."""
    entered = any(
        other.head == edge.tail and place is Place.LANE
        for other, place in zip(placed.figure.edges, placed.facts.places, strict=True)
    )
    if edge.tail not in placed.facts.left and not entered:
        return [rim(placed, edge.tail, Flank.LEFT)]
    box = placed.nodes[edge.tail]
    return [(box.center[0], box.bottom + _FORK_DROP)]


def _ending(placed: PlacedFigure, edge: FigureEdge) -> list[Point]:
    """Enter at the left; where a tensor stands there, pass above it and enter from the top."""
    if edge.head not in placed.facts.left:
        return [rim(placed, edge.head, Flank.LEFT)]
    box = placed.nodes[edge.head]
    x = box.center[0] - box.width / 4
    above = min(box.top, placed.nodes[placed.facts.left[edge.head]].top) - style.LANE_GAP / 2
    return [(x, above), (x, box.top)]


def _passed(placed: PlacedFigure, found: Lanes, drawn: Mapping[int, Path]) -> list[Box]:
    boxes = [*placed.nodes.values(), *placed.labels.values()]
    boxes += (path.bounds() for path in drawn.values())
    boxes += (path.bounds() for path in found.paths.values())
    boxes += found.labels.values()
    boxes += found.frames.values()
    return boxes


def _spans(box: Box, top: float, bottom: float) -> bool:
    return box.top < bottom - 1 and box.bottom > top + 1


def _label_box(size: Size, x: float, span: tuple[float, float], passed: Sequence[Box]) -> Box:
    """Find room at the right of the lane, nearest to its middle; else stand at its left."""
    middle = sum(span) / 2
    reach = (span[1] - span[0]) / 2 - style.CORNER - size.height
    steps = range(max(int(reach / _LABEL_STEP), 0) + 1)
    shifts = [sign * step * _LABEL_STEP for step in steps for sign in (1, -1)]
    for clearance, shift in ((room, shift) for room in (_WIDE, _NARROW) for shift in shifts):
        box = Box.around((x + size.width / 2, middle + shift), size.width, size.height)
        if not any(box.grown(clearance).overlaps(other) for other in passed):
            return box
    return Box.around((x - size.width / 2 - style.LABEL_GAP, middle), size.width, size.height)


def _frame(placed: PlacedFigure, group: FigureGroup, found: Lanes) -> Box:
    members = set(group.nodes)
    boxes = [placed.nodes[node] for node in group.nodes]
    for number, (edge, place) in enumerate(
        zip(placed.figure.edges, placed.facts.places, strict=True)
    ):
        if not {edge.tail, edge.head} <= members:
            continue
        if has_label_box(edge, place) and number in placed.labels:
            boxes.append(placed.labels[number])
        boxes += [found.paths[number].bounds()] if number in found.paths else []
        boxes += [found.labels[number]] if number in found.labels else []
    frame = bounding_box(boxes).grown(style.GROUP_PADDING)
    heading = style.GROUP_HEADING if group.label else 0.0
    return replace(frame, top=frame.top - heading)
