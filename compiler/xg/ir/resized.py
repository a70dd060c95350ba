"""Attributes and expressions in other sizes: those of a caller, or of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.body import topological
from xg.ir.dim import Dim
from xg.ir.prim import Attr, Expr
from xg.ir.scalar import Scalar
from xg.ir.scalar import size as as_size

Change = Callable[[Dim], Dim]


def resized(roots: Sequence[Expr], change: Change) -> tuple[Expr, ...]:
    """Expressions with every size in them changed, sharing kept."""
    made: dict[int, Expr] = {}
    for expr in topological(roots):
        attrs = tuple((key, cast("Attr", attribute(value, change))) for key, value in expr.attrs)
        args = tuple(made[id(arg)] for arg in expr.args)
        shape = tuple(map(change, expr.shape))
        made[id(expr)] = replace(expr, args=args, shape=shape, attrs=attrs)
    return tuple(made[id(root)] for root in roots)


def attribute(value: object, change: Change) -> object:
    """An attribute of an operator with every size in it changed."""
    if isinstance(value, Dim):
        return change(value)
    if isinstance(value, Scalar):
        return _scalar(value, change)
    if isinstance(value, tuple):
        return tuple(attribute(item, change) for item in cast("tuple[object, ...]", value))
    return value


def _scalar(scalar: Scalar, change: Change) -> Scalar:
    """The same object where nothing changes: generated code knows numbers by their identity."""
    if all(change(dim) == dim for dim in scalar.dims()):
        return scalar
    if isinstance(scalar.value, Dim):
        return as_size(change(scalar.value))
    return replace(scalar, args=tuple(_scalar(arg, change) for arg in scalar.args))
