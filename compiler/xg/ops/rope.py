"""Rotary position embedding of ``[.., S, D_h]`` (seed 000, 5; Su et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from xg.ir.dim import ONE, ZERO, number
from xg.ir.op import Description, Op
from xg.ir.prim import Expr, as_float, concat, cos, cut, exp, iota, maximum, minimum, reshape, sin
from xg.ir.scalar import Scalar, as_scalar, function, size
from xg.ir.use import Attrs, Data, Misuse, Number, Use, Word

SLOWED: Final = ("factor", "low", "high", "trained")


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
    return given


def forward(
    x: Expr, positions: Expr | None, *, base: Scalar, layout: str, **slowed: Scalar
) -> Expr:
    """Pair i at position s turned by the angle ``s / base^(2i/D_h)``."""
    angle = _angle(x, positions, base, slowed)
    return _turn(x, cos(angle), sin(angle), layout)


def adjoint(
    dy: Expr,
    x: Expr,
    positions: Expr | None,
    *,
    base: Scalar,
    layout: str,
    factor: Scalar | None = None,
    low: Scalar | None = None,
    high: Scalar | None = None,
    trained: Scalar | None = None,
) -> tuple[Expr]:
    """The same turn back."""
    numbers = zip(SLOWED, (factor, low, high, trained), strict=True)
    slowed = {name: value for name, value in numbers if value is not None}
    angle = _angle(x, positions, base, slowed)
    return (_turn(dy, cos(angle), -sin(angle), layout),)


def _angle(x: Expr, positions: Expr | None, base: Scalar, slowed: Mapping[str, Scalar]) -> Expr:
    """``[S, D_h/2]``."""
    length, width = x.shape[-2:]
    place = reshape(as_float(iota(length) if positions is None else positions), (length, ONE))
    slower = as_scalar(-2.0) * function("log", base) / size(width)
    speed = exp(as_float(iota(width / 2)) * slower).named("speed")
    return (place * _slowed(speed, slowed)).named("angle")


def _slowed(speed: Expr, slowed: Mapping[str, Scalar]) -> Expr:
    """Speeds of less than `low` turns in the `trained` positions divided, of `high` as they are."""
    if not slowed:
        return speed
    factor, low, high, trained = (as_scalar(slowed[name]) for name in SLOWED)
    turns = (speed * (trained / as_scalar(2 * math.pi))).named("turns")
    kept = minimum(maximum((turns - low) / (high - low), 0.0), 1.0).named("kept")
    return (speed * ((1.0 - kept) / factor + kept)).named("slowed")


def _turn(x: Expr, c: Expr, s: Expr, layout: str) -> Expr:
    a, b = _halves(x) if layout == "half" else _neighbours(x)
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


def _neighbours(x: Expr) -> tuple[Expr, Expr]:
    """Pair i is columns 2i and 2i + 1."""
    shape = (*x.shape[:-1], x.shape[-1] / 2)
    pairs = reshape(x, (*shape, number(2)))
    first, second = cut(pairs, -1, ZERO, ONE), cut(pairs, -1, ONE, number(2))
    return reshape(first, shape), reshape(second, shape)


def describe(attrs: Attrs) -> Description:
    """By the position in the sequence, or by given ones; which columns are a pair."""
    half = attrs["layout"] == "half"
    pair = "columns i and i + D_h/2" if half else "columns 2i and 2i + 1"
    slow = "; slow pairs are slowed by factor (Llama 3.1)" if "factor" in attrs else ""
    prefix = "" if "positions" in attrs.get("absent", ()) else "given "
    return Description(
        f"turns pairs of columns by their {prefix}position s{slow}",
        "(y_a, y_b) = (x_a cos φ - x_b sin φ, x_b cos φ + x_a sin φ), φ = s / base^(2i/D_h); "
        f"pair i is {pair}",
        "dX = dY turned back by φ",
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
    ),
    forward=forward,
    keeps_shape=True,
    configure=configure,
    describe=describe,
    adjoint=adjoint,
    meaning="turns pairs of columns by their position; RoPE<-range(a, b) gives other positions",
    formula="(y_a, y_b) = (x_a cos φ - x_b sin φ, x_b cos φ + x_a sin φ), φ = s / base^(2i/D_h)",
    gradient="dX = dY turned back by φ",
    source="seed 000, 5; Su et al. 2021",
)
