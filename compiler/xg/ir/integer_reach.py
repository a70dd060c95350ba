"""How large the integers of an operator can be: what decides the width that they need.

Sizes and ranges bound every integer. A sum or a product of integers stays exact only in a type that
holds it: int64, or int32 in JAX as it is by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.diagnostics.limits import DimSize
from xg.ir.body import Body
from xg.ir.dim import ONE, ZERO, Dim, product
from xg.ir.prim import Expr
from xg.ir.scalar import Scalar
from xg.ir.tensor import TensorType

WIDEST: Final = 2**63 - 1  # of int64
COMPUTED: Final = frozenset({"neg", "add", "sub", "mul", "sum"})


def reaches(body: Body, types: Sequence[TensorType]) -> list[Dim]:
    """Bounds of the magnitudes of all integers that a body computes from others."""
    ranges = {id(e): type_.range for e, type_ in zip(body.operands, types, strict=True)}
    bounds: dict[int, Dim] = {}
    for expr in body.order():
        if expr.kind == "int":
            bounds[id(expr)] = _reach(expr, bounds, ranges)
    computed = [e for e in body.order() if e.kind == "int" and e.prim in COMPUTED]
    return list(dict.fromkeys(bounds[id(expr)] for expr in computed))


def at_most(reach: Dim) -> int:
    """The largest value of a bound, with every size as large as one can be."""
    total = 0
    for monomial, coefficient in reach.terms:
        power = sum(max(each, 0) for _, each in monomial)
        total += -(-coefficient.numerator // coefficient.denominator) * DimSize.maximum**power
    return total


def _reach(expr: Expr, bounds: Mapping[int, Dim], ranges: Mapping[int, Dim | None]) -> Dim:
    known = [bounds[id(arg)] for arg in expr.args if id(arg) in bounds]
    match expr.prim:
        case "operand":
            return _magnitude(ranges.get(id(expr)) or ONE)
        case "const":
            return _magnitude(expr.typed("value", Scalar).as_dim())
        case "iota":
            start, length = expr.typed("start", Dim), expr.typed("length", Dim)
            return _magnitude(start) + _magnitude(length)
        case "mul":
            return product(known)
        case "sum":
            whole = product(expr.args[0].shape[axis] for axis in expr.axes())
            return known[0] * whole
        case "top":
            return expr.args[0].shape[-1]
        case "earlier":
            return expr.shape[-1]
        case _ if known:
            return known[0] if len(known) == 1 else sum(known[1:], known[0])
        case _:
            return ZERO


def _magnitude(dim: Dim) -> Dim:
    """A dim that is no smaller, whatever its sizes: T + S for T - S."""
    return replace(dim, terms=tuple((monomial, abs(number)) for monomial, number in dim.terms))
