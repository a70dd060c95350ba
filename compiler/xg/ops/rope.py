"""Rotary position embedding of ``[.., S, D_h]`` (seed 000, 5; Su et al. 2021).

For texts longer than those of the first training slow pairs turn more slowly: between a pair that
is slowed and one that is kept the change is gradual by turns (Llama 3.1) or by pairs (YaRN, Peng et
al. 2023).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from xg.ir.dim import ONE, ZERO, Dim, Scalar, as_scalar, function, number, size
from xg.ir.functions import cos, exp, sin
from xg.ir.op import Description, Op
from xg.ir.prim import (
    Expr,
    as_float,
    concat,
    cut,
    equal,
    iota,
    maximum,
    minimum,
    reduce_sum,
    reshape,
    where,
)
from xg.ir.use import Attrs, Data, Misuse, Number, Use, Word

SLOWED: Final = ("factor", "low", "high", "trained")
APART: Final = 1e-3  # of YaRN: the width of a change from one pair to the next


def configure(use: Use) -> Attrs:
    """Refuse what has no positions or no pairs."""
    x, *positions = use.types
    if len(x.shape) < 2:
        raise Misuse(
            "RoPE turns [.., S, D_h]", {0: f"{use.spell(x.shape)} has no axis of positions"}
        )
    if (x.shape[-1].constant or 0) % 2:
        raise Misuse(f"RoPE turns pairs: {x.shape[-1]} is odd")
    for type_ in positions:
        if type_.shape != x.shape[-2:-1]:
            length = use.sizes.fold(x.shape[-2])
            raise Misuse(
                f"RoPE needs {length} positions", {1: f"these are {use.spell(type_.shape)}"}
            )
    given = {name: value for name, value in use.own.items() if value is not None}
    if len(given.keys() & {*SLOWED}) not in (0, len(SLOWED)):
        help = ("Llama 3.1 has factor=8, low=1, high=4, trained=8192",)
        raise Misuse("RoPE slows by factor, low, high and trained together", help=help)
    if given["change"] == "turns":
        del given["change"]
    elif "factor" not in given:
        help = ("YaRN has factor=40, low=1, high=32, trained=4096, change=pairs",)
        raise Misuse("RoPE changes by pairs where slow ones are slowed", help=help)
    elif (_turns(given["low"], given["trained"]).constant or 1) < 1:
        raise Misuse("RoPE slows no pair: the first one turns less than low times while trained")
    return given


def _turns(turns: Scalar, trained: Scalar) -> Scalar:
    """How many times as often the first pair turns in the `trained` positions."""
    return trained / (turns * as_scalar(2 * math.pi))


def forward(
    x: Expr,
    positions: Expr | None,
    *,
    base: Scalar,
    layout: str,
    change: str = "turns",
    **slowed: Scalar,
) -> Expr:
    """Pair i at position s turned by the angle ``s / base^(2i/D_h)``."""
    angle = _angle(x, positions, base, _Slowed(change, **slowed) if slowed else None)
    return _turn(x, cos(angle), sin(angle), layout)


def adjoint(
    dy: Expr,
    x: Expr,
    positions: Expr | None,
    *,
    base: Scalar,
    layout: str,
    change: str = "turns",
    factor: Scalar | None = None,
    low: Scalar | None = None,
    high: Scalar | None = None,
    trained: Scalar | None = None,
) -> tuple[Expr]:
    """The same turn back."""
    slowed = None
    if factor is not None and low is not None and high is not None and trained is not None:
        slowed = _Slowed(change, factor, low, high, trained)
    angle = _angle(x, positions, base, slowed)
    return (_turn(dy, cos(angle), -sin(angle), layout),)


class _Slowed(NamedTuple):
    """Slow pairs turn `factor` times more slowly: of less than `low` turns in `trained` positions.

    Those of `high` turns are kept.
    """

    change: str
    factor: Scalar
    low: Scalar
    high: Scalar
    trained: Scalar

    def speed(self, speed: Expr, width: Dim, base: Scalar) -> Expr:
        """Return the speeds of all pairs, slowed from the speeds that the `base` gives."""
        kept = self._by_pairs(width, base) if self.change == "pairs" else self._by_turns(speed)
        kept = kept.named("kept")
        return (speed * ((1.0 - kept) / self.factor + kept)).named("slowed")

    def _by_turns(self, speed: Expr) -> Expr:
        turns = (speed * (self.trained / as_scalar(2 * math.pi))).named("turns")
        return minimum(maximum((turns - self.low) / (self.high - self.low), 0.0), 1.0)

    def _by_pairs(self, width: Dim, base: Scalar) -> Expr:
        """From the last pair of `high` turns to the first of `low`, both counted as whole ones."""
        after = as_float(iota(width, ONE))  # 1 …
        first = _not(after > self._pair(self.high, width, base)).named("first")
        before = as_float(iota(width - ONE))  # 0 …
        last = _not(before >= self._pair(self.low, width, base)).named("last")
        span = where(equal(first, last), APART, last - first).named("span")
        change = (as_float(iota(width / 2)) - first) / span
        return 1.0 - minimum(maximum(change, 0.0), 1.0)

    def _pair(self, turns: Scalar, width: Dim, base: Scalar) -> Scalar:
        """Return the pair, as a real number, that turns `turns` times in `trained` positions."""
        ratio = function("log", _turns(turns, self.trained))
        return size(width) * ratio / (as_scalar(2.0) * function("log", base))


def _not(condition: Expr) -> Expr:
    """How many elements do not fulfill it."""
    return reduce_sum(where(condition, 0.0, 1.0))


def _angle(x: Expr, positions: Expr | None, base: Scalar, slowed: _Slowed | None) -> Expr:
    """``[S, D_h/2]``."""
    length, width = x.shape[-2:]
    place = reshape(as_float(iota(length) if positions is None else positions), (length, ONE))
    slower = as_scalar(-2.0) * function("log", base) / size(width)
    speed = exp(as_float(iota(width / 2)) * slower).named("speed")
    return (place * (slowed.speed(speed, width, base) if slowed else speed)).named("angle")


def _turn(x: Expr, c: Expr, s: Expr, layout: str) -> Expr:
    a, b = _halves(x) if layout == "half" else _neighbors(x)
    a, b, c, s = a.named("a"), b.named("b"), c.named("c"), s.named("s")
    turned = (a * c - b * s).named("turned_a"), (b * c + a * s).named("turned_b")
    if layout == "half":
        return concat(turned, -1)
    column = (*a.shape, ONE)
    return reshape(concat([reshape(part, column) for part in turned], -1), x.shape)


def _halves(x: Expr) -> tuple[Expr, Expr]:
    """Pair i is columns i and i + D_h/2."""
    width = x.shape[-1]
    return cut(x, -1, ZERO, width / 2), cut(x, -1, width / 2, width)


def _neighbors(x: Expr) -> tuple[Expr, Expr]:
    """Pair i is columns 2i and 2i + 1."""
    shape = (*x.shape[:-1], x.shape[-1] / 2)
    pairs = reshape(x, (*shape, number(2)))
    first, second = cut(pairs, -1, ZERO, ONE), cut(pairs, -1, ONE, number(2))
    return reshape(first, shape), reshape(second, shape)


def describe(attrs: Attrs) -> Description:
    """By the position in the sequence, or by given ones; which columns are a pair."""
    half = attrs["layout"] == "half"
    pair = "columns i and i + D_h/2" if half else "columns 2i and 2i + 1"
    slow = ""
    if "factor" in attrs:
        slow = f"; slow pairs are slowed by factor ({'YaRN' if 'change' in attrs else 'Llama 3.1'})"
    prefix = "" if "positions" in attrs.get("absent", ()) else "given "
    return Description(
        f"rotates pairs of columns by their {prefix}position s{slow}",
        "(y_a, y_b) = (x_a cos φ - x_b sin φ, x_b cos φ + x_a sin φ), φ = s / base^(2i/D_h); "
        f"pair i is {pair}",
        "dX = dY rotated back by φ",
    )


OP: Final = Op(
    glyph="RoPE",
    name="rope",
    family="nonlinear",
    data=(Data("x"), Data("positions", "int", optional=True)),
    own=(
        Number("base", 10000.0),
        Word("layout", ("half", "interleaved")),
        *(Number(name, optional=True) for name in SLOWED),
        Word("change", ("turns", "pairs")),
    ),
    forward=forward,
    keeps_shape=True,
    configure=configure,
    describe=describe,
    adjoint=adjoint,
    meaning="rotates pairs of columns by their position; for other positions, write "
    "RoPE<-range(a, b)",
    formula="(y_a, y_b) = (x_a cos φ - x_b sin φ, x_b cos φ + x_a sin φ), φ = s / base^(2i/D_h)",
    gradient="dX = dY rotated back by φ",
    source="seed 000, 5; Su et al. 2021",
    legend="rotation by position",
)
