"""Floating-point operations, counted from primitives.

A contraction is a multiplication and an addition for each term of its sums (``2 m n k``); a
reduction is one operation for each element that goes in; everything elementwise (exp and sqrt like
a sum) is one for each element that comes out; moving, indexing and repeating elements is none.
Expressions that no tensor goes into are computed once and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xg.ir.body import Body, topological
from xg.ir.collective_prims import AROUND, COLLECTIVES, LOCAL
from xg.ir.dim import ONE, ZERO, Dim, product
from xg.ir.graph import Apply
from xg.ir.mesh_axes import is_zigzag, ranks_over
from xg.ir.prim import ARITHMETIC, COMPARE, RANDOM, UNARY, Expr
from xg.ir.tensor import Shape

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
    return sum((_own(expr) for expr in _counted(outputs)), ZERO)


def flops_of_step(step: Apply, body: Body) -> Dim:
    """Operations of a step on one rank, of several with different amounts on the one with most.

    Keys that go round a ring meet queries in N rounds. Under a causal mask the last rank has work
    in all of them, and the others wait. In zigzag each has it with 3 of the 4 pairs of chunks in
    the round of its own keys, and with 2 in every other round: 2N + 1 of 4N.
    """
    said = (step.origin or step).attrs
    around = str(said.get("around", ""))
    if not is_zigzag(around) or said["mask"] != "causal":
        return flops(body.outputs)
    ranks = ranks_over(around)
    met = (ranks * 2 + 1) / (ranks * 4)
    exprs = list(_counted(body.outputs))
    scores = next(expr.shape[-2:] for expr in exprs if expr.prim == "contract")
    return sum((_own(expr) * (met if _is_of(expr, scores) else ONE) for expr in exprs), ZERO)


def _counted(outputs: Sequence[Expr]) -> Iterator[Expr]:
    """Every expression that a tensor goes into."""
    constant: set[int] = set()
    for expr in topological(outputs):
        if expr.prim == "const" or (expr.args and all(id(arg) in constant for arg in expr.args)):
            constant.add(id(expr))
        else:
            yield expr


def _is_of(expr: Expr, scores: Shape) -> bool:
    """Whether the operations are those of scores: of products in attention all are."""
    each = expr.args[0] if expr.prim in REDUCTIONS else expr
    return expr.prim == "contract" or each.shape[-2:] == scores


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
