"""Functions that several operators share, each stable for every float: composed of primitives."""

from __future__ import annotations

from xg.ir.prim import Expr, exp, log, maximum, minimum, where


def sigmoid(x: Expr) -> Expr:
    """``1 / (1 + exp(-x))``; only the exponential of a negative number is taken."""
    # Not -|x|: that has slope 0 at 0, where both terms below have to take one and the same side.
    positive = (x >= 0.0).named("positive")
    e = exp(where(positive, -x, x)).named("e")
    return where(positive, 1.0, e) / (1.0 + e)


def of_sigmoid(expr: Expr) -> Expr | None:
    """The operand of which an expression is the sigmoid; None where it is none."""
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
