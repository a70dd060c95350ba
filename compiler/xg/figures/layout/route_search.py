"""Search: the way with the fewest corners and crossings down from one gap to another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Final, TypeAlias

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.field import FAR, LineRun, Range
from xg.figures.layout.line_field import LineField, Way
from xg.figures.layout.route_bound import ROUNDING, RouteBound, targets
from xg.figures.layout.route_costs import CORNER, CROSSING, HOPELESS, LENGTH

_LEAST_STEP: Final = 9.0  # to the side, at a turn
_INWARD: Final = 4.0  # how far off the end of a range a line keeps, if it can

# The runs before the one that a way is on: the last of them, its gap, and those before it.
_Before: TypeAlias = "tuple[Range, int, _Before] | None"
# A way so far: its cost, where the run that it is on may be, and the runs before.
_State: TypeAlias = tuple[float, float, float, _Before]
_COST: Final = itemgetter(0)


@dataclass()
class Search:
    """The ways from places in one gap down to another; `via` is a row and the place there.

    The steps on the way down are made once, for every end. A way that costs `most` is of no use.
    """

    field: LineField
    starts: Sequence[Range]
    first: int
    last: int
    via: tuple[int, float] | None
    near: float  # where a line runs that may run anywhere
    most: float
    bound: RouteBound | None

    def __post_init__(self) -> None:
        offs = [abs(_clamp(self.near, one) - self.near) * LENGTH for one in self.starts]
        self._states: list[_State] = [
            (off, *one, None) for off, one in zip(offs, self.starts, strict=True)
        ]
        # A beginning far off only decides between ways: they need not cost so much.
        self._off = max((off for off in offs if off <= self.most), default=0.0)
        self._gap = self.first
        self._keep_hopeful()

    def _keep_hopeful(self) -> None:
        """Order the ways by their cost, without those that cost too much in the end.

        They cost more than is of use, or far more than the best does so far.
        """
        states = self._states
        lowest = min(states, key=_COST)[0] if states else FAR * FAR
        if self.bound is not None and self._gap > self.first:
            most = self.most + self._off + ROUNDING
            states = [one for one, rest in zip(states, self.bound.rests[self._gap], strict=True)
                      if one[0] + rest <= most]  # fmt: skip
        most = min(lowest + HOPELESS, self.most)
        self._states = sorted((one for one in states if one[0] <= most), key=_COST)
        self._lowest = lowest if self._states else FAR * FAR

    def to(self, ends: Sequence[Range], limit: float) -> tuple[LineRun, ...] | None:
        """Return the runs of the best way to one of the ends, None where it costs too much."""
        while self._gap < self.last and self._lowest < limit:
            self._states = self._continued(targets(self.field, self._gap + 1, self.via))
            self._gap += 1
            self._keep_hopeful()
        if self._lowest >= limit:
            return None
        last = [(low, high, 0) for low, high in ends]
        found = self._continued(last) if self.first <= self.last else self._states
        _, low, high, before = min(found, key=_COST)
        ranges, gaps = [(low, high)], [self.last]
        while before is not None:
            one, gap, before = before
            ranges.insert(0, one)
            gaps.insert(0, gap)
        xs = _settled(ranges, self.near)
        gaps.insert(0, self.first)
        return tuple(LineRun(x, a, b) for x, a, b in zip(xs, gaps, gaps[1:], strict=False))

    def _continued(self, targets: Sequence[Way]) -> list[_State]:
        """Return the best continuation in each range: straight on, or by a turn in the gap."""
        gap, near, states = self._gap, self.near, self._states
        lines = self.field.gap(gap)
        has_level, has_turns = bool(lines.starts), bool(lines.turns)
        ways = [(*one, lines.until(one[1]), lines.through_to(one[2])) for one in states]
        found: list[_State] = []
        for low, high, levels in targets:
            best: _State | None = None
            lowest = FAR * FAR
            until_low, to_high = lines.until(low), lines.through_to(high)
            for so_far, left, right, before, until_left, to_right in ways:
                if so_far >= lowest:
                    break
                a, b = left if left > low else low, right if right < high else high
                if a <= b:
                    cost = so_far
                    if has_level:
                        x = a if near < a else b if near > b else near
                        cost += CROSSING * lines.crossed_level(x)
                    if cost < lowest:
                        lowest, best = cost, (cost, a, b, before)
                    continue
                # Outside of the range: to its nearer end, from the nearer end of this one.
                if right < low:
                    cost = so_far + 2 * CORNER + LENGTH * (low - right)
                    crossed = until_low - to_right
                else:
                    cost = so_far + 2 * CORNER + LENGTH * (left - high)
                    crossed = until_left - to_high
                if cost + CROSSING * crossed < lowest:
                    if has_turns:
                        ends = (right, low) if right < low else (left, high)
                        crossed += lines.crossed_turns(*ends)
                    cost += CROSSING * crossed
                    if cost < lowest:
                        lowest, best = cost, (cost, low, high, ((left, right), gap, before))
            assert best is not None
            found.append((best[0] + CROSSING * levels, best[1], best[2], best[3]))
        return found


def _settled(ranges: Sequence[Range], near: float) -> list[float]:
    """Choose a place in every range: as near to the one before as can be."""
    xs: list[float] = []
    for place, (low, high) in enumerate(ranges):
        first = _clamp(near, ranges[1]) if len(ranges) > 1 else near
        aim = xs[-1] if place > 0 else first
        inward = min(_INWARD, (high - low) / 2)
        xs.append(_clamp(aim, (low + inward, high - inward)))
    for place, (one, other) in enumerate(pairwise(list(xs))):
        short = _LEAST_STEP - abs(other - one)
        if short > 0:  # two round corners need room between them
            sign = 1 if other > one else -1
            xs[place] = _clamp(xs[place] - sign * short, ranges[place])
            short = _LEAST_STEP - abs(xs[place + 1] - xs[place])
            xs[place + 1] = _clamp(xs[place + 1] + sign * max(short, 0.0), ranges[place + 1])
    return xs


def _clamp(x: float, within: Range) -> float:
    return min(max(x, within[0]), within[1])
