"""How fast rotary positions turn: by a base, or slowed for long texts, as in Llama 3.1 and YaRN."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import Dim, number
from xg.ops.buckets import SLACK
from xg_torch.importing.archive import Array
from xg_torch.importing.errors import OTHER_TABLE, Unspeakable
from xg_torch.importing.fixed import (
    HIDDEN,
    Fixed,
    FixedPart,
    Known,
    Layout,
    Operand,
    TurnedCoordinate,
    Turning,
)
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.views import Axis, Factor, ModelStep, ModelValue, Size, View, split

SURE: Final = 1e-4  # a share that is closer to 0 or 1 is 0 or 1
LOW: Final = 1.0  # only the ratios of low, high and trained count
APART: Final = 1e-3  # of YaRN: the width of a change from one pair to the next
HIGH: Final = 4.0  # of published models; two shares between 0 and 1 tell others


@dataclass(frozen=True, slots=True)
class Turns:
    """The base, and the numbers by which slow pairs are slowed: factor, low, high, trained.

    With `pairs` the change is gradual in the number of the pair, as in YaRN, and not in its turns.
    `scale` is what the cosines and sines are multiplied by.
    """

    base: float
    slowed: tuple[tuple[str, float], ...] = ()
    pairs: bool = False
    scale: float = 1.0

    def speeds(self, width: int) -> Array:
        """The angle of each pair from one position to the next."""
        speed: Array = self.base ** (-2.0 / width * np.arange(width // 2, dtype=np.float64))
        if not self.slowed:
            return speed
        factor, low, high, trained = (value for _, value in self.slowed)
        if self.pairs:
            first, last = (_pair(turns, trained, self.base, width) for turns in (high, low))
            ramp = np.arange(width // 2) - max(math.floor(first), 0)
            span = min(math.ceil(last), width - 1) - max(math.floor(first), 0)
            kept = 1 - np.clip(ramp / (span or APART), 0, 1)
        else:
            kept = np.clip((speed * trained / (2 * math.pi) - low) / (high - low), 0, 1)
        return speed * ((1 - kept) / factor + kept)


def turns_of(found: Array, width: int) -> Turns:
    """Find the turns that have these speeds; if none fit, return a base without slowing.

    The second pair tells the base, or the last two where even the second is slowed.
    """
    if width < 4:
        return Turns(10000.0)  # a single pair has no base
    plain = Turns(_base(float(found[1]), width))
    bases = plain.base, _base(float(found[-1]) / max(float(found[-2]), 1e-30), width)
    slowed = [
        of(found, Turns(base).speeds(width), base)
        for of in (_by_turns, _by_pairs)
        for base in bases
    ]
    for turns in (plain, *slowed):
        if np.allclose(turns.speeds(width), found, rtol=SURE, atol=0):
            return turns
    return plain


def scaled(turns: Turns, height: float) -> Turns:
    """The turns whose tables are so high; of YaRN by its factor, where that is as good."""
    usual = 0.1 * math.log(turns.slowed[0][1]) + 1 if turns.pairs else 1.0
    return replace(turns, scale=usual if abs(usual - height) < 1e-6 else _round_if_close(height))


def _by_turns(found: Array, plain: Array, base: float) -> Turns:
    """The numbers by which slow pairs are slowed, if the last pair is one of them."""
    ratio = found / plain
    if not 0 < ratio[-1] < 1 - SURE:
        return Turns(base)
    factor = _round_if_close(1 / float(ratio[-1]))
    kept = (ratio - 1 / factor) / (1 - 1 / factor)
    between = np.flatnonzero((kept > SURE) & (kept < 1 - SURE))
    whole = plain[kept >= 1 - SURE]
    below = 1 / (HIGH - LOW)
    if len(between) > 1:
        first, last = between[0], between[-1]
        slope = (kept[first] - kept[last]) / (plain[first] - plain[last])
        below = max(slope * plain[first] - kept[first], SURE)
    elif len(between):
        slope = (kept[between[0]] + below) / plain[between[0]]
    else:
        slope = (1 + below) / (whole[-1] if len(whole) else plain[0])
    high = _round_if_close(LOW + 1 / float(below))
    trained = _round_if_close(2 * math.pi * float(slope) * (high - LOW))
    return Turns(base, (("factor", factor), ("low", LOW), ("high", high), ("trained", trained)))


def _by_pairs(found: Array, plain: Array, base: float) -> Turns:
    """The same where the change is gradual by pairs; of many numbers that do, round ones."""
    ratio, width = found / plain, 2 * len(found)
    if not 0 < ratio[-1] < 1 - SURE:
        return Turns(base)
    factor = _round_if_close(1 / float(ratio[-1]))
    kept = (ratio - 1 / factor) / (1 - 1 / factor)
    first = int(np.flatnonzero(kept >= 1 - SURE)[-1]) if kept[0] >= 1 - SURE else 0
    last = int(np.flatnonzero(kept <= SURE)[0])
    per_pair = base ** (2 / width)
    most = 2 * math.pi * per_pair**last  # low turns of the last pair, one with low = 1
    trained = _round_between(most / per_pair, most)
    most = trained / (2 * math.pi * per_pair**first)
    high = _round_between(most / per_pair, most)
    numbers = (("factor", factor), ("low", LOW), ("high", high), ("trained", trained))
    return Turns(base, numbers, pairs=True)


def _pair(turns: float, trained: float, base: float, width: int) -> float:
    """Return the pair that makes this many turns in the trained positions, as a real number."""
    return width * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))


def _round_between(low: float, high: float) -> float:
    """A power of two between two numbers, or else a number of few digits, or the middle."""
    power = 2.0 ** math.floor(math.log2(high) - SURE)
    if power > low:
        return power
    middle = math.sqrt(low * high)
    tidy = (float(f"{middle:.{digits}g}") for digits in (1, 2, 3))
    return next((each for each in tidy if low < each < high), middle)


def _base(angle: float, width: int) -> float:
    """The base whose second angle at position 1 this is; a round number if it is as good."""
    exact = max(angle, 1e-30) ** (-width / 2)
    rounded = float(f"{exact:.3g}")
    return rounded if abs(rounded / exact - 1) < 1e-4 else exact


def _round_if_close(exact: float) -> float:
    """A number as configurations have it, if it is as good: tables are rounded to float32."""
    rounded = float(f"{exact:.4g}")
    return rounded if abs(rounded - exact) < 1e-5 * abs(exact) else exact


# The meaning of tables of constants, found by looking at their numbers at several sizes.


Sized = tuple[dict[str, int], Array]
LOOSE: Final = 1e-6  # how far a table may be off that was computed in float32, per position
TIGHT: Final = 1e-12
OTHER_INDICES: Final = "its indices are constants other than positions or buckets of distances"
BY_DISTANCE: Final = (
    "its mask of constants shows keys otherwise than by their distance from queries"
)


@dataclass(frozen=True, slots=True)
class Visible:
    """The keys that a mask of constants shows: from `before` back to `after` ahead of a query.

    None is no bound.
    """

    before: int | None = None
    after: int | None = None


def looked_at(lowering: Lowering, fixed: Fixed) -> Iterator[Sized]:
    """The numbers of a table at several sizes."""
    for sizes in lowering.fixed.trials(fixed.name):
        yield sizes, lowering.fixed.run(fixed.name, sizes)


def positions(lowering: Lowering, known: Known) -> View | None:
    """``range(n)`` or ``range(a, b)`` along one axis, repeated along all others."""
    if not isinstance(known, Fixed):
        return None
    long = [place for place, dim in enumerate(known.shape) if dim.constant != 1]
    starts: set[int] = set()
    axis = long[-1] if long else 0
    for _, table in looked_at(lowering, known):
        if not long or not np.issubdtype(table.dtype, np.integer):
            raise Unspeakable(OTHER_INDICES)
        first = int(table.reshape(-1)[0])
        counted: Array = np.arange(first, first + table.shape[axis], dtype=np.int64)
        if not (np.moveaxis(table, axis, -1) == counted).all():
            raise Unspeakable(OTHER_INDICES)
        starts.add(first)
    if len(starts) != 1:
        raise Unspeakable("its positions begin where a size says")
    size = lowering.sizes.make(known.shape[axis])
    value = lowering.emit("range", (), (size,), kind="int", start=starts.pop(), length=(size,))
    own: Axis = (Factor.of(size),)
    axes = tuple(
        own if place == axis else _repeat_axis(lowering, dim)
        for place, dim in enumerate(known.shape)
    )
    return View(value, (own,), axes)


def _repeat_axis(lowering: Lowering, dim: Dim) -> Axis:
    return () if dim.constant == 1 else (Factor.of(lowering.sizes.make(dim)),)


def constant_row(lowering: Lowering, known: Known) -> int | None:
    """The one index that a table of constants holds everywhere."""
    index = single(lowering, known)
    return None if index is None else int(index)


def visible(lowering: Lowering, fixed: Fixed, *, scores: bool, negated: bool) -> Visible:
    """The distances at which a mask of constants shows keys to queries; else Unspeakable."""
    tables: list[Array] = []
    for _, table in looked_at(lowering, fixed):
        shown = _shown(table) if scores else table.astype(bool)
        shown = ~shown if negated else shown
        if shown.ndim >= 2 and shown.shape[-1] > 1:
            tables.append(shown)
        elif not shown.all():
            raise Unspeakable(BY_DISTANCE)
    # A bound shows only where an axis is longer than it.
    bands = [_band(table) for table in tables]
    before, after = (
        max((b for band in bands if (b := getattr(band, side)) is not None), default=None)
        for side in ("before", "after")
    )
    for shown in tables:
        ahead = _ahead(shown)
        near = np.ones(ahead.shape, bool) if after is None else ahead <= after
        near = near if before is None else near & (ahead >= -before)
        if not (shown == near).all():
            raise Unspeakable(BY_DISTANCE)
    return Visible(before, after)


def _ahead(table: Array) -> Array:
    """How far each key is ahead of each query."""
    queries, keys = table.shape[-2:]
    own, others = (np.arange(n, dtype=np.int64) for n in (queries, keys))
    return others - own[:, None]


def _band(shown: Array) -> Visible:
    """The distances that a table shows, without those at its ends."""
    ahead = _ahead(shown)
    seen = ahead[shown.reshape(-1, *shown.shape[-2:])[0]]
    if not seen.size:
        raise Unspeakable(BY_DISTANCE)
    low, high = int(seen.min()), int(seen.max())
    return Visible(None if low == ahead.min() else -low, None if high == ahead.max() else high)


def _shown(table: Array) -> Array:
    """Where scores that are added are 0; all others must hide."""
    zero = table == 0
    if not (zero | (table <= HIDDEN)).all():
        raise Unspeakable("it adds constants to scores that neither show nor hide")
    return zero


def single(lowering: Lowering, known: Known) -> float | None:
    """The one number that a table holds everywhere."""
    if not isinstance(known, Fixed):
        return None
    numbers = {float(x) for _, table in looked_at(lowering, known) for x in np.unique(table)}
    return numbers.pop() if len(numbers) == 1 else None


def is_sinusoid(lowering: Lowering, fixed: Fixed) -> bool:
    """Whether a table [.., S, D] holds the sines and cosines of positions."""
    for _, table in looked_at(lowering, fixed):
        length, width = table.shape[-2:]
        if width % 2 or math.prod(table.shape) != length * width:
            return False
        angle = np.arange(length, dtype=np.float64)[:, None] * Turns(10000.0).speeds(width)
        array = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(length, width)
        if not _close(lowering, fixed, table.reshape(length, width), array):
            return False
    return True


def along_positions(lowering: Lowering, fixed: Fixed) -> int:
    """The axis of a table of angles that counts positions, from the end."""
    places = [i for i, dim in enumerate(fixed.shape[:-1]) if dim.constant != 1]
    return (places[-1] if places else len(fixed.shape) - 2) - len(fixed.shape)


def rotary_turns(
    lowering: Lowering, cosine: Fixed, sine: Fixed, layout: Layout | None
) -> Turns | None:
    """Find the turns whose cosines and sines two tables [.., S, .., D_h] hold.

    Without a layout they have one angle for each pair: [.., S, .., D_h/2].
    """
    turns: Turns | None = None
    place = along_positions(lowering, cosine)
    for sizes, table in looked_at(lowering, cosine):
        other = lowering.fixed.run(sine.name, sizes)
        length, columns = table.shape[place], table.shape[-1]
        width = columns if layout else 2 * columns
        if table.shape != other.shape or width % 2 or math.prod(table.shape) != length * columns:
            return None
        if length < 2:
            continue
        c, s = (each.reshape(length, columns) for each in (table, other))
        pairs = slice(0, width, 2) if layout == "interleaved" else slice(width // 2)
        if turns is None:
            turns = turns_of(np.arctan2(s[1, pairs], c[1, pairs]), width)
            turns = scaled(turns, float(c[0, 0]))
        angle = np.arange(length, dtype=np.float64)[:, None] * turns.speeds(width)
        if layout:
            angle = np.tile(angle, 2) if layout == "half" else np.repeat(angle, 2, axis=-1)
        tables = ((cosine, c, turns.scale * np.cos(angle)), (sine, s, turns.scale * np.sin(angle)))
        if not all(_close(lowering, fixed, array, expected) for fixed, array, expected in tables):
            return None
    return turns


def _close(lowering: Lowering, fixed: Fixed, table: Array, wanted: Array) -> bool:
    rough = fixed.name in lowering.fixed.rough
    lowering.rounded = lowering.rounded or rough
    tolerance = LOOSE if rough else TIGHT
    scale = max(1.0, float(table.shape[-2]))  # angles grow with positions, and so do their errors
    return bool(np.abs(table - wanted).max(initial=0.0) <= tolerance * scale)


# Rotary positions, written out: ``x * cos + rotated(x) * sin`` is one RoPE.


def turning(lowering: Lowering, view: View, table: Fixed) -> Turning | None:
    """A tensor with its pairs turned, times a table; None where the tensor is no such one."""
    halves, neighbors = _halves(lowering, view), _neighbors(lowering, view)
    if halves is not None:
        return Turning(View.of(halves), table, "half")
    if neighbors is not None:
        return Turning(View.of(neighbors), table, "interleaved")
    return None


def rotary(lowering: Lowering, a: Known | float, b: Known | float) -> View | None:
    """The RoPE that a sum is; None for any other sum."""
    if not isinstance(a, Turning) and not isinstance(b, Turning):
        return None
    problem = Unspeakable(OTHER_TABLE)
    if not isinstance(a, Turning) or not isinstance(b, Turning):
        raise problem
    straight, turned = (b, a) if a.rotated else (a, b)
    layout = turned.rotated
    value = lowering.materialize(straight.view).value
    fits = value is turned.view.value and len(value.axes) > 1
    if straight.rotated is not None or layout is None or not fits:
        raise problem
    turns = rotary_turns(lowering, straight.table, turned.table, layout)
    if turns is None:
        raise problem
    return rope(lowering, View.of(value), along_positions(lowering, straight.table), turns, layout)


def rope(lowering: Lowering, view: View, place: int, turns: Turns, layout: Layout) -> View:
    """The RoPE of a whole value; the axis at `place` counts positions."""
    # RoPE has positions along the last axis but one.
    order = [i - len(view.axes) for i in range(len(view.axes))]
    order.insert(-1, order.pop(place))
    back = [order.index(i) for i in sorted(order)]
    turned_round = lowering.materialize(view.with_axes(view.axes[i] for i in order)).value
    made = View.of(
        lowering.emit("RoPE", (turned_round,), turned_round.axes, turns=turns, layout=layout)
    )
    if turns.scale != 1.0:
        made = lowering.keep("scale", made, c=turns.scale)
    return made.with_axes(made.axes[i] for i in back)


def _made_by(lowering: Lowering, value: ModelValue, *operators: str) -> ModelStep | None:
    """Return the step that made a value, looking through any R; None for other operators."""
    step = lowering.producer.get(value)
    while step is not None and step.operator == "R" and "R" not in operators:
        step = lowering.producer.get(step.data[0])
    return step if step is not None and step.operator in operators else None


def _rotary_pair(
    lowering: Lowering, view: View, operator: str
) -> tuple[ModelStep, ModelStep] | None:
    """The steps ``y`` and ``x`` of a joined ``[-y, x]``."""
    joined = _made_by(lowering, view.value, "C")
    if joined is None or len(joined.data) != 2:
        return None
    negated = _made_by(lowering, joined.data[0], "op")
    if joined.attrs["axis"] != -1 or negated is None:
        return None
    if negated.attrs["formula"][0] != (("neg", (Operand(0),)),):
        return None
    second, first = (
        _made_by(lowering, each, operator) for each in (negated.data[0], joined.data[1])
    )
    if second is None or first is None or first.data != second.data:
        return None
    return (second, first) if first.attrs["axis"] == second.attrs["axis"] == -1 else None


def _halves(lowering: Lowering, view: View) -> ModelValue | None:
    """Return the tensor x if a view is ``[-second half of x, first half of x]``."""
    pair = _rotary_pair(lowering, view, "slice")
    if pair is None:
        return None
    second, first = pair
    half = first.attrs["stop"]
    fits = first.attrs["start"].constant == 0 and second.attrs["start"] == half
    return first.data[0] if fits and second.attrs["stop"] == half * 2 else None


def _neighbors(lowering: Lowering, view: View) -> ModelValue | None:
    """Return the tensor x if a view pairs x's negated odd columns with its even columns."""
    pair = _rotary_pair(lowering, view, "pick")
    if pair is None:
        return None
    second, first = pair
    if first.attrs["index"].constant != 0 or second.attrs["index"].constant != 1:
        return None
    pairs = lowering.producer.get(first.data[0])
    return pairs.data[0] if pairs is not None and pairs.operator == "R" else None


# Rotary positions by coordinates: ``x1 cos - x2 sin`` and ``x2 cos + x1 sin``, put together.
#
# x1 and x2 are all first and all second numbers of pairs: the halves of an axis, or its even and
# odd columns. Put together they may have the other order of the two.


Origin = tuple[ModelValue, Layout, int]  # a tensor, and which numbers of its pairs


def is_coordinate(lowering: Lowering, view: View) -> bool:
    """Whether a tensor is one number of each pair of another: a half, or every other column."""
    return not view.repeats and _origin(lowering, view) is not None


def coordinate(
    lowering: Lowering, a: Known | float, b: Known | float, *, second: bool
) -> TurnedCoordinate | None:
    """A difference or a sum of two products with tables as a coordinate; None for any other."""
    if not isinstance(a, Turning) or not isinstance(b, Turning) or a.rotated or b.rotated:
        return None
    along, across = (lowering.laid_out.get(each.view.value, each.view) for each in (a, b))
    return TurnedCoordinate(along, across, a.table, b.table, second)


def put_together(lowering: Lowering, items: Sequence[Known], *, beside: bool) -> View | None:
    """Return the RoPE whose coordinates two tensors are; None if neither is a coordinate.

    The two of a pair come `beside` each other on an axis of their own, or all first ones in front.
    """
    if not any(isinstance(item, TurnedCoordinate) for item in items):
        return None
    problem = Unspeakable(OTHER_TABLE)
    one, two = items if len(items) == 2 else (None, None)
    if not isinstance(one, TurnedCoordinate) or not isinstance(two, TurnedCoordinate):
        raise problem
    if one.second or not two.second:
        raise problem
    x1, x2 = _origin(lowering, one.along), _origin(lowering, one.across)
    if _origin(lowering, two.along) == x1:  # the sum has its sines in front
        two = TurnedCoordinate(two.across, two.along, two.sine, two.cosine, True)
    if x1 is None or x2 != (*x1[:2], 1) or x1[2] != 0:
        raise problem
    if (x2, x1) != (_origin(lowering, two.along), _origin(lowering, two.across)):
        raise problem
    turns, again = (rotary_turns(lowering, each.cosine, each.sine, None) for each in (one, two))
    seen = {_axis_places(view) for view in (one.along, one.across, two.along, two.across)}
    places = seen.pop()
    if turns is None or turns != again or places is None or seen:
        raise problem
    made = _apply_turns(lowering, one, x1, turns, places)
    return _in_order(lowering, made, x1[1], beside=beside)


def _origin(lowering: Lowering, view: View) -> Origin | None:
    """Return the tensor whose pairs' first (0) or second (1) numbers a view has, and which."""
    step = lowering.producer.get(view.value)
    if step is None or step.attrs.get("axis") != -1:
        return None
    if step.operator == "slice":
        size = step.data[0].axes[-1]
        start, stop = step.attrs["start"], step.attrs["stop"]
        if size is None or (stop - start) * 2 != lowering.sizes.dim(size):
            return None
        which = {0: 0, (stop - start).constant: 1}.get(start.constant)
        return None if which is None else (step.data[0], "half", which)
    pairs = lowering.producer.get(step.data[0])
    if step.operator != "pick" or pairs is None or not _apart(lowering, pairs):
        return None
    return _bare(lowering, pairs.data[0]), "interleaved", step.attrs["index"].constant


def _apart(lowering: Lowering, step: ModelStep) -> bool:
    """Whether a step only takes the last axis apart, into pairs."""
    if step.operator != "R":
        return False
    arrangement = step.attrs["arrangement"]
    source, target = (
        [axis for axis in side if axis] for side in (arrangement.source, arrangement.target)
    )
    *front, last = source
    two = lowering.sizes.dim(arrangement.sizes[last[-1]]).constant == 2
    return two and len(last) == 2 and target == [*front, last[:1], last[1:]]


def _bare(lowering: Lowering, value: ModelValue) -> ModelValue:
    """A value without axes of length 1 that an R has added."""
    step: ModelStep | None = lowering.producer.get(value)
    if step is None or step.operator != "R":
        return value
    arrangement = step.attrs["arrangement"]
    added = tuple(axis for axis in arrangement.target if axis) == arrangement.source
    return step.data[0] if added else value


def _axis_places(view: View) -> tuple[int | None, ...] | None:
    """The place of each axis in the value, None for one of length 1; no axis is part of another."""
    base = [axis for axis in view.base if axis]
    if any(axis not in base for axis in view.axes if axis) or view.axes[-1:] != tuple(base[-1:]):
        return None
    return tuple(base.index(axis) if axis else None for axis in view.axes)


def _apply_turns(
    lowering: Lowering,
    one: TurnedCoordinate,
    origin: Origin,
    turns: Turns,
    places: Sequence[int | None],
) -> View:
    """The tensor turned, seen as its coordinates were."""
    value, layout, _ = origin
    view = View.of(value)
    whole = view.with_axes(axis for axis in view.axes if axis)
    along = places[along_positions(lowering, one.cosine)]
    if along is None or len(whole.axes) <= max(place or 0 for place in places):
        raise Unspeakable(OTHER_TABLE)
    x = View.of(lowering.lay_out(view, whole.axes))
    made = rope(lowering, x, along - len(x.axes), turns, layout)
    return made.with_axes(made.axes[i] if i is not None else () for i in places)


def _in_order(lowering: Lowering, view: View, layout: Layout, *, beside: bool) -> View:
    """A turned tensor as a model puts its coordinates together."""
    if layout == "half" and not beside:
        return view
    (factor,) = view.axes[-1]
    outer = lowering.sizes.dim(factor.size) / 2 if layout == "interleaved" else number(2)
    view = split(view, factor, outer, lowering.sizes)
    pair, two = view.axes[-1] if layout == "interleaved" else view.axes[-1][::-1]
    return view.with_axes((*view.axes[:-1], *(((pair,), (two,)) if beside else ((two, pair),))))


# Buckets of distances (Raffel et al. 2019), found by looking at a table of integers.


FAR_AT_MOST: Final = 1024  # a table of all pairs up to there is still small


@dataclass(frozen=True, slots=True)
class Buckets:
    """Hold the parameters of the legend's `buckets`: count, start of the last, and direction."""

    count: int
    far: int
    past: bool

    @property
    def own(self) -> int:
        """The buckets of one direction."""
        return self.count if self.past else self.count // 2

    @property
    def exact(self) -> int:
        """How many of them hold one distance."""
        return max(self.own // 2, 1)

    def of(self, ahead: Array) -> Array:
        """The bucket of keys that are so far ahead of their query."""
        distance = np.maximum(-ahead, 0) if self.past else np.abs(ahead)
        stretch = (self.own - self.exact) / math.log(max(self.far, self.exact + 1) / self.exact)
        beyond = np.log(np.maximum(distance, 1) / self.exact) * stretch + self.exact + SLACK
        near = np.where(distance < self.exact, distance, np.floor(beyond))
        later = 0 if self.past else self.own * (ahead > 0)
        return np.minimum(near, self.own - 1).astype(np.int64) + later


def bucket_indices(lowering: Lowering, known: Known, rows: Size) -> View | None:
    """Return ``buckets(S, S, N_B, S_far)`` as indices of a table's rows, else None."""
    count = lowering.sizes.dim(rows).constant
    if not isinstance(known, Fixed) or len(known.shape) < 2 or count is None:
        return None
    found = _found(lowering.fixed, known, count)
    if found is None:
        return None
    queries, keys = (lowering.sizes.make(dim) for dim in known.shape[-2:])
    far = lowering.sizes.make(number(found.far))
    lowering.sizes.hint(rows, "N_B", 8)
    lowering.sizes.hint(far, "S_far", 8)
    lengths = (queries, keys, rows, far)
    value = lowering.emit(
        "buckets", (), (queries, keys), kind="int", length=lengths, past=found.past
    )
    axes: tuple[Axis, ...] = ((Factor.of(queries),), (Factor.of(keys),))
    return View(value, axes, (*((),) * (len(known.shape) - 2), *axes))


def _found(part: FixedPart, fixed: Fixed, count: int) -> Buckets | None:
    """The buckets that a table has: with a distance that its numbers say as ``log(far / exact)``.

    A table of one size may have any that are the same at all of its distances.
    """
    whole = list(_tables(part, fixed, 0)) if all(dim.constant for dim in fixed.shape) else None
    numbers = [x for x in part.fractions(fixed.name) if 0 < x < math.log(FAR_AT_MOST)]
    for past in (False, True):
        exact = Buckets(count, 0, past).exact
        fars = [round(exact * math.exp(x)) for x in numbers]
        if whole is not None:
            fars += range(exact + 1, FAR_AT_MOST)
        for far in fars:
            buckets = Buckets(count, far, past)
            tables = whole if whole is not None else _tables(part, fixed, far)
            if far <= FAR_AT_MOST and all(_has(table, buckets) for table in tables):
                return buckets
    return None


def _tables(part: FixedPart, fixed: Fixed, far: int) -> Iterator[Array]:
    """The numbers of a table at several sizes, one beyond the distance of the last bucket."""
    for sizes in part.trials(fixed.name, far):
        yield part.run(fixed.name, sizes)


def _has(table: Array, buckets: Buckets) -> bool:
    queries, keys = table.shape[-2:]
    if table.dtype.kind != "i" or table.size != queries * keys:
        return False
    own, others = (np.arange(n, dtype=np.int64) for n in (queries, keys))
    ahead = others - own[:, None] - (keys - queries)
    return bool((table.reshape(queries, keys) == buckets.of(ahead)).all())
