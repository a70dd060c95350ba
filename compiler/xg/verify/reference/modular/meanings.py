"""The meaning of every primitive over the integers modulo a prime; `evaluate` has that of floats.

Primitives that only move numbers, compare them or draw dropout's mask are the same for floats.
Integers stay integers. A maximum is that of the residues' order, so the maximum of parts is that of
the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from math import prod
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.prim import COMPARE, Expr
from xg.verify.reference.evaluate import MEANING, Context, Meaning, NumberSystem, noise
from xg.verify.reference.modular.contraction import contract
from xg.verify.reference.modular.function_stand_ins import exponential, mix
from xg.verify.reference.modular.residues import (
    HIDDEN,
    MINUS_INFINITY,
    Field,
    Undefined,
    finite,
    hides,
)
from xg_runtime.module import Array

SAME: Final = (
    *("iota", "stop", "maximum", "minimum", *COMPARE, "where", "max", "reshape", "transpose"),
    *("broadcast", "concat", "cut", "pad", "window", "gather", "pick", "place", "dropout_keep"),
    *("top", "earlier"),
)
# Between ranks: what moves numbers or takes the largest is the same, a sum is one of residues.
MOVED: Final = (
    "all_reduce_max", "all_gather", "all_to_all", "gather_around", "scatter_around", "shard_slice",
    "pad_from_shard", "first_rank_only", "owns_index", "to_local_index",
)  # fmt: skip
SUMMED: Final = ("all_reduce", "reduce_scatter")
MIXED: Final = ("log", "sqrt", "tanh", "erf", "sin", "cos")


@lru_cache(maxsize=8)
def modulo(prime: int) -> NumberSystem:
    """The arithmetic of residues modulo an odd prime below 2³¹."""
    rules = _ResidueRules(Field(prime))
    same = [name for name in (*SAME, *MOVED) if name in MEANING]
    meanings: dict[str, Meaning] = {name: MEANING[name] for name in same}
    meanings |= {name: rules.summed(MEANING[name]) for name in SUMMED if name in MEANING}
    meanings |= {name: rules.mixed(name) for name in MIXED}
    meanings |= {name: _plain(rule) for name, rule in rules.plain().items()}
    meanings |= rules.asking()
    return NumberSystem(meanings, rules.add)


def _plain(function: Callable[..., Array]) -> Meaning:
    """The meaning of a primitive that asks for nothing but its arguments; integers stay such."""

    def meaning(expr: Expr, context: Context, *args: Array) -> Array:
        return MEANING[expr.prim](expr, context, *args) if expr.kind == "int" else function(*args)

    return meaning


@dataclass(frozen=True, slots=True)
class _ResidueRules:
    """The primitives that differ from those of floats."""

    field: Field

    def plain(self) -> dict[str, Callable[..., Array]]:
        """By the arguments alone."""
        return {
            "neg": self.neg, "add": self.add, "sub": self.sub, "mul": self.mul, "div": self.div,
            "exp": partial(exponential, self.field), "as_float": self.field.wrap,
        }  # fmt: skip

    def asking(self) -> dict[str, Meaning]:
        """By attributes and sizes too."""
        return {
            "const": self.const, "pow": self.pow, "sum": self.sum, "mean": self.mean,
            "contract": self.contract, "scatter_add": self.added("scatter_add"),
            "overlap": self.added("overlap"),
            "dropout_apply": self.dropout_apply, "draw": self.draw,
        }  # fmt: skip

    def mixed(self, name: str) -> Meaning:
        """A function of analysis."""
        return _plain(partial(mix, self.field, name))

    def summed(self, meaning: Meaning) -> Meaning:
        """A sum over ranks, by the way that it sums floats."""

        def total(expr: Expr, context: Context, x: Array) -> Array:
            finite(x)
            return self.field.wrap(meaning(expr, context, x))

        return total

    # ---- elementwise ----------------------------------------------------------------------------

    def neg(self, x: Array) -> Array:
        finite(x)
        return -x

    def add(self, a: Array, b: Array) -> Array:
        return self.field.wrap_sum(a + b)

    def sub(self, a: Array, b: Array) -> Array:
        finite(b)
        return self.field.wrap_sum(a - b)

    def mul(self, a: Array, b: Array) -> Array:
        """Of -inf and a number other than 0, -inf: what masks scores may scale them afterwards."""
        if not hides(a) and not hides(b):
            return self.field.wrap(a * b)
        hidden = (a <= HIDDEN) | (b <= HIDDEN)
        if (hidden & ((a == 0) | (b == 0))).any():
            raise Undefined("-inf times 0")
        product = np.where(a <= HIDDEN, 0, a) * np.where(b <= HIDDEN, 0, b)
        return np.where(hidden, MINUS_INFINITY, self.field.wrap(product))

    def div(self, a: Array, b: Array) -> Array:
        return self.mul(a, self.field.inverse(b))

    def pow(self, expr: Expr, context: Context, x: Array) -> Array:
        """A power, of a whole exponent; a root is a function like others."""
        finite(x)
        exponent = context.number(expr.attr("exponent"))
        if not exponent.is_integer() or abs(exponent) > 64:
            return mix(self.field, f"pow {exponent!r}", x)
        factor = x if exponent >= 0 else self.field.inverse(x)
        power = np.ones_like(x)
        for _ in range(abs(int(exponent))):
            power = self.field.wrap(power * factor)
        return power

    # ---- numbers and sums -----------------------------------------------------------------------

    def const(self, expr: Expr, context: Context) -> Array:
        value = context.number(expr.attr("value"))
        return np.asarray(int(value) if expr.kind == "int" else self.field.number(value))

    def sum(self, expr: Expr, context: Context, x: Array) -> Array:
        if expr.kind == "int" or not hides(x):
            total = MEANING["sum"](expr, context, x)
            return total if expr.kind == "int" else self.field.wrap(total)
        hidden = MEANING["max"](expr, context, x <= HIDDEN)
        shown = MEANING["sum"](expr, context, np.where(x <= HIDDEN, 0, x))
        return np.where(hidden, MINUS_INFINITY, self.field.wrap(shown))

    def mean(self, expr: Expr, context: Context, x: Array) -> Array:
        count = prod(x.shape[axis] for axis in expr.axes())
        return self.div(self.sum(expr, context, x), np.asarray(count))

    def contract(self, expr: Expr, context: Context, a: Array, b: Array) -> Array:
        return contract(self.field, str(expr.attr("spec")), a, b)

    def added(self, prim: str) -> Meaning:
        """A sum of elements at their places, by the way that it sums floats."""

        def total(expr: Expr, context: Context, x: Array, *ids: Array) -> Array:
            finite(x)
            return self.field.wrap(MEANING[prim](expr, context, x, *ids))

        return total

    def dropout_apply(self, expr: Expr, context: Context, x: Array, keep: Array) -> Array:
        if context.key is None:
            return x
        scale = 1 / (1 - context.number(expr.attr("p"))) if expr.attr("scaled") else 1.0
        return np.where(keep, self.mul(x, np.asarray(self.field.number(scale))), 0)

    def draw(self, expr: Expr, context: Context, mean: Array) -> Array:
        """Whole steps, of a length that is a fraction."""
        if context.key is None:
            return mean
        start, steps, length = noise(expr, context, mean)
        return self.add(start, self.field.wrap(steps * self.field.number(length)))
