"""The reference meaning of every primitive, in NumPy.

Slow and plain on purpose: generated code is tested against this, and this against finite
differences and torch. Nothing here is shared with what the NumPy backend writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import topological
from xg.ir.dim import Dim
from xg.ir.prim import Expr, is_absolute
from xg.ir.scalar import Scalar
from xg.ir.tensor import Shape
from xg.verify.reference import indexing, windows
from xg.verify.reference.chunks import part_of, whole_of
from xg.verify.reference.mesh import Mesh
from xg.verify.reference.random import SPREAD, bell, flat, keep_mask, ones
from xg_runtime.module import Array

Meaning = Callable[..., Array]  # (expr, context, *arguments) -> value


@dataclass(frozen=True, slots=True)
class NumberSystem:
    """An arithmetic: the meaning of every primitive, and how two arrays are summed.

    One that computes whole bodies at once has `compute` in the place of `evaluate`.
    """

    meanings: Mapping[str, Meaning]
    add: Callable[[Array, Array], Array]
    compute: Callable[..., list[Array]] | None = None


@dataclass(slots=True)
class Stopped:
    """The values at which gradients end, in the order of one run.

    Differences of a function with respect to its inputs take them as constants: a run that is
    given those of another one (`replayed`) passes them on instead of its own.
    """

    values: list[Array] = field(default_factory=list[Array])
    place: int | None = None  # of the next one in a replay

    def replayed(self) -> Stopped:
        """The same values, for one more run."""
        return Stopped(self.values, 0)

    def take(self, x: Array) -> Array:
        """Note a value, or give the one that takes its place."""
        if self.place is None:
            self.values.append(x)
            return x
        self.place += 1
        return self.values[self.place - 1]


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a primitive besides its arguments.

    `sizes` numbers the symbols; `key` draws the dropout mask, None turns dropout off; `dtype` is
    that of every float; `arithmetic` says what a float is. `mesh` is the computing rank's, if there
    are several. `stopped` notes or replays the values at which gradients end.
    """

    sizes: Mapping[str, int]
    dtype: type[np.floating[Any]] = np.float64
    key: int | None = None
    arithmetic: NumberSystem = field(default_factory=lambda: FLOATS)
    mesh: Mesh | None = None
    stopped: Stopped | None = None

    def ranks(self) -> Mesh:
        """The mesh of a program of one rank."""
        assert self.mesh is not None, "a rank's program runs on a mesh"
        return self.mesh

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
    outputs: Sequence[Expr],
    operands: Mapping[str, Array],
    context: Context,
    order: Iterable[Expr] | None = None,
) -> list[Array]:
    """The values of `outputs`, given arrays by operand name.

    `order` are all expressions that they need, arguments first, if that is known already.
    """
    meanings = context.arithmetic.meanings
    values: dict[int, Array] = {}
    for expr in order or topological(outputs):
        if expr.prim == "operand":
            values[id(expr)] = operands[str(expr.attr("name"))]
        else:
            args = [values[id(arg)] for arg in expr.args]
            values[id(expr)] = meanings[expr.prim](expr, context, *args)
    return [values[id(output)] for output in outputs]


def _stop(expr: Expr, context: Context, x: Array) -> Array:
    return x if context.stopped is None else context.stopped.take(x)


def _top(expr: Expr, context: Context, x: Array) -> Array:
    """Routes are held where gradients end: they have no derivative."""
    return _stop(expr, context, indexing.top(expr, context, x))


def _const(expr: Expr, context: Context) -> Array:
    number = context.number(expr.attr("value"))
    return np.asarray(number, dtype=np.int64 if expr.kind == "int" else context.dtype)


def _iota(expr: Expr, context: Context) -> Array:
    start = context.size(expr.attr("start"))
    return np.arange(start, start + context.size(expr.attr("length")))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def _maximum(expr: Expr, context: Context, a: Array, b: Array) -> Array:
    """Of the two zeros NumPy gives either, but |x| is never -0."""
    return np.abs(a) if is_absolute(expr) else np.maximum(a, b)


def _pow(expr: Expr, context: Context, x: Array) -> Array:
    return np.asarray(np.power(x, context.number(expr.attr("exponent"))))


def _as_float(expr: Expr, context: Context, x: Array) -> Array:
    return x.astype(context.dtype)


def _reduce(function: Callable[..., Array]) -> Meaning:
    def meaning(expr: Expr, context: Context, x: Array) -> Array:
        return np.asarray(function(x, axis=expr.attr("axes"), keepdims=bool(expr.attr("keep"))))

    return meaning


_LARGE: Final = 4096  # elements from which a matmul of BLAS is worth its preparation


def _contract(expr: Expr, context: Context, a: Array, b: Array) -> Array:
    large = a.size + b.size > _LARGE
    return np.asarray(np.einsum(str(expr.attr("spec")), a, b, optimize=large))


def _reshape(expr: Expr, context: Context, x: Array) -> Array:
    return x.reshape(context.shape(expr.shape))


def _transpose(expr: Expr, context: Context, x: Array) -> Array:
    return np.transpose(x, expr.axes("order"))


def _broadcast(expr: Expr, context: Context, x: Array) -> Array:
    return np.broadcast_to(x, context.shape(expr.shape))


def _concat(expr: Expr, context: Context, *parts: Array) -> Array:
    return np.concatenate(parts, axis=expr.typed("axis", int))


def _stretch(expr: Expr, context: Context, length: int) -> tuple[Any, ...]:
    start = context.size(expr.attr("start"))
    index: list[Any] = [slice(None)] * expr.rank
    index[expr.typed("axis", int)] = slice(start, start + length)
    return tuple(index)


def _cut(expr: Expr, context: Context, x: Array) -> Array:
    return x[_stretch(expr, context, context.size(expr.shape[expr.typed("axis", int)]))]


def _pad(expr: Expr, context: Context, x: Array) -> Array:
    result = np.zeros(context.shape(expr.shape), dtype=x.dtype)
    result[_stretch(expr, context, x.shape[expr.typed("axis", int)])] = x
    return result


def _dropout_keep(expr: Expr, context: Context, x: Array) -> Array:
    """The mask of the whole tensor, of which a rank takes its part."""
    if context.key is None:
        return np.ones(x.shape, dtype=bool)
    cuts: Any = expr.attr("cuts")
    shape = list(x.shape)
    for axis, over in cuts:
        shape[axis] *= context.ranks().size(over)
    mask = keep_mask(context.key, tuple(shape), context.number(expr.attr("p")))
    for axis, over in cuts:
        mask = _part(mask, context.ranks(), over, axis)
    return mask


def _draw(expr: Expr, context: Context, mean: Array) -> Array:
    if context.key is None:
        return mean
    start, steps, length = noise(expr, context, mean)
    return np.asarray(start + steps * length, mean.dtype)


def noise(expr: Expr, context: Context, mean: Array) -> tuple[Array, Array, float]:
    """Draw numbers as whole steps from a start, all of one length."""
    assert context.key is not None
    scale = context.number(expr.attr("scale"))
    match expr.attr("law"):
        case "normal":
            return mean, bell(context.key, mean.shape), scale / SPREAD
        case "uniform":
            return mean, flat(context.key, mean.shape), scale * 2.0**-24
        case _:
            return np.zeros_like(mean), ones(context.key, mean.shape, scale), 1.0


def _dropout_apply(expr: Expr, context: Context, x: Array, keep: Array) -> Array:
    if context.key is None:
        return x
    scale = 1 / (1 - context.number(expr.attr("p"))) if expr.attr("scaled") else 1.0
    return np.where(keep, x * scale, np.zeros((), x.dtype))


# ---- across ranks -------------------------------------------------------------------------------


def _over(expr: Expr) -> str:
    return str(expr.attr("over"))


def _all_reduce(expr: Expr, context: Context, x: Array) -> Array:
    return context.ranks().all_reduce(x, _over(expr))


def _all_reduce_max(expr: Expr, context: Context, x: Array) -> Array:
    return context.ranks().all_reduce_max(x, _over(expr))


def _all_gather(expr: Expr, context: Context, x: Array) -> Array:
    return context.ranks().all_gather(x, _over(expr), expr.typed("axis", int))


def _reduce_scatter(expr: Expr, context: Context, x: Array) -> Array:
    return context.ranks().reduce_scatter(x, _over(expr), expr.typed("axis", int))


def _all_to_all(expr: Expr, context: Context, x: Array) -> Array:
    cut, joined = (int(str(expr.attr(name))) for name in ("cut", "joined"))
    return context.ranks().all_to_all(x, _over(expr), cut, joined)


def _part(x: Array, mesh: Mesh, over: str, axis: int) -> Array:
    return part_of(x, mesh.rank(over), mesh.size(over), over, axis)


def _shard_slice(expr: Expr, context: Context, x: Array) -> Array:
    return _part(x, context.ranks(), _over(expr), expr.typed("axis", int))


def _pad_from_shard(expr: Expr, context: Context, x: Array) -> Array:
    mesh, over = context.ranks(), _over(expr)
    parts = [np.zeros_like(x) for _ in range(mesh.size(over))]
    parts[mesh.rank(over)] = x
    return whole_of(parts, over, expr.typed("axis", int))


def _first_rank_only(expr: Expr, context: Context, x: Array) -> Array:
    return x if context.ranks().rank(_over(expr)) == 0 else np.zeros_like(x)


def _to_local_index(expr: Expr, context: Context, ids: Array) -> Array:
    """At which of this rank's rows ids point; 0 where that is not among them."""
    rows = _rows_of_rank(expr, context)
    return np.where(np.isin(ids, rows), np.searchsorted(rows, ids), 0)


def _owns_index(expr: Expr, context: Context, ids: Array) -> Array:
    return np.isin(ids, _rows_of_rank(expr, context))


def _rows_of_rank(expr: Expr, context: Context) -> Array:
    """The rows that a rank has of a table, of which each has as many."""
    mesh, over = context.ranks(), _over(expr)
    return _part(np.arange(context.size(expr.attr("rows")) * mesh.size(over)), mesh, over, 0)


def _plain(function: Callable[..., Array]) -> Meaning:
    """The meaning of a primitive that asks for nothing but its arguments."""

    def meaning(expr: Expr, context: Context, *args: Array) -> Array:
        return function(*args)

    return meaning


MEANING: Final[Mapping[str, Meaning]] = {
    "const": _const,
    "iota": _iota,
    "neg": _plain(np.negative),
    "exp": _plain(np.exp),
    "log": _plain(np.log),
    "sqrt": _plain(np.sqrt),
    "tanh": _plain(np.tanh),
    "erf": _plain(_erf),
    "stop": _stop,
    "sin": _plain(np.sin),
    "cos": _plain(np.cos),
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _plain(np.divide),
    "pow": _pow,
    "maximum": _maximum,
    "minimum": _plain(np.minimum),
    "gt": _plain(np.greater),
    "ge": _plain(np.greater_equal),
    "and": _plain(np.logical_and),
    "or": _plain(np.logical_or),
    "eq": _plain(np.equal),
    "where": _plain(np.where),
    "as_float": _as_float,
    "sum": _reduce(np.sum),
    "mean": _reduce(np.mean),
    "max": _reduce(np.max),
    "contract": _contract,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "concat": _concat,
    "cut": _cut,
    "pad": _pad,
    "window": windows.window,
    "overlap": windows.overlap,
    "gather": indexing.gather,
    "scatter_add": indexing.scatter_add,
    "pick": indexing.pick,
    "place": indexing.place,
    "top": _top,
    "earlier": indexing.earlier,
    "dropout_keep": _dropout_keep,
    "dropout_apply": _dropout_apply,
    "draw": _draw,
    "all_reduce": _all_reduce,
    "all_reduce_max": _all_reduce_max,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "gather_around": _plain(np.asarray),
    "scatter_around": _plain(np.asarray),
    "shard_slice": _shard_slice,
    "pad_from_shard": _pad_from_shard,
    "first_rank_only": _first_rank_only,
    "owns_index": _owns_index,
    "to_local_index": _to_local_index,
}

FLOATS: Final = NumberSystem(MEANING, np.add)
