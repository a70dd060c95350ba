"""Buckets of distances (Raffel et al. 2019), found by looking at a table of integers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import number
from xg.ops.buckets import SLACK
from xg_torch.importing.archive import Array
from xg_torch.importing.fixed import Fixed, FixedPart
from xg_torch.importing.known import Known
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.sizes import Size
from xg_torch.importing.views import Axis, Factor, View

FAR_AT_MOST: Final = 1024  # a table of all pairs up to there is still small


@dataclass(frozen=True, slots=True)
class Buckets:
    """The legend's `buckets`: how many there are, where the last one begins, and of which keys."""

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


def bucketed(lowering: Lowering, known: Known, rows: Size) -> View | None:
    """``buckets(S, S, N_B, S_far)`` as indices of a table of so many rows; None if it is none."""
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
