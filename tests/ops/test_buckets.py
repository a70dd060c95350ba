"""Buckets of distances against the rule of T5, written out with whole numbers."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from tier import THOROUGH

from xg.ir.dim import number
from xg.ops.buckets import forward
from xg.verify.reference.evaluate import Context, evaluate


@cache
def bucket(ahead: int, buckets: int, far: int, *, both: bool) -> int:
    """Of a key `ahead` of its query: exact near by, then by powers, compared without rounding."""
    own = buckets // 2 if both else buckets
    exact = own // 2
    distance = abs(ahead) if both else max(-ahead, 0)
    first = own if both and ahead > 0 else 0
    if distance < exact:
        return first + distance
    # What is far is farther than what is exact, whatever `far` says.
    last = Fraction(max(far, exact + 1), exact)
    wide, ratio = own - exact, Fraction(distance, exact)
    steps = max(k for k in range(wide + 1) if k == 0 or ratio**wide >= last**k)
    return first + min(exact + steps, own - 1)


# Daily every number of buckets meets both directions and both types, but not all four pairs.
CASES = [
    (buckets, far, both, dtype)
    for place, (buckets, far) in enumerate([(32, 128), (6, 9), (6, 4), (13, 40), (8, 20), (9, 2)])
    for both in (True, False)
    for t, dtype in enumerate((np.float32, np.float64))
    if THOROUGH or (place + both + t) % 2 == 0
]


@pytest.mark.parametrize(("buckets", "far", "both", "dtype"), CASES)
def test_every_distance_has_its_bucket(buckets: int, far: int, both: bool, dtype: type) -> None:
    """All distances up to 300, on both sides, also where a power is a whole number."""
    keys, queries = 601, 301
    direction = "both" if both else "past"
    sizes = {"queries": number(queries), "keys": number(keys), "buckets": number(buckets)}
    body = forward(**sizes, far=number(far), direction=direction, range=number(buckets))
    (found,) = evaluate((body,), {}, Context({}, dtype, None))
    one = [bucket(ahead, buckets, far, both=both) for ahead in range(1 - keys, keys)]
    ahead = np.arange(keys) - np.arange(keys - queries, keys)[:, None]
    assert found.dtype == np.int64
    assert np.array_equal(found, np.array(one)[ahead + keys - 1])
