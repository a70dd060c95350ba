"""The field that edges are routed on: rows of boxes, gaps between them, and the lines so far.

The layout engine places everything in rows. An edge runs down through rows, upright, and sideways
only in the gaps between them: so a way is always there, and a gap can be made as high as it needs.
Gap 3 is below row 3.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
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

    def at_bars(self) -> Iterator[tuple[int, float]]:
        """Yield the rows of bars that it begins or ends at, with where it meets them."""
        for port, run in ((self.start, self.runs[0]), (self.end, self.runs[-1])):
            if port.at_bar:
                yield port.row, run.x

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


@dataclass(slots=True)
class FieldRow:
    """A band of boxes: its height on the page, and what of its width they take.

    `labelled` are the places at labels, by the key of the lines that may run through there. A
    lane's part is `framed`, by its number: only upright lines of that lane run there.
    """

    top: float
    bottom: float
    taken: list[Range] = field(default_factory=list[Range])
    labelled: dict[Key, list[float]] = field(default_factory=dict[Key, list[float]])
    framed: dict[int, Range] = field(default_factory=dict[int, Range])

    def block(self, left: float, right: float) -> None:
        """Let no line through."""
        self.taken.append((left, right))


@dataclass(slots=True)
class OrderedPlaces:
    """Places across a gap, from left to right; one of two lines is in them twice."""

    all: list[float] = field(default_factory=list[float])
    by_key: dict[Key, list[float]] = field(default_factory=lambda: defaultdict(list))

    def own(self, key: Key) -> Sequence[float]:
        """Return the places of the lines of a key."""
        return self.by_key.get(key, ())

    def add(self, x: float, key: Key, half: float) -> None:
        """Put a place in."""
        for places in (self.all, self.by_key[key]):
            for _ in range(2 if half else 1):
                insort(places, x)

    def remove(self, x: float, key: Key, half: float) -> None:
        """Take a place out."""
        for places in (self.all, self.by_key[key]):
            at = bisect_left(places, x)
            del places[at : at + (2 if half else 1)]


@dataclass(slots=True)
class FieldGap:
    """The lines in a gap: where upright ones run, where level ones begin and end, and the level."""

    through: OrderedPlaces = field(default_factory=OrderedPlaces)
    starts: OrderedPlaces = field(default_factory=OrderedPlaces)
    ends: OrderedPlaces = field(default_factory=OrderedPlaces)
    level: dict[int, list[tuple[float, float, Key, float]]] = field(
        default_factory=dict[int, list[tuple[float, float, Key, float]]]
    )  # edge -> where it comes from and where it goes


@dataclass(slots=True)
class RoutingField:
    """Rows of boxes, and what runs through them and between them, by row or gap."""

    rows: list[FieldRow]
    upright: dict[int, dict[int, list[tuple[float, Key, float, float]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # row -> edge -> where it runs through
    ended: dict[int, dict[int, list[tuple[float, Key, float]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )  # row of a bar -> edge -> where it meets that
    flat: dict[int, dict[int, list[tuple[float, float, RimPort, Key]]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    gaps: dict[int, FieldGap] = field(default_factory=lambda: defaultdict(FieldGap))

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
        for row, x in route.at_bars():
            self.ended[row].setdefault(number, []).append((x, key, half))
        for row, left, right, port in route.flat():
            self.flat[row].setdefault(number, []).append((left, right, port, key))
        for gap, x in route.gaps():
            self.gaps[gap].through.add(x, key, half)
        for gap, a, b in route.turns():
            here = self.gaps[gap]
            here.level.setdefault(number, []).append((a, b, key, half))
            if a != b:
                here.starts.add(min(a, b), key, half)
                here.ends.add(max(a, b), key, half)

    def remove(self, route: Route) -> None:
        """Take a route away."""
        number, key, half = route.number, route.key, route.half
        for by_row, places in (
            (self.upright, route.rows()),
            (self.ended, route.at_bars()),
            (self.flat, route.flat()),
        ):
            for row, *_ in places:
                by_row[row].pop(number, None)
        for gap, x in route.gaps():
            self.gaps[gap].through.remove(x, key, half)
        for gap, a, b in route.turns():
            here = self.gaps[gap]
            here.level.pop(number, None)
            if a != b:
                here.starts.remove(min(a, b), key, half)
                here.ends.remove(max(a, b), key, half)
