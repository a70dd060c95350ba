"""An expression as a factor times a state, plus a summand."""

from __future__ import annotations

from collections.abc import Sequence

from xg.ir.body import topological
from xg.ir.dim import ONE
from xg.ir.prim import Expr, broadcast, const
from xg_kernels.hoist.all_rounds import NotForAllRounds

Linear = tuple[Expr | None, Expr | None]


def linear(whole: Expr, state: Expr) -> Linear:
    """a and b of ``a ⊙ h + b``, None for what is 0; raises NotForAllRounds where there are none."""
    parts: dict[int, Linear] = {id(state): (const(1.0), None)}
    for expr in topological([whole]):
        if id(expr) in parts:
            continue
        args = [parts[id(arg)] for arg in expr.args]
        if all(factor is None for factor, _ in args):
            parts[id(expr)] = (None, expr)
        elif expr.shape != state.shape:
            raise NotForAllRounds
        else:
            parts[id(expr)] = _combined(expr, args)
    return parts[id(whole)]


def _combined(expr: Expr, args: Sequence[Linear]) -> Linear:
    """The a and b of an expression, from those of its arguments."""
    match expr.prim, args:
        case "add", ((a, b), (c, d)):
            return _sum(a, c), _sum(b, d)
        case "sub", ((a, b), (c, d)):
            return _sum(a, -c if c else None), _sum(b, -d if d else None)
        case "neg", ((a, b),):
            return -a if a else None, -b if b else None
        case "mul", ((None, c), (a, b)) | ((a, b), (None, c)) if c and a:
            return (c if _is_one(a) else a * c), b * c if b else None
        case "div", ((a, b), (None, c)) if c and a:
            return a / c, b / c if b else None
        case (("broadcast" | "reshape"), ((a, b),)):  # of the shape of the state: nothing changes
            return a, b
        case _:
            raise NotForAllRounds


def _sum(a: Expr | None, b: Expr | None) -> Expr | None:
    return a + b if a and b else a or b


def _is_one(expr: Expr) -> bool:
    return expr.prim == "const"


def narrow(factor: Expr, rank: int) -> Expr:
    """A factor before it is repeated, with as many axes as the state."""
    while factor.prim == "broadcast":
        factor = factor.args[0]
    return of_rank(factor, rank)


def of_rank(expr: Expr, rank: int) -> Expr:
    """An expression with axes of size 1 in front, up to so many."""
    return broadcast(expr, (*(ONE,) * (rank - expr.rank), *expr.shape))
