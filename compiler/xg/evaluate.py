"""The reference meaning of every primitive, in NumPy.

Slow and plain on purpose: generated code is tested against this, and this against finite
differences and torch. Nothing here is shared with what the NumPy backend writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from xg.dim import Dim
from xg.prim import Expr, topological
from xg.random import keep_mask
from xg.scalar import Scalar
from xg.tensor import Shape

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Context:
    """What a primitive may ask beside its arguments.

    `sizes` numbers the symbols; `key` draws the dropout mask, None turns dropout off; `dtype` is
    that of every float.
    """

    sizes: Mapping[str, int]
    dtype: type[np.floating[Any]] = np.float64
    key: int | None = None
    keys: dict[int, int] = field(default_factory=dict[int, int])

    def size(self, dim: object) -> int:
        """A size as a number."""
        assert isinstance(dim, Dim)
        return dim.evaluate(self.sizes)

    def shape(self, shape: Shape) -> tuple[int, ...]:
        """A shape as numbers."""
        return tuple(dim.evaluate(self.sizes) for dim in shape)

    def number(self, scalar: object) -> float:
        """A scalar as a number."""
        assert isinstance(scalar, Scalar)
        return scalar.evaluate(self.sizes)


def evaluate(
    outputs: Sequence[Expr], operands: Mapping[str, Array], context: Context
) -> list[Array]:
    """The values of `outputs`, given arrays by operand name."""
    values: dict[int, Array] = {}
    for expr in topological(outputs):
        if expr.prim == "operand":
            values[id(expr)] = operands[str(expr.attr("name"))]
        else:
            args = [values[id(arg)] for arg in expr.args]
            values[id(expr)] = MEANING[expr.prim](expr, context, *args)
    return [values[id(output)] for output in outputs]


Meaning = Callable[..., Array]


def _const(expr: Expr, context: Context) -> Array:
    return np.asarray(context.number(expr.attr("value")), dtype=context.dtype)


def _iota(expr: Expr, context: Context) -> Array:
    start = context.size(expr.attr("start"))
    return np.arange(start, start + context.size(expr.attr("length")))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def _reduce(function: Callable[..., Array]) -> Meaning:
    def meaning(expr: Expr, context: Context, x: Array) -> Array:
        return np.asarray(function(x, axis=expr.attr("axes"), keepdims=bool(expr.attr("keep"))))

    return meaning


def _contract(expr: Expr, context: Context, a: Array, b: Array) -> Array:
    return np.asarray(np.einsum(str(expr.attr("spec")), a, b, optimize=True))


def _window(expr: Expr, context: Context, length: int) -> tuple[Any, ...]:
    axis, start = expr.attr("axis"), context.size(expr.attr("start"))
    assert isinstance(axis, int)
    index: list[Any] = [slice(None)] * expr.rank
    index[axis] = slice(start, start + length)
    return tuple(index)


def _cut(expr: Expr, context: Context, x: Array) -> Array:
    axis = expr.attr("axis")
    assert isinstance(axis, int)
    return x[_window(expr, context, context.size(expr.shape[axis]))]


def _pad(expr: Expr, context: Context, x: Array) -> Array:
    axis = expr.attr("axis")
    assert isinstance(axis, int)
    result = np.zeros(context.shape(expr.shape), dtype=x.dtype)
    result[_window(expr, context, x.shape[axis])] = x
    return result


def _scatter_add(expr: Expr, context: Context, updates: Array, ids: Array) -> Array:
    result = np.zeros(context.shape(expr.shape), dtype=updates.dtype)
    np.add.at(result, ids, updates)
    return result


def _place(expr: Expr, context: Context, values: Array, ids: Array) -> Array:
    result = np.zeros(context.shape(expr.shape), dtype=values.dtype)
    np.put_along_axis(result, ids[..., None], values[..., None], axis=-1)
    return result


def _dropout_keep(expr: Expr, context: Context, x: Array) -> Array:
    if context.key is None:
        return np.ones(x.shape, dtype=bool)
    return keep_mask(context.key, x.shape, context.number(expr.attr("p")))


def _dropout_apply(expr: Expr, context: Context, x: Array, keep: Array) -> Array:
    if context.key is None:
        return x
    scale = 1 / (1 - context.number(expr.attr("p"))) if expr.attr("scaled") else 1.0
    return np.where(keep, x * scale, np.zeros((), x.dtype))


def _elementwise(function: Callable[..., Array]) -> Meaning:
    return lambda expr, context, *args: function(*args)


MEANING: Final[Mapping[str, Meaning]] = {
    "const": _const,
    "iota": _iota,
    "neg": _elementwise(np.negative),
    "exp": _elementwise(np.exp),
    "log": _elementwise(np.log),
    "sqrt": _elementwise(np.sqrt),
    "tanh": _elementwise(np.tanh),
    "erf": _elementwise(_erf),
    "sin": _elementwise(np.sin),
    "cos": _elementwise(np.cos),
    "add": _elementwise(np.add),
    "sub": _elementwise(np.subtract),
    "mul": _elementwise(np.multiply),
    "div": _elementwise(np.divide),
    "pow": lambda expr, context, x: np.power(x, context.number(expr.attr("exponent"))),
    "maximum": _elementwise(np.maximum),
    "minimum": _elementwise(np.minimum),
    "gt": _elementwise(np.greater),
    "ge": _elementwise(np.greater_equal),
    "eq": _elementwise(np.equal),
    "where": _elementwise(np.where),
    "stop_gradient": _elementwise(lambda x: x),
    "sum": _reduce(np.sum),
    "mean": _reduce(np.mean),
    "max": _reduce(np.max),
    "contract": _contract,
    "reshape": lambda expr, context, x: x.reshape(context.shape(expr.shape)),
    "transpose": lambda expr, context, x: np.transpose(x, expr.attr("order")),
    "broadcast": lambda expr, context, x: np.broadcast_to(x, context.shape(expr.shape)),
    "concat": lambda expr, context, *xs: np.concatenate(xs, axis=expr.attr("axis")),
    "cut": _cut,
    "pad": _pad,
    "gather": _elementwise(lambda table, ids: table[ids]),
    "scatter_add": _scatter_add,
    "pick": _elementwise(lambda x, ids: np.take_along_axis(x, ids[..., None], axis=-1)[..., 0]),
    "place": _place,
    "dropout_keep": _dropout_keep,
    "dropout_apply": _dropout_apply,
}
