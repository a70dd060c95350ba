"""Residues compared in an order drawn at random, for proofs that hold whatever is compared.

Residues have no order that tells anything about the numbers that they stand for: none is between
0 and 1, and 1/2 is larger than most integers. In the order of the residues a clipped number is
always at an end of its range, and its gradient is always zero. So each residue gets a rank by a
random function, few enough that ties are tried too. A claim about all programs that differ in what
is larger is a claim about the one with numbers. Integers keep their order: they are themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from xg.ir.prim import Expr
from xg.verify.reference.evaluate import MEANING, Context, Meaning, NumberSystem
from xg.verify.reference.modular.function_stand_ins import mix
from xg.verify.reference.modular.meanings import modulo
from xg.verify.reference.modular.residues import HIDDEN, Field
from xg_runtime.module import Array

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
