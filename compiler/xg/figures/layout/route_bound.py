"""A lower bound: what a way costs at least from each place of a row on, down to the ends.

It is found from below, once for all ways of an edge. A search leaves the ways that cannot become
cheaper than one that is known, and so makes few steps where an edge has many ports.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from xg.figures.layout.field import FAR, Range
from xg.figures.layout.line_field import GapLines, LineField, Way
from xg.figures.layout.route_costs import CORNER, CROSSING, LENGTH

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
        """Return the least that is left from ranges in the row above all those of the bound."""
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
            cost += CROSSING * _least_crossed(lines, max(a, low), min(b, high))
        least = min(least, cost)
    return least


def _to_ranges(
    ways: Sequence[Way], below: Sequence[tuple[float, float, float]], lines: GapLines
) -> list[float]:
    """Return the same for the ranges of a row, from those of the row below, left to right."""
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
                crossed = _least_crossed(lines, max(a, low), min(b, high))
                least = min(least, rest + CROSSING * crossed)
        rests.append(least)
    return rests


def _least_crossed(lines: GapLines, a: float, b: float) -> int:
    """Return how many level parts a line between two places crosses at least."""
    if not lines.starts:
        return 0
    inside = (x for xs in (lines.starts, lines.ends) for x in xs if a < x < b)
    return min(map(lines.crossed_level, (a, b, *inside)))
