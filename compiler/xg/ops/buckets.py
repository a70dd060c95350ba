"""Buckets of distances between queries and keys (Raffel et al. 2019, 2.1: T5's relative positions).

Half of the buckets of a direction hold one distance each, the rest ever longer stretches of them.
"""

from __future__ import annotations

from typing import Final

from xg.ir.dim import ONE, Dim, size
from xg.ir.functions import log
from xg.ir.op import Description, Op
from xg.ir.prim import Expr, as_float, const, integer, iota, maximum, reduce_sum, reshape, where
from xg.ir.use import Attrs, Length, Use, Word

# A distance on the edge between two buckets belongs to the farther one, however log is rounded.
SLACK: Final = 1e-5


def configure(use: Use) -> Attrs:
    """The integers point at buckets."""
    return {**use.own, "range": use.own["buckets"]}


def forward(*, queries: Dim, keys: Dim, buckets: Dim, far: Dim, direction: str, range: Dim) -> Expr:
    """``[queries, keys]``: how many buckets come before the one of each distance.

    The last query is at the last key, as for a causal mask.
    """
    del range  # for the type
    place = reshape(as_float(iota(queries, keys - queries)), (queries, ONE, ONE))
    ahead = (reshape(as_float(iota(keys)), (keys, ONE)) - place).named("ahead")  # [S, S_k, 1]
    sides = 2 if direction == "both" else 1
    own = _share(buckets, sides).named("own")  # buckets of one direction
    exact = maximum(_share(buckets, 2 * sides), 1.0).named("exact")
    distance = (maximum(ahead, -ahead) if sides == 2 else maximum(-ahead, 0.0)).named("distance")
    stretch = (own - exact) / log(maximum(const(far), exact + 1.0) / exact)
    beyond = log(maximum(distance, 1.0) / exact) * stretch + (exact + SLACK)
    bucket = as_float(iota(buckets, ONE)).named("bucket")  # 1 … buckets
    reached = where(bucket > exact, _as_bit(beyond >= bucket), _as_bit(distance >= bucket))
    later = _as_bit(ahead > 0.0) if sides == 2 else integer(0)
    counted = where(own > bucket, reached, where(sides * own > bucket, later, integer(0)))
    return reshape(reduce_sum(counted), (queries, keys))


def _share(buckets: Dim, parts: int) -> Expr:
    """``floor(buckets / parts)``, counted, because a size need not be divisible."""
    number = as_float(iota(buckets, ONE))
    return reduce_sum(where(parts * number > size(buckets), 0.0, 1.0), keep=False)


def _as_bit(condition: Expr) -> Expr:
    return where(condition, integer(1), integer(0))


def describe(attrs: Attrs) -> Description:
    """Describe the buckets: for both directions, or for the past only."""
    near = "b(d) = d below n/2, else min(n - 1, n/2 + floor(n/2 · log(2d/n) / log(2 far/n)))"
    meaning = "the bucket of the distance from a query to a key"
    if attrs["direction"] == "past":
        return Description(
            f"{meaning}; later keys count as distance 0",
            f"Y[i, j] = b(max(i - j, 0)), n = N; {near}",
            "",
        )
    return Description(
        f"{meaning}, separately for later keys",
        f"Y[i, j] = b(|j - i|) + (n if j > i), n = N/2; {near}",
        "",
    )


OP: Final = Op(
    glyph="buckets",
    name="buckets",
    family="source",
    data=(),
    own=(
        Length("queries"),
        Length("keys"),
        Length("buckets"),
        Length("far"),
        Word("direction", ("both", "past")),
    ),
    forward=forward,
    configure=configure,
    describe=describe,
    meaning="the bucket of the distance from each query to each key: each near distance has its "
    "own bucket, and far distances share buckets; `both` separates earlier and later keys, `past` "
    "counts later keys as distance 0",
    formula="Y[i, j] = b(|j - i|) + (n if j > i), n = N/2; b(d) = d below n/2, else "
    "min(n - 1, n/2 + floor(n/2 · log(2d/n) / log(2 far/n))); past: n = N",
    gradient="none: integers have no gradient",
    source="Raffel et al. 2019, 2.1",
    legend="bucket of each distance",
)
