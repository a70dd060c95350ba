"""The meaning of tables of constants, found by looking at their numbers at several sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg_torch.importing.archive import Array
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.fixed import Fixed
from xg_torch.importing.known import HIDDEN, Known, Layout
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.rotary_speeds import Turns, scaled, turns_of
from xg_torch.importing.views import Axis, Factor, View

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
        own if place == axis else _repeated(lowering, dim) for place, dim in enumerate(known.shape)
    )
    return View(value, (own,), axes)


def _repeated(lowering: Lowering, dim: Dim) -> Axis:
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
    """The rotary positions of which two tables [.., S, .., D_h] are the cosines and sines.

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
        tables = (
            (cosine, c, turns.scale * np.cos(angle)),
            (sine, s, turns.scale * np.sin(angle)),
        )
        if not all(_close(lowering, fixed, array, expected) for fixed, array, expected in tables):
            return None
    return turns


def _close(lowering: Lowering, fixed: Fixed, table: Array, wanted: Array) -> bool:
    rough = fixed.name in lowering.fixed.rough
    lowering.rounded = lowering.rounded or rough
    tolerance = LOOSE if rough else TIGHT
    scale = max(1.0, float(table.shape[-2]))  # angles grow with positions, and so do their errors
    return bool(np.abs(table - wanted).max(initial=0.0) <= tolerance * scale)
