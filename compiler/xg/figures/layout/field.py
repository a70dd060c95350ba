"""Describe the field that edges are routed on, and what a way on it costs at least.

The layout engine places everything in rows. An edge runs down through rows, upright, and sideways
only in the gaps between them: so a way is always there, and a gap can be made as high as it needs.
Gap 3 is below row 3.

The least cost of a way is found once from below, so that a search can leave ways that cannot win.
It never overestimates, so no route changes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.figures.model.figure import Box

# Ports: where an edge may leave or enter a node.


class NodeSide(Enum):
    """A side of a node."""

    TOP = "top", 0
    BOTTOM = "bottom", 0
    LEFT = "left", -1
    RIGHT = "right", 1

    def __init__(self, _: str, sign: int) -> None:
        """Take the direction in x of a line that leaves it."""
        self.sign = sign
        self.is_level = sign != 0  # whether lines leave it sideways


@dataclass(frozen=True, slots=True)
class RimPort:
    """A place at a node's rim: `x` is where its line begins, `cost` how much it is shunned."""

    node: str
    row: int
    side: NodeSide
    x: float
    cost: float = 0.0
    at_bar: bool = False  # which others may pass
    wide: bool = False  # of a bar: any x will do
    head: bool = False  # an arrow enters there


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

    `labeled` are the places at labels, by the key of the lines that may run through there. A
    lane's part is `framed`, by its number: only upright lines of that lane run there.
    """

    top: float
    bottom: float
    taken: list[Range] = field(default_factory=list[Range])
    labeled: dict[Key, list[float]] = field(default_factory=dict[Key, list[float]])
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


# The field as one line sees it: where it may run, and how often it would cross other lines.
#
# It holds what is asked for, gap by gap and row by row, as long as the field does not change: the
# search for an edge's route asks many times for the same.


_ON_EACH_OTHER: Final = 50  # crossings that a line avoids rather than lie on another


Way: TypeAlias = tuple[float, float, int]  # a range, and how many level lines are crossed there


@dataclass(slots=True)
class GapLines:
    """The lines of other keys in a gap."""

    half: float  # of the line that may cross them
    through: Sequence[float]  # where upright ones run
    own_through: Sequence[float]
    starts: Sequence[float]  # where level ones begin
    own_starts: Sequence[float]
    ends: Sequence[float]
    own_ends: Sequence[float]
    turns: Sequence[tuple[float, float, float, float, float]]  # ends in order, as they lead; half

    def until(self, x: float) -> int:
        """Count the upright lines at the left of a place."""
        count = bisect_left(self.through, x)
        return count - bisect_left(self.own_through, x) if self.own_through else count

    def through_to(self, x: float) -> int:
        """Count the upright lines at the left of a place and there."""
        count = bisect_right(self.through, x)
        return count - bisect_right(self.own_through, x) if self.own_through else count

    def crossed_level(self, x: float) -> int:
        """Count the level parts that an upright line there crosses."""
        if not self.starts:
            return 0
        count = bisect_left(self.starts, x) - bisect_right(self.ends, x)
        if self.own_starts:
            count -= bisect_left(self.own_starts, x) - bisect_right(self.own_ends, x)
        return count

    def crossed_by_turn(self, a: float, b: float) -> int:
        """Count what a level part crosses: upright lines, and other level parts."""
        least, most = (a, b) if a < b else (b, a)
        upright = self.until(most) - self.through_to(least) if least < most else 0
        return upright + self.crossed_turns(a, b)

    def crossed_turns(self, a: float, b: float) -> int:
        """Count the crossings of a level part with others, at the better of two orders.

        One that would lie on another in both counts as many.
        """
        least, most = (a, b) if a < b else (b, a)
        count = 0
        for low, high, c, d, its in self.turns:
            if least < high + APART and low < most + APART:
                clear = APART - 0.5 + self.half + its
                above = (low < b < high) + (least < c < most)
                above += _ON_EACH_OTHER if abs(b - c) < clear else 0
                below = (least < d < most) + (low < a < high)
                below += _ON_EACH_OTHER if abs(d - a) < clear else 0
                count += above if above < below else below
        return count


class LineField:
    """The field for lines of one key, `half` as wide; lines of one key may share their way.

    So much `room` is kept free at the left. They begin or end in some `lanes`. If their `ends` are
    given, they shun lines into the sides of other nodes.
    """

    def __init__(
        self,
        field: RoutingField,
        key: Key,
        half: float,
        room: float = 0.0,
        lanes: Collection[int] = (),
        ends: Collection[str] | None = None,
    ) -> None:
        self._field = field
        self._line = key, half, room, lanes
        self._ends = ends
        self._free: dict[int, list[Way]] = {}
        self._gaps: dict[int, GapLines] = {}

    def free(self, row: int) -> list[Way]:
        """Return what of a row the line may run through, from left to right.

        Lines at its own nodes get heights at which it crosses none of them.
        """
        if row not in self._free:
            here = free(self._field, row, *self._line)
            self._free[row] = list(_crossing(here, list(self._levels(row))))
        return self._free[row]

    def _levels(self, row: int) -> Iterator[Range]:
        """Yield where others' level lines run in a row."""
        if self._ends is not None:
            for some in self._field.flat.get(row, {}).values():
                for left, right, port, key in some:
                    if key != self._line[0] and port.node not in self._ends:
                        yield left, right

    def gap(self, gap: int) -> GapLines:
        """Return the lines of other keys in a gap."""
        if gap not in self._gaps:
            key, half, *_ = self._line
            here = self._field.gaps[gap]
            turns = [
                (a, b, a, b, its) if a < b else (b, a, a, b, its)
                for some in here.level.values()
                for a, b, other, its in some
                if other != key
            ]
            through, starts, ends = here.through, here.starts, here.ends
            self._gaps[gap] = GapLines(
                half, through.all, through.own(key), starts.all, starts.own(key),
                ends.all, ends.own(key), turns,
            )  # fmt: skip
        return self._gaps[gap]


def free(
    field: RoutingField, row: int, key: Key, half: float, room: float, lanes: Collection[int] = ()
) -> list[Range]:
    """Return what of a row a line of that key and those lanes may run through, left to right."""
    reach, clear = APART + half, CLEAR + half
    taken = [
        (x - reach - its - before, x + reach + its + room)
        for some in field.upright[row].values()
        for x, other, its, before in some
        if other != key
    ]
    framed = (one for lane, one in field.rows[row].framed.items() if lane not in lanes)
    boxes = (*field.rows[row].taken, *framed)
    taken += [(left - clear, right + clear + room) for left, right in boxes]
    for some in field.flat[row].values():
        for _, _, port, other in some:
            if other != key or port.head:
                ends = port.x, port.x + port.side.sign * HEAD
                taken.append((min(ends) - half, max(ends) + half + room))
    for some in field.ended[row].values() if row in field.ended else ():
        taken += [(x - reach - its, x + reach + its + room) for x, other, its in some
                  if other != key]  # fmt: skip
    ranges = _between(taken)
    own = field.rows[row].labeled.get(key, ())
    shared = [(x, x) for x in own if not any(left <= x <= right for left, right in ranges)]
    return sorted([*ranges, *shared]) if shared else ranges


def free_at_bar(field: RoutingField, row: int, key: Key, half: float) -> list[Range]:
    """Return where a line may meet the bar of a row: off those that pass it."""
    reach = APART + half
    lines = (one for some in field.upright[row].values() for one in some)
    return _between([(x - reach - its - room, x + reach + its)
                     for x, other, its, room in lines if other != key])  # fmt: skip


def _crossing(ranges: Iterable[Range], levels: Sequence[Range]) -> Iterator[Way]:
    """Divide ranges where level lines begin and end, and count what each part crosses."""
    cuts = sorted({x for level in levels for x in level})
    for low, high in ranges:
        inside = [x for x in cuts if low < x < high]
        for a, b in pairwise((low, *inside, high)) if low < high else ((low, high),):
            middle = (a + b) / 2
            yield a, b, sum(left < middle < right for left, right in levels)


def _between(taken: list[Range]) -> list[Range]:
    """Return what is not taken, from left to right."""
    taken.sort()
    ranges: list[Range] = []
    start = -FAR
    for left, right in taken:
        if left >= start:
            ranges.append((start, left))
        if right > start:
            start = right
    return [*ranges, (start, FAR)]


# The cost of a route, of which every edge takes the cheapest that it finds.


CORNER: Final = 10.0
CROSSING: Final = 24.0  # with another edge
LENGTH: Final = 0.05  # of each point
CLASH: Final = 1000.0  # of lying on something
HOPELESS: Final = 90.0  # a route that costs so much more than another is given up


# A lower bound: what a way costs at least from each place of a row on, down to the ends.
#
# It is found from below, once for all ways of an edge. A search leaves the ways that cannot become
# cheaper than one that is known, and so makes few steps where an edge has many ports.


NEVER: Final = FAR * FAR
ROUNDING: Final = 1e-6


class RouteBound:
    """The least that is left of a way, from ranges of some rows down to ends with their costs.

    The gap below the last of the rows is that above the ends. Ways that cost more than a limit are
    of no use.
    """

    def __init__(
        self,
        field: LineField,
        ends: Sequence[tuple[Range, float]],
        rows: range,
        via: tuple[int, float] | None,
        limit: float,
    ) -> None:
        self._field = field
        self._ends = ends
        self._below: list[tuple[float, float, float]] | None = None  # that of ranges, if not ends
        self.rests: dict[int, list[float]] = {}
        for row in reversed(rows):
            ways = targets(field, row, via)
            rests = self.rests[row] = self._rests(row, ways)
            entered = [rest + CROSSING * crossed
                       for rest, (_, _, crossed) in zip(rests, ways, strict=True)]  # fmt: skip
            self._below = [(low, high, rest)
                           for rest, (low, high, _) in zip(entered, ways, strict=True)
                           if rest <= limit + ROUNDING]  # fmt: skip

    def left(self, row: int, ranges: Sequence[Range]) -> float:
        """Return the lowest remaining cost from these ranges in the row above the bound."""
        return min(self._rests(row, [(*one, 0) for one in ranges]), default=NEVER)

    def _rests(self, row: int, ways: Sequence[Way]) -> list[float]:
        lines = self._field.gap(row)
        if self._below is None:
            return [_to_ends(way, self._ends, lines) for way in ways]
        return _to_ranges(ways, self._below, lines)


def targets(field: LineField, row: int, via: tuple[int, float] | None) -> Sequence[Way]:
    """Return where in a row a way may run that passes `via`, a row and the place there."""
    if via is not None and via[0] == row:
        return [(via[1], via[1], 0)]
    return field.free(row)


def _to_ends(way: Way, ends: Sequence[tuple[Range, float]], lines: GapLines) -> float:
    a, b, _ = way
    least = NEVER
    for (low, high), cost in ends:
        if low > b:
            cost += 2 * CORNER + LENGTH * (low - b)
            cost += CROSSING * (lines.until(low) - lines.through_to(b))
        elif high < a:
            cost += 2 * CORNER + LENGTH * (a - high)
            cost += CROSSING * (lines.until(a) - lines.through_to(high))
        else:
            cost += CROSSING * _fewest_crossings(lines, max(a, low), min(b, high))
        least = min(least, cost)
    return least


def _to_ranges(
    ways: Sequence[Way], below: Sequence[tuple[float, float, float]], lines: GapLines
) -> list[float]:
    """Carry the bounds from the ranges of the row below to those of a row, left to right."""
    if not below:
        return [NEVER] * len(ways)
    lows, highs = [low for low, _, _ in below], [high for _, high, _ in below]
    # What a turn costs to the nearest end of each range, but for what its beginning takes off.
    rightward = [rest + LENGTH * low + CROSSING * lines.until(low) for low, _, rest in below]
    leftward = [rest - LENGTH * high - CROSSING * lines.through_to(high) for _, high, rest in below]
    to_right = [*accumulate(reversed(rightward), min)][::-1]  # that range, or one at its right
    to_left = [*accumulate(leftward, min)]
    rests: list[float] = []
    for a, b, _ in ways:
        first, beyond = bisect_left(highs, a), bisect_right(lows, b)
        least = NEVER
        if beyond < len(below):
            least = to_right[beyond] - LENGTH * b - CROSSING * lines.through_to(b) + 2 * CORNER
        if first > 0:
            turn = to_left[first - 1] + LENGTH * a + CROSSING * lines.until(a) + 2 * CORNER
            least = min(least, turn)
        for low, high, rest in below[first:beyond]:
            if rest < least:
                crossed = _fewest_crossings(lines, max(a, low), min(b, high))
                least = min(least, rest + CROSSING * crossed)
        rests.append(least)
    return rests


def _fewest_crossings(lines: GapLines, a: float, b: float) -> int:
    """Return how many level parts a line between two places crosses at least."""
    if not lines.starts:
        return 0
    inside = (x for xs in (lines.starts, lines.ends) for x in xs if a < x < b)
    return min(map(lines.crossed_level, (a, b, *inside)))
