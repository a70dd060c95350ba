"""Search: the way with the fewest corners and crossings down from one gap to another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.layout.field import Key, LineRun, Range, RoutingField
from xg.figures.layout.route_costs import CORNER, CROSSING, HOPELESS, LENGTH

_LEAST_STEP: Final = 9.0  # to the side, at a turn
_INWARD: Final = 4.0  # how far off the end of a range a line keeps, if it can


@dataclass(frozen=True, slots=True)
class Ask:
    """From which places in which gap to which places in which gap; `via` is a row and its x."""

    key: Key
    starts: Sequence[Range]
    first: int
    ends: Sequence[Range]
    last: int
    via: tuple[int, float] | None
    near: float  # where a line runs that may run anywhere
    half: float = 0.0
    room: float = 0.0


@dataclass(frozen=True, slots=True)
class _State:
    """A way so far: its cost, where the run that it is on may be, and the runs before."""

    cost: float
    low: float
    high: float
    before: tuple[tuple[Range, int], ...] = ()


def search(field: RoutingField, ask: Ask, limit: float) -> tuple[LineRun, ...] | None:
    """Return the runs of the best way, None where it costs more than the limit."""
    states = [_State(abs(_clamp(ask.near, one) - ask.near) * LENGTH, *one) for one in ask.starts]
    for gap in range(ask.first, ask.last + 1):
        lowest = min(state.cost for state in states)
        if lowest >= limit:
            return None
        near = [state for state in states if state.cost <= lowest + HOPELESS]
        near.sort(key=lambda state: state.cost)
        states = [_best(field, ask, near, gap, target) for target in _targets(field, ask, gap)]
    best = min(states, key=lambda state: state.cost)
    ranges = [one for one, _ in best.before] + [(best.low, best.high)]
    gaps = [ask.first, *(gap for _, gap in best.before), ask.last]
    xs = _settled(ranges, ask.near)
    return tuple(LineRun(x, a, b) for x, a, b in zip(xs, gaps, gaps[1:], strict=False))


def _targets(field: RoutingField, ask: Ask, gap: int) -> Sequence[Range]:
    """Return where a way may run below a gap."""
    if gap == ask.last:
        return ask.ends
    if ask.via is not None and ask.via[0] == gap + 1:
        return [(ask.via[1], ask.via[1])]
    return field.free(gap + 1, ask.key, ask.half, ask.room)


def _best(
    field: RoutingField, ask: Ask, states: Sequence[_State], gap: int, target: Range
) -> _State:
    """Return the best continuation in a range: straight on, or by a turn in the gap."""
    low, high = target
    best: _State | None = None
    for state in states:
        a, b = max(state.low, low), min(state.high, high)
        if best is not None and state.cost >= best.cost:
            break
        if a <= b:
            crossed = field.crossed_level(gap, _clamp(ask.near, (a, b)), ask.key)
            this = _State(state.cost + CROSSING * crossed, a, b, state.before)
        else:
            here = state.low, state.high
            x = _clamp(low if state.high < low else high, here)
            y = _clamp(x, target)
            cost = state.cost + 2 * CORNER + LENGTH * abs(x - y)
            if best is not None and cost >= best.cost:
                continue
            cost += CROSSING * (
                field.crossed_upright(gap, x, y, ask.key)
                + field.crossed_turn(gap, x, y, ask.key, ask.half)
            )
            this = _State(cost, low, high, (*state.before, (here, gap)))
        if best is None or this.cost < best.cost:
            best = this
    assert best is not None
    return best


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
