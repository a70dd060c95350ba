"""The field as one line sees it: where it may run, and how often it would cross other lines.

It holds what is asked for, gap by gap and row by row, as long as the field does not change: the
search for an edge's route asks many times for the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.field import APART, CLEAR, FAR, HEAD, Key, Range, RoutingField

_ON_EACH_OTHER: Final = 50  # crossings that a line avoids rather than lie on another


Way: TypeAlias = tuple[float, float, int]  # a range, and how many level lines are crossed there


@dataclass(slots=True)
class GapLines:
    """The lines of others in a gap: all that are there, without those of the line's own key."""

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
        """Return the lines of others in a gap."""
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
    field: RoutingField,
    row: int,
    key: Key,
    half: float,
    room: float,
    lanes: Collection[int] = (),
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
    own = field.rows[row].labelled.get(key, ())
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
