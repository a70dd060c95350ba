"""The field as one line sees it: where it may run, and how often it would cross other lines.

It holds what is asked for, gap by gap and row by row, as long as the field does not change: the
search for an edge's route asks many times for the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.field import APART, CLEAR, FAR, HEAD, Key, Range, RoutingField

_ON_EACH_OTHER: Final = 50  # crossings that a line avoids rather than lie on another


@dataclass(frozen=True, slots=True)
class _Counts:
    """Places on a line with their weights, in their order; `sums` counts those before each."""

    places: list[float]
    sums: list[int]

    @classmethod
    def of(cls, weighed: list[tuple[float, int]]) -> _Counts:
        weighed.sort()
        return cls([x for x, _ in weighed], [0, *accumulate(weight for _, weight in weighed)])

    def below(self, x: float) -> int:
        """Count what is at less than `x`."""
        return self.sums[bisect_left(self.places, x)]

    def up_to(self, x: float) -> int:
        """Count what is at `x` or less."""
        return self.sums[bisect_right(self.places, x)]


class LineField:
    """The field for lines of one key, `half` as wide; lines of one key may share their way.

    So much `room` is kept free at the left.
    """

    def __init__(self, field: RoutingField, key: Key, half: float, room: float = 0.0) -> None:
        self._field = field
        self._line = key, half, room
        self._half = half
        self._key = key
        self._free: dict[int, list[Range]] = {}
        self._upright: dict[int, _Counts] = {}
        self._level: dict[int, tuple[_Counts, _Counts]] = {}
        self._turns: dict[int, list[tuple[float, float, float, float, float]]] = {}

    def free(self, row: int) -> list[Range]:
        """Return what of a row the line may run through, from left to right."""
        if row not in self._free:
            self._free[row] = free(self._field, row, *self._line)
        return self._free[row]

    def crossed_level(self, gap: int, x: float) -> int:
        """Count the level parts in a gap that an upright line there crosses."""
        if gap not in self._level:
            turns = [(low, high, 2 if half else 1) for low, high, _, _, half in self._others(gap)]
            turns = [turn for turn in turns if turn[0] < turn[1]]
            self._level[gap] = (
                _Counts.of([(low, weight) for low, _, weight in turns]),
                _Counts.of([(high, weight) for _, high, weight in turns]),
            )
        starts, ends = self._level[gap]
        return starts.below(x) - ends.up_to(x)

    def crossed_upright(self, gap: int, a: float, b: float) -> int:
        """Count the upright lines that a level part in a gap crosses."""
        if gap not in self._upright:
            lines = (one for some in self._field.through[gap].values() for one in some)
            self._upright[gap] = _Counts.of(
                [(x, 2 if half else 1) for x, key, half in lines if key != self._key]
            )
        lines = self._upright[gap]
        low, high = (a, b) if a < b else (b, a)
        return max(lines.below(high) - lines.up_to(low), 0)

    def crossed_turn(self, gap: int, a: float, b: float) -> int:
        """Count the crossings with other level parts in a gap, at the better of two orders.

        One that would lie on another in both orders counts as many.
        """
        least, most = (a, b) if a < b else (b, a)
        half = self._half
        count = 0
        for low, high, c, d, its in self._others(gap):
            if least < high + APART and low < most + APART:
                clear = APART - 0.5 + half + its
                above = (low < b < high) + (least < c < most)
                above += _ON_EACH_OTHER if abs(b - c) < clear else 0
                below = (least < d < most) + (low < a < high)
                below += _ON_EACH_OTHER if abs(d - a) < clear else 0
                count += above if above < below else below
        return count

    def _others(self, gap: int) -> list[tuple[float, float, float, float, float]]:
        """Return the level parts of other lines: their ends in order, then as they lead."""
        if gap not in self._turns:
            self._turns[gap] = [
                (a, b, a, b, half) if a < b else (b, a, a, b, half)
                for some in self._field.level[gap].values()
                for a, b, key, half in some
                if key != self._key
            ]
        return self._turns[gap]


def free(field: RoutingField, row: int, key: Key, half: float, room: float) -> list[Range]:
    """Return what of a row a line of that key may run through, from left to right."""
    reach, clear = APART + half, CLEAR + half
    taken = [
        (x - reach - its - before, x + reach + its + room)
        for some in field.upright[row].values()
        for x, other, its, before in some
        if other != key
    ]
    taken += [(left - clear, right + clear + room) for left, right in field.rows[row].taken]
    for some in field.flat[row].values():
        for _, _, port, other in some:
            if other != key:
                ends = port.x, port.x + port.side.sign * HEAD
                taken.append((min(ends) - half, max(ends) + half + room))
    taken.sort()
    ranges: list[Range] = []
    start = -FAR
    for left, right in taken:
        if left >= start:
            ranges.append((start, left))
        if right > start:
            start = right
    ranges.append((start, FAR))
    return ranges
