"""Define the functions of one number, such as exp and tanh: primitives that work on each element.

A record says all that the compiler and its packages ask of a function. `xg.ir.prim` has the calls,
by the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.prim import Expr, cos, exp, sin

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
    """

    name: str
    gradient: Callable[[Expr, Expr], Expr] | None
    number: Callable[[float], float] | None
    is_finite: bool = True
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    local: str = ""

    def word(self, library: str) -> str:
        """Return what a library, such as `np`, calls it."""
        return self.words.get(library, f"{library}.{self.name}")


_RECORDS: Final = (
    ElementaryFunction(
        name="exp",
        gradient=lambda y, d: d * y,
        number=lambda x: math.inf if x > _LARGEST_EXPONENT else math.exp(x),
        is_finite=False,
        local="e",
    ),
    ElementaryFunction(
        name="log", gradient=lambda y, d: d / y.args[0], number=None, is_finite=False
    ),
    ElementaryFunction(
        name="log1p",
        gradient=lambda y, d: d / (1.0 + y.args[0]),
        number=None,
        is_finite=False,
    ),
    ElementaryFunction(
        name="sqrt",
        gradient=lambda y, d: d / (y * 2.0),
        number=math.sqrt,
        is_finite=False,
        local="root",
    ),
    ElementaryFunction(
        name="tanh", gradient=lambda y, d: d * (1.0 - y * y), number=math.tanh, local="t"
    ),
    ElementaryFunction(
        name="erf",
        gradient=lambda y, d: d * _TWO_OVER_SQRT_PI * exp(-(y.args[0] ** 2)),
        number=math.erf,
        words={"np": "erf", "jnp": "jax.lax.erf"},
    ),
    ElementaryFunction(name="sin", gradient=lambda y, d: d * cos(y.args[0]), number=math.sin),
    ElementaryFunction(name="cos", gradient=lambda y, d: -(d * sin(y.args[0])), number=math.cos),
    ElementaryFunction(
        name="sign",
        gradient=None,
        number=lambda x: math.nan if math.isnan(x) else float((x > 0) - (x < 0)),
        words={"torch": "sign"},  # torch.sign of NaN is 0
    ),
    ElementaryFunction(
        name="floor",
        gradient=None,
        number=lambda x: float(math.floor(x)) if math.isfinite(x) else x,
    ),
    ElementaryFunction(
        name="round",
        gradient=None,
        number=lambda x: float(round(x)) if math.isfinite(x) else x,
    ),
)
FUNCTIONS: Final[Mapping[str, ElementaryFunction]] = MappingProxyType(
    {each.name: each for each in _RECORDS}
)
STEPS: Final = frozenset(each.name for each in _RECORDS if each.gradient is None)
UNARY: Final = frozenset(FUNCTIONS) | {"neg", "stop"}  # elementwise, of one argument
