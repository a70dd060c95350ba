"""The field that edges are routed on: rows of boxes, gaps between them, and the lines so far.

The layout engine places everything in rows. An edge runs down through rows, upright, and sideways
only in the gaps between them: so a way is always there, and a gap can be made as high as it needs.
Gap 3 is below row 3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.ports import RimPort
from xg.figures.model.geometry import Box

APART: Final = 6.0  # between two lines
CLEAR: Final = 5.0  # between a line and a box
HEAD: Final = 11.0  # of a level line beside a node: an arrowhead and some line
FAR: Final = 1e5

Key = tuple[str, ...]  # lines of one key are one line that branches
Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class LineRun:
    """An upright part of a route, from within one gap to within another."""

    x: float
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Route:
    """How an edge runs: out of a port of its upper node, down runs, into a port of the lower.

    `half` is how far two lines, an arrow and its way back, are from the middle between them; `room`
    is kept free at its left, for a label.
    """

    number: int
    key: Key
    start: RimPort
    end: RimPort
    runs: tuple[LineRun, ...]
    half: float = 0.0
    room: float = 0.0

    def turns(self) -> Iterator[tuple[int, float, float]]:
        """Yield the level parts between runs: the gap, where it comes from and where it goes."""
        for one, other in zip(self.runs, self.runs[1:], strict=False):
            yield one.last, one.x, other.x

    def rows(self) -> Iterator[tuple[int, float]]:
        """Yield the rows that the runs cross, with where they do."""
        for run in self.runs:
            yield from ((row, run.x) for row in range(run.first + 1, run.last + 1))
        if self.start.side.is_level:
            yield self.start.row, self.runs[0].x
        if self.end.side.is_level:
            yield self.end.row, self.runs[-1].x

    def gaps(self) -> Iterator[tuple[int, float]]:
        """Yield the gaps that the runs pass from top to bottom, with where they do."""
        end = len(self.runs) - 1
        for place, run in enumerate(self.runs):
            first, last = run.first + (place > 0), run.last - (place < end)
            yield from ((gap, run.x) for gap in range(first, last + 1))

    def flat(self) -> Iterator[tuple[int, float, float, RimPort]]:
        """Yield the level parts within rows: beside the nodes at the ends."""
        for port, run in ((self.start, self.runs[0]), (self.end, self.runs[-1])):
            if port.side.is_level:
                yield port.row, min(port.x, run.x), max(port.x, run.x), port


_Turn = tuple[float, float, float]  # from, to, half of the distance between two lines
_ON_EACH_OTHER: Final = 50  # crossings that a line avoids rather than lie on another


def _crossed_below(above: _Turn, below: _Turn) -> int:
    """Count the crossings of two level parts, the first of which runs above the second."""
    (a, b, half), (c, d, its) = above, below
    count = (min(c, d) < b < max(c, d)) + (min(a, b) < c < max(a, b))
    return count + _ON_EACH_OTHER * (abs(b - c) < APART - 0.5 + half + its)


@dataclass(slots=True)
class FieldRow:
    """A band of boxes: its height on the page, and what of its width they take."""

    top: float
    bottom: float
    taken: list[Range] = field(default_factory=list[Range])

    def block(self, left: float, right: float) -> None:
        """Let no line through."""
        self.taken.append((left, right))


@dataclass(slots=True)
class RoutingField:
    """Rows of boxes, and what runs through them and between them, by row or gap."""

    rows: list[FieldRow]
    upright: dict[int, dict[int, list[tuple[float, Key, float, float]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # row -> edge -> where it runs through
    flat: dict[int, dict[int, list[tuple[float, float, RimPort, Key]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    through: dict[int, dict[int, list[tuple[float, Key, float]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # gap -> edge
    level: dict[int, dict[int, list[tuple[float, float, Key, float]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    @classmethod
    def of(cls, boxes: Iterable[Box]) -> RoutingField:
        """Sort boxes into rows."""
        rows: list[FieldRow] = []
        for box in sorted(boxes, key=lambda one: (one.top, one.left)):
            if rows and box.top < rows[-1].bottom - 0.5:
                rows[-1].bottom = max(rows[-1].bottom, box.bottom)
            else:
                rows.append(FieldRow(box.top, box.bottom))
        return cls(rows)

    def row(self, box: Box) -> int:
        """Return the row that a box is in."""
        return bisect_right(self.rows, box.center[1], key=lambda row: row.top) - 1

    def add(self, route: Route) -> None:
        """Put up a route."""
        number, key, half = route.number, route.key, route.half
        for row, x in route.rows():
            self.upright[row].setdefault(number, []).append((x, key, half, route.room))
        for row, left, right, port in route.flat():
            self.flat[row].setdefault(number, []).append((left, right, port, key))
        for gap, x in route.gaps():
            self.through[gap].setdefault(number, []).append((x, key, half))
        for gap, a, b in route.turns():
            self.level[gap].setdefault(number, []).append((a, b, key, half))

    def remove(self, route: Route) -> None:
        """Take a route away."""
        for by_row in (self.upright, self.flat, self.through, self.level):
            for lines in by_row.values():
                lines.pop(route.number, None)

    def free(self, row: int, key: Key, half: float, room: float) -> list[Range]:
        """Return what of a row a line of that key may run through, from left to right.

        Lines of one key may share their way.
        """
        lines = (one for some in self.upright[row].values() for one in some)
        reach, clear = APART + half, CLEAR + half
        taken = [
            (x - reach - its - before, x + reach + its + room)
            for x, other, its, before in lines
            if other != key
        ]
        taken += [(left - clear, right + clear + room) for left, right in self.rows[row].taken]
        heads = (one for some in self.flat[row].values() for one in some)
        for _, _, port, other in heads:
            if other != key:
                ends = port.x, port.x + port.side.sign * HEAD
                taken.append((min(ends) - half, max(ends) + half + room))
        taken.sort()
        ranges: list[Range] = []
        start = -FAR
        for left, right in taken:
            if left >= start:
                ranges.append((start, left))
            start = max(start, right)
        ranges.append((start, FAR))
        return ranges

    def crossed_level(self, gap: int, x: float, key: Key) -> int:
        """Count the level parts in a gap that an upright line there crosses."""
        count = 0
        for some in self.level[gap].values():
            for a, b, other, half in some:
                if min(a, b) < x < max(a, b) and other != key:
                    count += 2 if half else 1
        return count

    def crossed_turn(self, gap: int, a: float, b: float, key: Key, half: float) -> int:
        """Count the crossings with other level parts in a gap, at the better of two orders.

        One that would lie on another in both orders counts as many.
        """
        one = (a, b, half)
        count = 0
        for some in self.level[gap].values():
            for c, d, other, its in some:
                if other != key and max(min(a, b), min(c, d)) < min(max(a, b), max(c, d)) + APART:
                    two = (c, d, its)
                    count += min(_crossed_below(one, two), _crossed_below(two, one))
        return count

    def crossed_upright(self, gap: int, a: float, b: float, key: Key) -> int:
        """Count the upright lines that a level part in a gap crosses."""
        low, high = min(a, b), max(a, b)
        count = 0
        for some in self.through[gap].values():
            for x, other, half in some:
                if low < x < high and other != key:
                    count += 2 if half else 1
        return count
