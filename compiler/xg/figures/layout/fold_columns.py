"""Break a long figure into columns side by side, as lines of text are broken.

A figure is cut between its rows, where few lines pass. Each line continues from the bottom of one
column to the top of the next, through the gap between them, where no two lines cross. A figure that
is drawn from left to right is broken into rows in the same way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.figures.layout.lanes import label_lanes
from xg.figures.layout.placement import PlacedFigure
from xg.figures.model import figure as style
from xg.figures.model.figure import (
    Box,
    DrawnPath,
    FigureGroup,
    Point,
    bounding_box,
    path_corners,
    rounded,
)

_MOST: Final = 6  # columns
_MOST_LINES: Final = 6  # from one column to the next
_TRACK: Final = 9.0  # between two lines from one column to the next
_BESIDE: Final = 20.0  # between a column and the first line beside it
_END: Final = 6.0  # between a column and the first line below or above it
_ROOM: Final = 2.0  # between a cut and what is above and below it
_LINE_COST: Final = 40.0  # points that a cut may move to cut one line fewer
_FEWER: Final = 0.9  # one more column multiplies the scale by this when folds are compared


def fold_columns(placed: PlacedFigure, room: tuple[float, float]) -> PlacedFigure:
    """Break a figure into as many columns as make it largest in a room of some width and height."""
    best, value = placed, _scale(placed, room)
    if value >= 1.0 or placed.figure.levels:
        return placed
    for count in range(2, _MOST + 1):
        folded = _in_columns(placed, count)
        if folded is None:
            continue
        scale = _scale(folded, room) * _FEWER ** (count - 1)
        if scale > value:
            best, value = folded, scale
    return best


def _scale(placed: PlacedFigure, room: tuple[float, float]) -> float:
    """Return how large a figure may be in a room."""
    around = bounding_box(list(_boxes(placed)))
    return min(1.0, room[0] / around.width, room[1] / around.height)


def _boxes(placed: PlacedFigure) -> Iterator[Box]:
    """Yield the box of everything that is drawn; a group's box includes its frame."""
    yield from _glyphs(placed)
    yield from (path.bounds() for path in placed.paths.values())
    for group in placed.figure.groups:
        yield _frame(placed, group)


def _frame(placed: PlacedFigure, group: FigureGroup) -> Box:
    box = bounding_box([placed.nodes[node] for node in group.nodes]).grown(style.GROUP_PADDING)
    return replace(box, top=box.top - style.GROUP_HEADING)


def _in_columns(placed: PlacedFigure, count: int) -> PlacedFigure | None:
    """Return a figure in columns, None if it cannot be cut."""
    cuts = _cuts(placed, count)
    return _BrokenFigure(placed, cuts, _columns(placed, cuts)).figure() if cuts else None


def _cuts(placed: PlacedFigure, count: int) -> list[float]:
    """Return where a figure is cut: near to equal parts, where few lines pass."""
    whole = bounding_box(list(_boxes(placed)))
    part = whole.height / count
    solid = sorted(_solid(placed), key=lambda box: box.top)
    places: list[float] = []
    low = whole.top
    for box in solid:
        if box.top > low:
            places.append((low + box.top) / 2)
        low = max(low, box.bottom)
    cuts: list[float] = []
    for number in range(1, count):
        aim = whole.top + number * part
        near = [place for place in places if abs(place - aim) < part / 2]
        costs = {place: _cost(placed, place, aim) for place in near}
        costs = {place: cost for place, cost in costs.items() if cost is not None}
        if not costs:
            return []
        cuts.append(min(costs, key=lambda place: costs[place] or 0.0))
    return cuts if all(a < b for a, b in pairwise(cuts)) else []


def _cost(placed: PlacedFigure, place: float, aim: float) -> float | None:
    """Return how bad it is to cut at a place; None if too many lines pass it."""
    lines = len(_passing(placed, place))
    return abs(place - aim) + _LINE_COST * lines if lines <= _MOST_LINES else None


def _solid(placed: PlacedFigure) -> Iterator[Box]:
    """Yield what no cut may go through: nodes, labels, level lines with their corners."""
    for box in _glyphs(placed):
        yield box.grown(_ROOM)
    for path in placed.paths.values():
        for (x, y), (u, v) in pairwise(path_corners(path)):
            if abs(y - v) < 1.0:
                yield Box(min(x, u), y, max(x, u), y).grown(style.CORNER)


def _glyphs(placed: PlacedFigure) -> list[Box]:
    """Return the boxes of nodes and of all labels."""
    beside_lanes = label_lanes(placed).labels
    return [*placed.nodes.values(), *placed.labels.values(), *beside_lanes.values()]


def _passing(placed: PlacedFigure, place: float) -> list[float]:
    """Return where lines pass a place, from left to right; arrows of one value share a line."""
    return sorted(
        {
            round(x, 2)
            for path in placed.paths.values()
            for (x, y), (_, v) in pairwise(path_corners(path))
            if min(y, v) < place < max(y, v)
        }
    )


@dataclass(frozen=True, slots=True)
class _Column:
    """A part of a figure: how it is moved, and the lines that pass its lower end.

    After the move, `foot` is its lower end, and `right` is where the gap beside it begins. `head`
    is the highest line above the next column.
    """

    shift: Point
    lines: Sequence[float]
    foot: float
    right: float
    head: float


def _columns(placed: PlacedFigure, cuts: Sequence[float]) -> list[_Column]:
    """Put the parts side by side."""
    whole = bounding_box(list(_boxes(placed)))
    ends = [whole.top - 1.0, *cuts, whole.bottom + 1.0]
    columns: list[_Column] = []
    left, before = whole.left, 0
    for top, bottom in pairwise(ends):
        box = _part(placed, top, bottom)
        lines = _passing(placed, bottom)
        height = whole.top + (_END + before * _TRACK if before else 0.0)
        shift = left - box.left, height - (top if columns else whole.top)
        right = left + box.width
        columns.append(_Column(shift, lines, bottom + shift[1], right, whole.top))
        left = right + 2 * _BESIDE + max(len(lines) - 1, 0) * _TRACK
        before = len(lines)
    return columns


def _part(placed: PlacedFigure, top: float, bottom: float) -> Box:
    """Return the box of everything between two cuts."""
    boxes = [box for box in _glyphs(placed) if top < box.center[1] < bottom]
    for path in placed.paths.values():
        for (x, y), (u, v) in pairwise(path_corners(path)):
            if min(y, v) < bottom and max(y, v) > top:
                boxes.append(Box(min(x, u), max(min(y, v), top), max(x, u), min(max(y, v), bottom)))
    for group in placed.figure.groups:
        inside = [one for one in group.nodes if top < placed.nodes[one].center[1] < bottom]
        if inside:
            boxes.append(_frame(placed, replace(group, nodes=tuple(inside))))
    return bounding_box(boxes)


@dataclass(frozen=True, slots=True)
class _BrokenFigure:
    """Hold a figure, where it is cut, and its parts."""

    placed: PlacedFigure
    cuts: Sequence[float]
    columns: Sequence[_Column]

    def figure(self) -> PlacedFigure:
        """Return the figure with all that is drawn in its column."""
        groups = tuple(one for group in self.placed.figure.groups for one in self._split(group))
        return replace(
            self.placed,
            figure=replace(self.placed.figure, groups=groups),
            nodes={name: self._moved(box) for name, box in self.placed.nodes.items()},
            labels={name: self._moved(box) for name, box in self.placed.labels.items()},
            paths={number: self._path(path) for number, path in self.placed.paths.items()},
        )

    def _number(self, y: float) -> int:
        return bisect_right(self.cuts, y)

    def _moved(self, box: Box) -> Box:
        return box.moved(*self.columns[self._number(box.center[1])].shift)

    def _split(self, group: FigureGroup) -> Iterator[FigureGroup]:
        """Yield the parts of a group, the first with its heading."""
        parts: dict[int, list[str]] = {}
        for node in group.nodes:
            parts.setdefault(self._number(self.placed.nodes[node].center[1]), []).append(node)
        for place, (_, nodes) in enumerate(sorted(parts.items())):
            name, label = (f"{group.id} …{place}", ()) if place else (group.id, group.label)
            yield replace(group, id=name, label=label, nodes=tuple(nodes))

    def _path(self, path: DrawnPath) -> DrawnPath:
        """Return a line; one that passes a cut continues at the top of the next column."""
        corners = path_corners(path)
        points: list[Point] = []
        for start, end in pairwise(corners):
            points.append(self._point(start))
            step = 1 if end[1] > start[1] else -1
            low, high = sorted((start[1], end[1]))
            passed = [number for number, cut in enumerate(self.cuts) if low < cut < high]
            for number in passed[::step]:
                points += self._link(number, start[0])[::step]
        points.append(self._point(corners[-1]))
        if len(points) == len(corners):
            dx, dy = self.columns[self._number(corners[0][1])].shift
            return path.mapped(lambda point: (point[0] + dx, point[1] + dy))
        return rounded(points, style.CORNER, (style.ARROW_LENGTH, style.ARROW_LENGTH))

    def _point(self, point: Point) -> Point:
        dx, dy = self.columns[self._number(point[1])].shift
        return point[0] + dx, point[1] + dy

    def _link(self, number: int, x: float) -> list[Point]:
        """Return the corners of a line from the bottom of a column to the top of the next."""
        column, after = self.columns[number], self.columns[number + 1]
        place = min(range(len(column.lines)), key=lambda one: abs(column.lines[one] - x))
        inner = len(column.lines) - 1 - place  # the rightmost is the innermost
        foot = column.foot + _END + inner * _TRACK
        beside = column.right + _BESIDE + inner * _TRACK
        head = column.head + inner * _TRACK
        left, right = x + column.shift[0], x + after.shift[0]
        return [(left, foot), (beside, foot), (beside, head), (right, head)]
