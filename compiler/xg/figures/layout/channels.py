"""Channels: at which height level parts run in a gap, so that none overlap and few cross.

A gap that is too low for its lines is made higher: everything below moves down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.figures.draw.arrow import head_width
from xg.figures.layout.field import APART, Key, Route, RoutingField
from xg.figures.layout.ports import NodeSide
from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle, Emphasis

_ABOVE: Final = 4.5  # between a row and the first line below it
_BEND: Final = 9.0  # where a line leaves the row downwards and bends: room for a round corner
_BELOW: Final = 5.0  # between the last line and the row below it
_HEAD: Final = style.ARROW_LENGTH + 6.0  # that much where arrows enter the row from above
_LOW: Final = 0.7  # of a circle's radius: how far below its middle a line leaves its side
_CLEAR: Final = 1.7  # between a head at a circle's side and the middle of the line below it
_MOST_OFF: Final = 1.5  # how far a head may be above the middle of a circle's side
_MOST_ROUNDS: Final = 4


@dataclass(slots=True)
class _Bar:
    """Level parts of one line that come from one place, or go to one, at one height."""

    key: Key
    low: float
    high: float
    tops: set[float] = field(default_factory=set[float])  # where it comes from above
    feet: set[float] = field(default_factory=set[float])  # where it goes down
    members: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    level: int = 0
    half: float = 0.0


@dataclass(frozen=True, slots=True)
class Channels:
    """The height of each level part, by edge and number of its turn, and how far rows move down."""

    heights: Mapping[tuple[int, int], float]
    shifts: Sequence[float]


def channels(
    field_: RoutingField, routes: Mapping[int, Route], levels: Collection[int] = ()
) -> Channels:
    """Give each level part a height; rows of `levels` hide what passes, but no bend."""
    bars = _bars(routes)
    heads = _heads(routes)
    left = {route.start.row for route in routes.values() if not route.start.side.is_level}
    bent = _bent(routes)
    backs = _backs(routes)
    heights: dict[tuple[int, int], float] = {}
    shifts: list[float] = []
    moved = 0.0
    for gap, row in enumerate(field_.rows):
        shifts.append(moved)
        here = bars.get(gap, [])
        if not here:
            continue
        count = _leveled(_ordered(here))
        half = max(bar.half for bar in here)
        apart = APART + 2 * half
        # Pairs have heads at both ends.
        has_heads = bool(half) and gap in left
        has_heads = has_heads or any(
            bar.low < x < bar.high for bar in here for x in backs.get(gap, ())
        )
        above = _HEAD if has_heads else _BEND if gap in bent or gap in levels else _ABOVE
        top = row.bottom + half + above
        room = half + (_HEAD if gap in heads else _BEND if gap + 1 in levels else _BELOW)
        bottom = field_.rows[gap + 1].top - room if gap + 1 < len(field_.rows) else top
        extra = max(0.0, (count - 1) * apart - (bottom - top))
        step = apart if count == 1 else min((bottom + extra - top) / (count - 1), 1.3 * apart)
        for bar in here:
            heights.update(dict.fromkeys(bar.members, moved + top + step * bar.level))
        moved += extra
    return Channels(heights, shifts)


def _bent(routes: Mapping[int, Route]) -> set[int]:
    """Find the gaps in which lines bend that left the row above from below."""
    down = (route for route in routes.values() if not route.start.side.is_level)
    return {gap for route in down for gap, _, _ in route.turns() if gap == route.start.row}


def _backs(routes: Mapping[int, Route]) -> Mapping[int, list[float]]:
    """Return where arrows back enter rows from below."""
    backs: dict[int, list[float]] = defaultdict(list)
    for route in routes.values():
        if route.half and not route.start.side.is_level:
            backs[route.start.row].append(route.runs[0].x + route.half)
    return backs


def _bars(routes: Mapping[int, Route]) -> dict[int, list[_Bar]]:
    """Join the level parts that are one line: what branches at one place."""
    by_gap: dict[int, dict[tuple[Key, float], _Bar]] = defaultdict(dict)
    for number, route in routes.items():
        for turn, (gap, a, b) in enumerate(route.turns()):
            bar = by_gap[gap].setdefault((route.key, a), _Bar(route.key, a, a, half=route.half))
            bar.low, bar.high = min(bar.low, a, b), max(bar.high, a, b)
            bar.tops.add(a)
            bar.feet.add(b)
            bar.members.append((number, turn))
    return {gap: list(some.values()) for gap, some in by_gap.items()}


def _heads(routes: Mapping[int, Route]) -> set[int]:
    """Find the gaps in which level parts run above arrows that enter a row."""
    entered = {(route.end.row - 1) for route in routes.values() if not route.end.side.is_level}
    turned = {gap for route in routes.values() for gap, _, _ in route.turns()}
    return entered & turned


def _ordered(bars: list[_Bar]) -> list[_Bar]:
    """Order the lines of a gap from top to bottom, for few crossings: insert each at its best."""
    order = sorted(bars, key=lambda bar: (bar.low + bar.high, bar.low))
    for _ in range(_MOST_ROUNDS if len(bars) > 1 else 0):
        before = list(order)
        for bar in before:
            order.remove(bar)
            costs = [_cost_at(order, bar, place) for place in range(len(order) + 1)]
            order.insert(costs.index(min(costs)), bar)
        if order == before:
            break
    for place, bar in enumerate(order):
        bar.level = place
    return order


def _cost_at(order: Sequence[_Bar], bar: _Bar, place: int) -> int:
    return sum(_cost(one, bar) for one in order[:place]) + sum(
        _cost(bar, one) for one in order[place:]
    )


def _cost(above: _Bar, below: _Bar) -> int:
    """Return the crossings where one line is above another; an overlap costs more."""
    if above.key == below.key:
        return 0
    crossed = sum(below.low < x < below.high for x in above.feet)
    crossed += sum(above.low < x < above.high for x in below.tops)
    least = APART - 0.5 + above.half + below.half
    touching = sum(abs(x - y) < least for x in above.feet for y in below.tops)
    return crossed + 50 * touching


def _leveled(order: Sequence[_Bar]) -> int:
    """Let lines that are not above each other share a height; return the number of heights."""
    for place, bar in enumerate(order):
        over = (
            one.level
            for one in order[:place]
            if one.low - APART - one.half - bar.half < bar.high
            and bar.low < one.high + APART + one.half + bar.half
        )
        bar.level = max(over, default=-1) + 1
    return max((bar.level for bar in order), default=-1) + 1


def stops(
    routes: Mapping[int, Route],
    rooms: Mapping[str, float],
    circles: Collection[str],
    styles: Mapping[int, EdgeStyle],
) -> dict[tuple[int, bool], float]:
    """Return how far below the middle of a node's side each line meets it, by edge and end.

    From top to bottom: what comes in from above, the nearer first; then what goes out and down,
    the farther first. Lines of one key that go out are one.
    """
    sides: dict[tuple[str, NodeSide], list[tuple[Route, bool]]] = defaultdict(list)
    for route in routes.values():
        if route.start.side.is_level:
            sides[route.start.node, route.start.side].append((route, True))
        if route.end.side.is_level:
            sides[route.end.node, route.end.side].append((route, False))
    offsets: dict[tuple[int, bool], float] = {}
    for (node, _), here in sides.items():
        levels = _levels(here)
        wide = 2 * max(route.half for route, _ in here)
        if node in circles and not wide and [is_out for ((_, is_out), *_) in levels] == [0, 1]:
            heights = _of_circle(rooms[node] / 2, *(styles[one[0].number] for one, *_ in levels))
        else:
            gap = min(style.RAIL_GAP + wide, (rooms[node] - 6.0 - wide) / max(len(levels) - 1, 1))
            first = -gap * (len(levels) - 1) / 2
            heights = [first + gap * level for level in range(len(levels))]
        for height, members in zip(heights, levels, strict=True):
            offsets.update(((route.number, is_out), height) for route, is_out in members)
    return offsets


def _of_circle(radius: float, entering: EdgeStyle, leaving: EdgeStyle) -> tuple[float, float]:
    """Return where the only arrow that enters a side of a circle and a line that leaves it are.

    The arrow aims at the middle, or almost; the line leaves below, where the rim still faces that
    side: of a double one both lines do.
    """
    half = style.DOUBLE_GAP / 2 if leaving is EdgeStyle.DOUBLE else 0.0
    apart = head_width(entering, Emphasis.NONE) / 2 + _CLEAR + half
    above = min(0.0, max(_LOW * radius - half - apart, -_MOST_OFF))
    return above, max(_LOW * radius - half, above + apart)


def _levels(here: Sequence[tuple[Route, bool]]) -> list[list[tuple[Route, bool]]]:
    def distance(one: tuple[Route, bool]) -> float:
        route, is_out = one
        return abs(route.runs[0].x - route.start.x if is_out else route.runs[-1].x - route.end.x)

    incoming = sorted((one for one in here if not one[1]), key=distance)
    outgoing = sorted((one for one in here if one[1]), key=distance, reverse=True)
    levels: list[list[tuple[Route, bool]]] = [[one] for one in incoming]
    by_key: dict[Key, list[tuple[Route, bool]]] = {}
    for one in outgoing:
        if one[0].key in by_key:
            by_key[one[0].key].append(one)
        else:
            by_key[one[0].key] = [one]
            levels.append(by_key[one[0].key])
    return levels
