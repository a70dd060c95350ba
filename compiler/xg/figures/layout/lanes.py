"""Place the labels of lanes, leave out repeated ones, and find the frames of groups.

They are drawn around paths that are already there.

Repeated labels make no room: given to the engine, they moved columns and caused crossings. Every
product of a batch axis is in a lane, because with one lane a reader concludes that the others
aren't done for each head.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.draw.glyph import Extent, label_size
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.request import (
    Frame,
    Surroundings,
    beside_frames,
    frame_box,
    place_frame,
    rank_frames,
    straight,
    strange_lines,
    strips,
    without_strangers,
)
from xg.figures.model import figure as style
from xg.figures.model.figure import Box, DrawnPath, EdgeStyle, Point, bounding_box, path_points
from xg.figures.model.richtext import RichText
from xg.figures.model.structure import EdgePlace, nest_groups

# Obstacles of labels: nodes, other labels, lines, the rims of frames.


_BAND: Final = 64.0  # points; a few rows
_CLEARANCE: Final = 2.0

Owner = str | int  # a node's id, an edge's number, or a frame's


class Obstacles:
    """Boxes with their owners, sorted into horizontal bands so that few are looked at."""

    def __init__(self) -> None:
        self._bands: dict[int, list[tuple[Owner, Box]]] = defaultdict(list)

    @classmethod
    def of(cls, placed: PlacedFigure) -> Obstacles:
        """Return the nodes and the labels of a figure."""
        found = cls()
        for node_id, box in placed.nodes.items():
            found.add(node_id, box)
        for number, box in placed.labels.items():
            # A label's box begins at its line; its text does not.
            found.add(number, Box(box.left + _CLEARANCE, box.top, box.right, box.bottom))
        return found

    def add(self, owner: Owner, box: Box) -> None:
        """Put up one more."""
        for band in _bands(box):
            self._bands[band].append((owner, box))

    def near(self, area: Box) -> Iterator[tuple[Owner, Box]]:
        """Yield what overlaps an area, in the order in which it was put up, maybe repeatedly."""
        for band in _bands(area):
            for owner, box in self._bands.get(band, ()):
                if box.overlaps(area):
                    yield owner, box


def _bands(box: Box) -> range:
    return range(int(box.top // _BAND), int(box.bottom // _BAND) + 1)


# Labels over the level part of a line, where beside its upright parts there is no room.


_OVER: Final = 4.0  # from a line to a label over it
_LEVEL_END: Final = 8.0  # that a label keeps off the ends of its part
_LEVEL_ROOM: Final = 1.0
_LEVEL_STEP: Final = 4.0


def box_over(path: DrawnPath, size: Extent, obstacles: Obstacles, top: float) -> Box | None:
    """Find room for a label over a line's level parts, nearest to the middle of each.

    It reaches no higher than `top`: a figure does not grow for it.
    """
    for a, b in pairwise(path_points(path)):
        if a[1] == b[1]:
            for center in _level_places(a, b, size):
                box = Box.around(center, size.width, size.height)
                if box.top >= top and not any(True for _ in obstacles.near(box.grown(_LEVEL_ROOM))):
                    return box
    return None


def _level_places(a: Point, b: Point, size: Extent) -> Iterator[Point]:
    """Yield the middles that a label may have over a level part."""
    middle, y = (a[0] + b[0]) / 2, a[1] - _OVER - size.height / 2
    spare = (abs(b[0] - a[0]) - size.width) / 2 - _LEVEL_END
    for step in range(int(spare / _LEVEL_STEP) + 1 if spare >= 0.0 else 0):
        yield from ((middle + sign * step * _LEVEL_STEP, y) for sign in (1, -1))


# Crossings cost 4 each: see `tangles`.
_AXIS: Final = 3  # of an axis without a lane, where ranks are side by side nothing
_CALL: Final = 40  # of an opened call without a frame
_RIM: Final = 20  # of a frame whose rim or heading found no place off lines and texts
_LABEL_STEP: Final = 4.0
_WIDE, _MEDIUM, _NARROW = 8.0, 4.0, 1.0  # room around a lane's label
# Rounds of tries to place one: sides of an upright part, 1 is its right, and the room there.
_TRIES: Final = (((1, _WIDE), (-1, _WIDE)), ((1, _NARROW), (-1, _NARROW)))
_PAIR_TRIES: Final = (((-1, _WIDE), (-1, _MEDIUM), (1, _WIDE)), ((-1, _NARROW), (1, _NARROW)))
_RIGHT_TRIES: Final = (((1, _WIDE), (1, _MEDIUM), (-1, _WIDE)), ((1, _NARROW), (-1, _NARROW)))
_SPARE_TRIES: Final = (((1, _WIDE), (-1, _WIDE)), ((1, _MEDIUM), (-1, _MEDIUM)))
_LEFT_GAP: Final = 3.0  # between a label at the left of a lane and the lane


@dataclass(slots=True)
class Lanes:
    """The boxes of labels that were placed last, by edge number, and the frames of the groups.

    Some frames are `unsettled`: their rim or heading is on a line or a text. Labels in `crowded`
    found no room; they need so much at the left of their lines. Those in `named` have their
    tensor's name, too.
    """

    labels: dict[int, Box] = field(default_factory=dict[int, Box])
    crowded: dict[int, float] = field(default_factory=dict[int, float])
    frames: dict[str, Frame] = field(default_factory=dict[str, Frame])
    unsettled: set[str] = field(default_factory=set[str])
    named: set[int] = field(default_factory=set[int])


def lanes(placed: PlacedFigure) -> Lanes:
    """Find room for the labels of lanes, then for frames and their headings."""
    result = label_lanes(placed.transpose()) if placed.is_turned else label_lanes(placed)
    if placed.is_turned:
        result.labels = {number: box.transpose() for number, box in result.labels.items()}
    if not placed.figure.groups:
        return result
    boxes = _boxes(placed, result.labels)
    taken = [*placed.nodes.values(), *placed.labels.values(), *result.labels.values()]
    taken += (part for path in placed.paths.values() for part in strips(path))
    lines = straight(part for number in placed.paths for part in _lines(placed, number))
    texts = [_text(placed, number, box) for number, box in placed.labels.items()]
    texts += (box for number, box in result.labels.items() if number not in placed.labels)
    inside_of = nest_groups(placed.figure.groups)
    for number, group in reversed(list(enumerate(placed.figure.groups))):
        ids = (placed.figure.groups[other].id for other in inside_of[number])
        within = [one for one in ids if one in result.frames]
        inner = [result.frames[one].box for one in within]
        others = [one.box for key, one in result.frames.items() if key not in within]
        found = frame_box(placed, group, boxes, inner)
        outside = strange_lines(placed, group) if group.is_axis else []
        if found is not None:
            found = found[0], without_strangers(*found, outside)
            found = found[0], beside_frames(*found, others)
        if found is not None:
            strangers = [box for node, box in placed.nodes.items() if node not in group.nodes]
            other = [one.text for one in result.frames.values()]
            around = Surroundings(strangers, lines, [*texts, *other], outside)
            frame, is_clear = place_frame(group, *found, [*taken, *inner], placed.nodes, around)
            if is_clear or not group.is_axis:
                result.frames[group.id] = frame
                taken += _rim(frame.box)
            if not is_clear:
                result.unsettled.add(group.id)
    return result


def _rim(box: Box) -> Iterator[Box]:
    """Yield the room of the four sides of a frame."""
    yield Box(box.left, box.top, box.right, box.top).grown(1.0)
    yield Box(box.left, box.bottom, box.right, box.bottom).grown(1.0)
    yield Box(box.left, box.top, box.left, box.bottom).grown(1.0)
    yield Box(box.right, box.top, box.right, box.bottom).grown(1.0)


def _lines(placed: PlacedFigure, number: int) -> Iterator[tuple[Point, Point]]:
    """Yield the parts of an edge's line; a double line has two."""
    is_double = placed.figure.edges[number].style is EdgeStyle.DOUBLE
    half = style.DOUBLE_GAP / 2 if is_double else 0.0
    for (x, y), (u, v) in pairwise(path_points(placed.paths[number])):
        for side in (-half, half) if half else (0.0,):
            dx, dy = (side, 0.0) if x == u else (0.0, side)
            yield (x + dx, y + dy), (u + dx, v + dy)


def _text(placed: PlacedFigure, number: int, box: Box) -> Box:
    """Return where the text of a label is: in its box beside its line."""
    if placed.is_turned or number in placed.facts.twins:
        return box
    return replace(box, left=box.left + style.LABEL_GAP)


def left_out(placed: PlacedFigure) -> tuple[bool, int]:
    """Return the cost of groups without a frame or with one on something, and of crowded labels.

    They have none where other nodes are among theirs. It comes after whether that is a flaw: only
    lanes of axes may be left out.
    """
    groups = placed.figure.groups
    if not groups:
        return False, 0
    seen = placed.transpose() if placed.figure.rightward else placed
    found = lanes(seen)
    frameless = [one for one in groups if one.id not in found.frames]
    rims = len(found.unsettled & found.frames.keys()) + len(found.crowded)
    axis = 0 if placed.figure.levels else _AXIS
    cost = _CALL * sum(not one.is_axis for one in frameless) + _RIM * rims
    cost += axis * any(one.is_axis for one in frameless)  # all of them are worth no crossing
    return rims > 0 or not all(one.is_axis for one in frameless), cost


def lanes_beyond(placed: PlacedFigure, found: Lanes) -> Iterator[int]:
    """Yield the lanes from which the ways back part their labels."""
    for number in found.labels.keys() & placed.facts.twins.keys():
        back = _upright(placed.paths[placed.facts.twins[number]])
        if any(abs(x - found.labels[number].left) < 1.0 for (x, _), _ in back):
            yield number


def label_lanes(placed: PlacedFigure) -> Lanes:
    """Return where the labels of lanes are, and how much room those need that find none."""
    result = Lanes()
    edges = list(enumerate(zip(placed.figure.edges, placed.facts.places, strict=True)))
    on_lanes = [n for n, (edge, place) in edges if place is EdgePlace.LANE and edge.label]
    repeated = [n for n, (edge, _) in edges if edge.repeats and n in placed.paths]
    if on_lanes or repeated:
        # Among so many lines hardly a place is free, and the search for it takes minutes.
        obstacles = Obstacles() if placed.dense else _obstacles(placed)
        same = _of_one_label(placed)
        for number in on_lanes:
            _put_on_lane(placed, number, obstacles, result)
        for number in repeated:
            others, heights = _foreign_groups(placed, number), _heights(placed, number)
            box = _box_on(placed, number, obstacles, others, heights)
            box = box or _box_over(placed, number, obstacles)
            alike = [one for one in same[_label_key(placed, number)] if one != number]
            if box is not None and not _repeats_label(placed, alike, box, result):
                result.labels[number] = box
                obstacles.add(number, box)
    return result


def _repeats_label(placed: PlacedFigure, alike: Sequence[int], box: Box, result: Lanes) -> bool:
    """Return whether one of its label is already beside the line: it leads to several nodes."""
    found = (labels.get(n) for n in alike for labels in (placed.labels, result.labels))
    return any(abs(one.left - box.left) < 1.0 for one in found if one is not None)


def _of_one_label(placed: PlacedFigure) -> Mapping[tuple[object, RichText], list[int]]:
    """Return the edges that carry one value and have one label, by these."""
    found: dict[tuple[object, RichText], list[int]] = defaultdict(list)
    for number in range(len(placed.figure.edges)):
        found[_label_key(placed, number)].append(number)
    return found


def _label_key(placed: PlacedFigure, number: int) -> tuple[object, RichText]:
    edge = placed.figure.edges[number]
    return edge.value, edge.label


def _obstacles(placed: PlacedFigure) -> Obstacles:
    obstacles = Obstacles.of(placed)
    for number, path in placed.paths.items():
        for a, b in pairwise(path_points(path)):
            obstacles.add(number, Box.between(a, b).grown(_CLEARANCE))
    for bar in placed.figure.levels:
        box = placed.nodes[bar]
        obstacles.add(bar, Box(-1e4, box.top, 1e4, box.bottom))
    for rim in (y for pair in rank_frames(placed) for y in pair) if placed.figure.levels else ():
        obstacles.add("", Box(-1e4, rim - 1.0, 1e4, rim + 1.0))
    return obstacles


def _put_on_lane(placed: PlacedFigure, number: int, obstacles: Obstacles, result: Lanes) -> None:
    """Place a lane's label, or record how much room it needs.

    It has the name of its tensor if the figure need not be wider for it.
    """
    others = _foreign_groups(placed, number)
    box = _box_on(placed, number, obstacles, others) or _box_on(placed, number, obstacles)
    if box is None:
        size, beside = _measures(placed, number)
        result.crowded[number] = size.width + _LEFT_GAP + _NARROW
        (x, start), (_, end) = _upright(placed.paths[number])[0]
        center = x + max(beside, 0.0) + size.width / 2, (start + end) / 2
        box = Box.around(center, size.width, size.height)
    elif placed.figure.edges[number].name:
        whole = _box_on(placed, number, obstacles, others, is_whole=True)
        paths = (path.bounds() for path in placed.paths.values())
        used = (*placed.nodes.values(), *placed.labels.values(), *result.labels.values(), *paths)
        room = bounding_box([box, *used])
        if whole and room.left <= whole.left and whole.right <= room.right:
            box = whole
            result.named.add(number)
    result.labels[number] = box
    obstacles.add(number, box)


def _heights(placed: PlacedFigure, number: int) -> list[float]:
    """Return the heights of the labels that this label repeats."""
    edges = placed.figure.edges
    return [
        box.center[1] for n, box in placed.labels.items() if edges[n].tail == edges[number].tail
    ]


def _box_on(
    placed: PlacedFigure,
    number: int,
    obstacles: Obstacles,
    others: Sequence[Box] = (),
    heights: Sequence[float] = (),
    *,
    is_whole: bool = False,
) -> Box | None:
    size, beside = _measures(placed, number, is_whole=is_whole)
    rounds = _RIGHT_TRIES if beside < 0 else _PAIR_TRIES if beside else _TRIES
    if placed.figure.edges[number].repeats:
        rounds = rounds[:1] if beside else _SPARE_TRIES
    return _label_box(size, placed.paths[number], beside, obstacles, rounds, others, heights)


def _box_over(placed: PlacedFigure, number: int, obstacles: Obstacles) -> Box | None:
    """Find room over a level part, of a line that has no way back, where lines lead down."""
    if placed.figure.rightward or number in placed.facts.twins:
        return None
    size, _ = _measures(placed, number)
    top = min(box.top for box in placed.nodes.values())
    return box_over(placed.paths[number], size, obstacles, top)


def _measures(placed: PlacedFigure, number: int, *, is_whole: bool = False) -> tuple[Extent, float]:
    """Return how large an edge's label is, and how far the arrow back is at the line's right.

    Where it is at the left, that is less than nothing.
    """
    edge, beside = placed.figure.edges[number], 0.0
    if number in placed.facts.twins:
        own, back = (placed.paths[one] for one in (number, placed.facts.twins[number]))
        beside = _upright(back)[0][0][0] - _upright(own)[0][0][0]
    label = edge.text if is_whole else edge.label
    return label_size(label, turned=placed.figure.rightward), beside


def _foreign_groups(placed: PlacedFigure, number: int) -> list[Box]:
    """Return the room of the groups in which a lane does not end: its label is rather elsewhere."""
    edge = placed.figure.edges[number]
    found: list[Box] = []
    for group in placed.figure.groups:
        members = set(group.nodes)
        if {edge.tail, edge.head} & members:
            continue
        ends = enumerate(placed.figure.edges)
        inside = [n for n, one in ends if {one.tail, one.head} <= members]
        labels = [placed.labels[n] for n in inside if n in placed.labels]
        room = bounding_box([*labels, *(placed.nodes[node] for node in group.nodes)])
        room = room.grown(style.GROUP_PADDING)
        found.append(replace(room, top=room.top - style.GROUP_HEADING))
    return found


def _boxes(placed: PlacedFigure, labels: Mapping[int, Box]) -> dict[int, list[Box]]:
    """Return what each line takes up: its path and its label."""
    return {
        number: [path.bounds(), *([labels[number]] if number in labels else [])]
        for number, path in placed.paths.items()
    }


def _upright(path: DrawnPath) -> list[tuple[Point, Point]]:
    """Return the upright parts of a path, the longest first."""
    parts = [(a, b) for a, b in pairwise(path_points(path)) if a[0] == b[0]]
    parts.sort(key=lambda part: -abs(part[0][1] - part[1][1]))
    return parts


def _label_box(
    size: Extent,
    path: DrawnPath,
    beside: float,
    obstacles: Obstacles,
    rounds: Sequence[Sequence[tuple[int, float]]],
    others: Sequence[Box] = (),
    heights: Sequence[float] = (),
) -> Box | None:
    """Find room beside the line's upright parts: at given heights, else nearest to their middle.

    The longest part is the first. The room is not in `others`.

    A gradient's arrow is that far `beside` it at the right, or at the left: a label of one of the
    pair is rather next to its own line, where there is a little room.
    """
    parts = _upright(path)
    for tries in rounds:
        for part, (side, clearance) in product(parts, tries):
            for center in _upright_places(part, size, beside, side, heights):
                box = Box.around(center, size.width, size.height)
                if any(box.overlaps(other) for other in others):
                    continue
                if not _overlaps(box, side, clearance, obstacles):
                    return box
    return None


def _upright_places(
    part: tuple[Point, Point], size: Extent, beside: float, side: int, heights: Sequence[float]
) -> Iterator[Point]:
    """Yield middles for a label at a side of an upright part: 1 is its right, -1 its left."""
    (x, start), (_, end) = part
    middle, reach = (start + end) / 2, abs(end - start) / 2 - size.height
    away = size.width / 2 + (max(beside, 0.0) if side > 0 else _LEFT_GAP - min(beside, 0.0))
    for height in heights:
        if abs(height - middle) <= abs(end - start) / 2 - size.height / 2:
            yield x + side * away, height
    for step in range(max(int(reach / _LABEL_STEP), 0) + 1):
        yield from ((x + side * away, middle + sign * step * _LABEL_STEP) for sign in (1, -1))


def _overlaps(box: Box, side: int, clearance: float, obstacles: Obstacles) -> bool:
    """Return whether something occupies a label's place, besides its own line next to it."""
    area = box.grown(clearance)
    inset = replace(area, left=box.left + style.LABEL_GAP - 1.0)  # a label's text begins there
    area = inset if side > 0 or clearance == _NARROW else replace(area, right=box.right)
    area = area if side > 0 else replace(area, right=box.right)
    return any(True for _ in obstacles.near(area))
