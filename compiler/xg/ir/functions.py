"""Define the functions of one number, such as exp and tanh: primitives that work on each element.

A record says all that the compiler and its packages ask of a function, and calling it applies it:
``tanh(x)``. docs/adding-a-primitive.md adds one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import inf, nan
from types import MappingProxyType
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.conventions import FORMULAS, Convention, at
from xg.ir.prim import (
    Expr,
    equal,
    maximum,
    minimum,
    reduce_max,
    reduce_sum,
    reshape,
    unary,
    where,
)

_TWO_OVER_SQRT_PI: Final = 1.1283791670955126
_LARGEST_EXPONENT: Final = 700.0  # beyond it math.exp raises


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementaryFunction:
    """One function; it is nonlinear for sharding and costs one FLOP for each element.

    `gradient` takes the result, whose argument is `y.args[0]`, and the cotangent; it is None for a
    step function, through which no gradient goes. `number` computes it for a Python float, and is
    None if it raises for some. `is_finite` tells whether the result is a finite number for every
    finite argument.

    In generated code a library calls the function by `name`, or else by its word in `words`; a word
    without a dot is a function that modules bring along. `local` is the name of its result there.
    `conventions` are its values and slopes at edges, such as 0 and infinity.
    """

    name: str
    gradient: Callable[[Expr, Expr], Expr] | None
    number: Callable[[float], float] | None
    is_finite: bool = True
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    local: str = ""
    conventions: tuple[Convention, ...] = ()

    def __call__(self, x: Expr) -> Expr:
        """Apply the function to each element."""
        return unary(self.name, x)

    def word(self, library: str) -> str:
        """Return what a library, such as `np`, calls it."""
        return self.words.get(library, f"{library}.{self.name}")


exp: Final = ElementaryFunction(
    name="exp",
    gradient=lambda y, d: d * y,
    number=lambda x: math.inf if x > _LARGEST_EXPONENT else math.exp(x),
    is_finite=False,
    local="e",
    conventions=(
        at("infinity", "exp overflows to inf and underflows to 0", "exp(x)",
            (1000.0, -1000.0, 1.0), (inf, 0.0, math.e), (inf, 0.0, math.e), "torch.exp(x)"),
        Convention("half type", "float16 ends at 65,504, bfloat16 at 3.4e38", "exp(x)",
            {"x [D]": (12.0, -18.0)}, (inf, 0.0), {"x": (inf, 0.0)}, "torch.exp(x)",
            dtype="float16"),
    ),
)  # fmt: skip

log: Final = ElementaryFunction(
    name="log",
    gradient=lambda y, d: d / y.args[0],
    number=None,
    is_finite=False,
    conventions=(
        at("zero", "log(0) is -inf, with slope inf, and a negative number has no logarithm",
            "log(x)", (0.0, -1.0, 2.0), (-inf, nan, math.log(2)), (inf, -1.0, 0.5), "torch.log(x)"),
    ),
)  # fmt: skip

log1p: Final = ElementaryFunction(
    name="log1p",
    gradient=lambda y, d: d / (1.0 + y.args[0]),
    number=None,
    is_finite=False,
    conventions=(
        at("zero", "log1p(-1) is -inf, with slope inf, and small numbers stay exact", "log1p(x)",
            (-1.0, -2.0, 1e-20), (-inf, nan, 1e-20), (inf, -1.0, 1.0), "torch.log1p(x)"),
    ),
)  # fmt: skip

sqrt: Final = ElementaryFunction(
    name="sqrt",
    gradient=lambda y, d: d / (y * 2.0),
    number=math.sqrt,
    is_finite=False,
    local="root",
    conventions=(
        at("zero", "the slope at 0 is inf, and a negative number has no root", "sqrt(x)",
            (0.0, -1.0, 4.0), (0.0, nan, 2.0), (inf, nan, 0.25), "torch.sqrt(x)"),
    ),
)  # fmt: skip

tanh: Final = ElementaryFunction(
    name="tanh",
    gradient=lambda y, d: d * (1.0 - y**2),
    number=math.tanh,
    local="t",
    conventions=(
        at("infinity", "large numbers do not overflow", "tanh(x)", (1000.0, -inf, 0.0),
            (1.0, -1.0, 0.0), (0.0, 0.0, 1.0), "torch.tanh(x)"),
    ),
)  # fmt: skip

erf: Final = ElementaryFunction(
    name="erf",
    gradient=lambda y, d: d * _TWO_OVER_SQRT_PI * exp(-(y.args[0] ** 2)),
    number=math.erf,
    words={"np": "erf", "jnp": "jax.lax.erf"},
    conventions=(
        at("infinity", "large numbers do not overflow", "erf(x)", (1000.0, -inf, 0.0),
            (1.0, -1.0, 0.0), (0.0, 0.0, 1.1283791670955126), "torch.erf(x)"),
    ),
)  # fmt: skip

sin: Final = ElementaryFunction(
    name="sin",
    gradient=lambda y, d: d * cos(y.args[0]),
    number=math.sin,
    conventions=(
        at("infinity", "infinity has no angle", "sin(x)", (inf, 0.0), (nan, 0.0), (nan, 1.0),
            "torch.sin(x)"),
    ),
)  # fmt: skip

cos: Final = ElementaryFunction(
    name="cos",
    gradient=lambda y, d: -(d * sin(y.args[0])),
    number=math.cos,
    conventions=(
        at("infinity", "infinity has no angle", "cos(x)", (inf, 0.0), (nan, 1.0), (nan, 0.0),
            "torch.cos(x)"),
    ),
)  # fmt: skip

sign: Final = ElementaryFunction(
    name="sign",
    gradient=None,
    number=lambda x: math.nan if math.isnan(x) else float((x > 0) - (x < 0)),
    words={"torch": "sign"},  # torch.sign of NaN is 0
    conventions=(
        at("kink", "the slope is 0 everywhere, and sign(0) is 0", "sign(x)", (-2.0, 0.0, 3.0),
            (-1.0, 0.0, 1.0), (0.0, 0.0, 0.0), "torch.sign(x)"),
        at("infinity", "NaN has no sign", "sign(x)", (nan, -inf), (nan, -1.0), (0.0, 0.0),
            "torch.sign(x)", differs="`torch.sign` gives 0 for NaN, which hides it."),
    ),
)  # fmt: skip

floor: Final = ElementaryFunction(
    name="floor",
    gradient=None,
    number=lambda x: float(math.floor(x)) if math.isfinite(x) else x,
    conventions=(
        at("kink", "the slope is 0 everywhere", "floor(x)", (-1.5, 2.0, 2.7), (-2.0, 2.0, 2.0),
            (0.0, 0.0, 0.0), "torch.floor(x)"),
    ),
)  # fmt: skip

nearest: Final = ElementaryFunction(
    name="round",
    gradient=None,
    number=lambda x: float(round(x)) if math.isfinite(x) else x,
    conventions=(
        at("tie", "halves round to the even number, and the slope is 0 everywhere", "round(x)",
            (0.5, 1.5, -2.5, 2.4), (0.0, 2.0, -2.0, 2.0), (0.0,) * 4, "torch.round(x)"),
    ),
)  # fmt: skip

_RECORDS: Final = (exp, log, log1p, sqrt, tanh, erf, sin, cos, sign, floor, nearest)
FUNCTIONS: Final[Mapping[str, ElementaryFunction]] = MappingProxyType(
    {each.name: each for each in _RECORDS}
)
CONVENTIONS: Final[Mapping[str, tuple[Convention, ...]]] = {
    **FORMULAS,
    **{each.name: each.conventions for each in _RECORDS},
}
STEPS: Final = frozenset(each.name for each in _RECORDS if each.gradient is None)
UNARY: Final = frozenset(FUNCTIONS) | {"neg", "stop"}  # elementwise, of one argument


# Functions that several operators share, each stable for every float: composed of primitives.


def sigmoid(x: Expr) -> Expr:
    """``1 / (1 + exp(-x))``; only the exponential of a negative number is taken."""
    # Not -|x|: that has slope 0 at 0, where both terms below have to take one and the same side.
    positive = (x >= 0.0).named("positive")
    e = exp(where(positive, -x, x)).named("e")
    return where(positive, 1.0, e) / (1.0 + e)


def of_sigmoid(expr: Expr) -> Expr | None:
    """Return the operand of a sigmoid, or None if the expression is not a sigmoid."""
    if expr.prim != "div" or expr.args[0].prim != "where":
        return None
    e, one_and_e = expr.args[0].args[2], expr.args[1]
    if e.prim != "exp" or one_and_e.prim != "add" or all(arg is not e for arg in one_and_e.args):
        return None
    size = e.args[0]
    return size.args[-1] if size.prim == "where" and is_negative_size(size) else None


def is_negative_size(expr: Expr) -> bool:
    """Whether an expression is ``-|x|``, the smaller one of a number and its negative."""
    if expr.prim == "where":
        condition, b, a = expr.args
        return condition.args[0] is a and b.prim == "neg" and b.args[0] is a
    if expr.prim != "minimum":
        return False
    a, b = expr.args
    return (b.prim == "neg" and b.args[0] is a) or (a.prim == "neg" and a.args[0] is b)


def softplus(x: Expr) -> Expr:
    """``log(1 + exp(x))``."""
    # At 0 the first term has slope 1/2, the second 0: the sum has the sigmoid's.
    return maximum(x, 0.0) + log(1.0 + exp(minimum(x, -x)))


def log_one_plus_exp(x: Expr) -> Expr:
    """``log(1 + exp(x))``, also exact for small results."""
    # At 0 the first term has slope 1/2, the second 0: the sum has the sigmoid's.
    return maximum(x, 0.0) + log1p(exp(minimum(x, -x)))


def log_sum_exp(x: Expr, axes: Sequence[int] | int = -1, *, keep: bool = True) -> Expr:
    """Logarithm of the sum of exponentials over axes, for every number and for ±inf."""
    # The largest numbers are shifted to exactly 0: inf - inf would be NaN.
    peak = reduce_max(x, axes).named("peak")
    shifted = where(equal(x, peak), 0.0, x - peak).named("shifted")
    result = peak + log(reduce_sum(exp(shifted), axes))
    gone = {axis % x.rank for axis in ((axes,) if isinstance(axes, int) else axes)}
    shape = tuple(dim for i, dim in enumerate(x.shape) if i not in gone)
    return result if keep else reshape(result, shape)
