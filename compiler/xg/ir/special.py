"""Functions that several operators share, each stable for every float: composed of primitives."""

from __future__ import annotations

from xg.ir.prim import Expr, exp, log, maximum, minimum, where


def sigmoid(x: Expr) -> Expr:
    """``1 / (1 + exp(-x))``; only the exponential of a negative number is taken."""
    e = exp(minimum(x, -x)).named("e")
    return where(x >= 0.0, 1.0, e) / (1.0 + e)


def softplus(x: Expr) -> Expr:
    """``log(1 + exp(x))``."""
    # At 0 the derivatives of both terms choose one side; -x comes first so that it is one side.
    return maximum(x, 0.0) + log(1.0 + exp(minimum(-x, x)))
