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
from xg.ir.collectives import OWNERS
from xg.ir.functions import FUNCTIONS
from xg.ir.prim import COMPARE, Expr
from xg.verify.reference.evaluate import MEANING, Context, Meaning, NumberSystem, noise
from xg.verify.reference.modular.residues import (
    HIDDEN,
    MINUS_INFINITY,
    Field,
    Undefined,
    contract,
    finite,
    hides,
)
from xg.verify.reference.random import key as key_of
from xg.verify.reference.random import words
from xg_runtime.module import Array

# Stand-ins for the functions of analysis: one fixed function of residues for each name.
#
# They have none of the properties of exp, log and their like, on purpose: a program that is right
# only by such a property does not pass for the same algebra. A softmax shifted by another maximum
# is another softmax.


# Exponentials are 1 … 2²⁰, so that sums of fewer than 1024 of them are positive, as programs trust.
POSITIVE: Final = 2**20


def mix(field: Field, name: str, x: Array) -> Array:
    """A cubic of the residue whose coefficients are drawn by name."""
    finite(x)
    return _cubic(field, name, x)


def exponential(field: Field, x: Array) -> Array:
    """Positive, and 0 of -inf."""
    is_number = x > HIDDEN
    mixed = _cubic(field, "exp", np.where(is_number, x, 0))
    return np.where(is_number, (mixed & (POSITIVE - 1)) + 1, 0)


def _cubic(field: Field, name: str, x: Array) -> Array:
    linear, constant = _coefficients(field.prime, name)
    square = (x % field.prime) ** 2 % field.prime
    return field.wrap((square + linear) % field.prime * x + constant)


@lru_cache(maxsize=1024)
def _coefficients(prime: int, name: str) -> tuple[int, int]:
    linear, constant = words(key_of(prime, name), 2)
    return int(linear) % prime, int(constant) % prime


SAME: Final = (
    *("iota", "stop", "maximum", "minimum", *COMPARE, "where", "max", "reshape", "transpose"),
    *("broadcast", "concat", "cut", "pad", "window", "gather", "pick", "place", "dropout_keep"),
    *("top", "earlier"),
)
# Between ranks: what moves numbers or takes the largest is the same, a sum is one of residues.
SUMMED: Final = tuple(name for name, each in OWNERS.items() if each.sums)
MOVED: Final = tuple(name for name, each in OWNERS.items() if not each.sums)
MIXED: Final = tuple(FUNCTIONS)  # but for `exp`, which has a rule below: its result is positive


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


# Residues compared in an order drawn at random, for proofs that hold whatever is compared.
#
# Residues have no order that tells anything about the numbers that they stand for: none is between
# 0 and 1, and 1/2 is larger than most integers. In the order of the residues a clipped number is
# always at an end of its range, and its gradient is always zero. So each residue gets a rank by a
# random function, few enough that ties are tried too. A claim about all programs that differ in
# what is larger is a claim about the one with numbers. Integers keep their order: they are
# themselves.


RANKS: Final = 16


@lru_cache(maxsize=32)
def modulo_in_random_order(prime: int, seed: int) -> NumberSystem:
    """Return the arithmetic of `modulo`, whose comparisons go by ranks that `seed` draws."""
    field = Field(prime)

    def rank(x: Array) -> Array:
        is_number = x > HIDDEN
        mixed = mix(field, f"order {seed}", np.where(is_number, x, 0))
        return np.where(is_number, (mixed >> 4) % RANKS, -1)  # -inf stays the smallest

    def compared(prim: str) -> Meaning:
        def meaning(expr: Expr, context: Context, *args: Array) -> Array:
            floats = any(arg.kind == "float" for arg in expr.args)
            ranked = map(rank, args) if floats else args
            return MEANING[prim](expr, context, *ranked)

        return meaning

    def chosen(choose: Callable[[Array, Array], Array]) -> Meaning:
        def meaning(expr: Expr, context: Context, a: Array, b: Array) -> Array:
            if expr.kind == "int":
                return MEANING[expr.prim](expr, context, a, b)
            a, b = np.broadcast_arrays(a, b)
            return np.where(choose(rank(a), rank(b)), a, b)

        return meaning

    def largest(expr: Expr, context: Context, x: Array) -> Array:
        if expr.kind == "int":
            return MEANING["max"](expr, context, x)
        axes = expr.axes()
        last = range(x.ndim - len(axes), x.ndim)
        flat = np.moveaxis(x, axes, last)
        flat = flat.reshape(*flat.shape[: x.ndim - len(axes)], -1)
        best = np.argmax(rank(flat), axis=-1)
        found = np.take_along_axis(flat, best[..., None], axis=-1)[..., 0]
        return np.expand_dims(found, axes) if expr.attr("keep") else found

    def top(expr: Expr, context: Context, x: Array) -> Array:
        return MEANING["top"](expr, context, rank(x))

    meanings = {
        **modulo(prime).meanings,
        **{prim: compared(prim) for prim in ("gt", "ge", "eq")},
        "maximum": chosen(np.greater_equal),
        "minimum": chosen(np.less_equal),
        "max": largest,
        "top": top,
    }
    return NumberSystem(meanings, modulo(prime).add)
