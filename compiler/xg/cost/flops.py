"""Floating-point operations, counted from primitives.

A contraction is a multiplication and an addition for each term of its sums (``2 m n k``); a
reduction is one operation for each element that goes in; everything elementwise (exp and sqrt like
a sum) is one for each element that comes out; moving, indexing and repeating elements is none.
Expressions that no tensor goes into are computed once and are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.body import topological
from xg.ir.collective_prims import AROUND, COLLECTIVES, LOCAL
from xg.ir.dim import ZERO, Dim, product
from xg.ir.prim import ARITHMETIC, COMPARE, RANDOM, UNARY, Expr

ELEMENTWISE: Final = (UNARY | ARITHMETIC | COMPARE | {"pow", "where", "dropout_apply"} | RANDOM) - {
    "stop"
}
REDUCTIONS: Final = frozenset({"sum", "mean", "max", "scatter_add", "overlap", "top", "earlier"})
MOVES: Final = frozenset(
    {"operand", "const", "iota", "as_float", "stop", "reshape", "transpose", "broadcast"}
    | {"concat", "cut", "pad", "gather", "pick", "place", "window"}
    | COLLECTIVES
    | AROUND
    | LOCAL
)


def flops(outputs: Sequence[Expr]) -> Dim:
    """Operations that these outputs take, what they share counted once."""
    total = ZERO
    constant: set[int] = set()
    for expr in topological(outputs):
        if expr.prim == "const" or (expr.args and all(id(arg) in constant for arg in expr.args)):
            constant.add(id(expr))
        else:
            total = total + _own(expr)
    return total


def _own(expr: Expr) -> Dim:
    """Operations of one primitive."""
    if expr.prim == "contract":
        return _contraction(expr)
    if expr.prim in REDUCTIONS:
        return product(expr.args[0].shape)
    if expr.prim in ELEMENTWISE:
        return product(expr.shape)
    if expr.prim in MOVES:
        return ZERO
    raise LookupError(f"nobody has said what the primitive {expr.prim} costs")


def _contraction(expr: Expr) -> Dim:
    left, right = str(expr.attr("spec")).split("->")[0].split(",")
    axes = dict(zip(left, expr.args[0].shape, strict=True))
    axes.update(zip(right, expr.args[1].shape, strict=True))
    return product(axes.values()) * 2
