"""Functions that several operators share, each stable for every float: composed of primitives."""

from __future__ import annotations

from xg.ir.prim import Expr, exp, log, maximum, minimum, where


def sigmoid(x: Expr) -> Expr:
    """``1 / (1 + exp(-x))``; only the exponential of a negative number is taken."""
    e = exp(minimum(x, -x)).named("e")
    return where(x >= 0.0, 1.0, e) / (1.0 + e)


def of_sigmoid(expr: Expr) -> Expr | None:
    """The operand of which an expression is the sigmoid; None where it is none."""
    if expr.prim != "div" or expr.args[0].prim != "where":
        return None
    e, one_and_e = expr.args[0].args[2], expr.args[1]
    if e.prim != "exp" or one_and_e.prim != "add" or all(arg is not e for arg in one_and_e.args):
        return None
    return e.args[0].args[0] if is_negative_size(e.args[0]) else None


def is_negative_size(expr: Expr) -> bool:
    """Whether an expression is ``-|x|``, the smaller one of a number and its negative."""
    if expr.prim != "minimum":
        return False
    a, b = expr.args
    return (b.prim == "neg" and b.args[0] is a) or (a.prim == "neg" and a.args[0] is b)


def softplus(x: Expr) -> Expr:
    """``log(1 + exp(x))``."""
    # At 0 the derivatives of both terms choose one side; -x comes first so that it is one side.
    return maximum(x, 0.0) + log(1.0 + exp(minimum(-x, x)))
