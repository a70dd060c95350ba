"""The reference meaning of every primitive, in NumPy.

Slow and plain on purpose: generated code is tested against this, and this against finite
differences and torch. Nothing here is shared with what the NumPy backend writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import topological
from xg.ir.collectives import AROUND, PRIMITIVES, SENDING
from xg.ir.dim import Dim, Scalar
from xg.ir.functions import FUNCTIONS, STEPS
from xg.ir.placement import is_zigzag
from xg.ir.prim import WINDOW_SIZES, Attr, Expr, batch_of, is_absolute
from xg.ir.tensor import Shape
from xg.verify.reference.random import SPREAD, bell, flat, keep_mask, ones
from xg_runtime.module import Array

# The ranks beside one that computes, as the interpreter sees them.


class Mesh(Protocol):
    """The ranks beside this one, by the names of the mesh's axes; axes count from the end.

    It also has a function for each collective, of its operand, the mesh axis and tensor axes.
    """

    def rank(self, over: str) -> int:
        """This rank's place along a mesh axis."""
        ...

    def size(self, over: str) -> int:
        """The number of ranks along it."""
        ...


# The part of an axis that a rank has, and the axis of all parts, in either order of the ranks.


def part_of(whole: Array, rank: int, ranks: int, over: str, axis: int) -> Array:
    """The part of one rank: a chunk, or in zigzag one from each end."""
    if not is_zigzag(over):
        return np.split(whole, ranks, axis)[rank]
    chunks = np.split(whole, 2 * ranks, axis)
    return np.concatenate([chunks[rank], chunks[-1 - rank]], axis)


def whole_of(parts: Sequence[Array], over: str, axis: int) -> Array:
    """Assemble a whole axis from the parts of all ranks."""
    if not is_zigzag(over):
        return np.concatenate(parts, axis)
    halves = [np.split(part, 2, axis) for part in parts]
    return np.concatenate([*(first for first, _ in halves), *(b for _, b in halves[::-1])], axis)


# The reference meaning of windows: element by element, by the position of each.


REMEMBERED: Final = 256  # kinds of windows: a network has few, many times over


class KnownSizes(Protocol):
    """The numbers of sizes."""

    def size(self, dim: Attr) -> int:
        """The number of a size."""
        ...

    def shape(self, shape: Shape) -> tuple[int, ...]:
        """The numbers of a shape."""
        ...


def window(expr: Expr, numbers: KnownSizes, x: Array) -> Array:
    """Each position's neighborhood, 0 beyond the ends."""
    axis = expr.typed_attr("axis", int)
    positions = _positions(expr, numbers)
    one = [1 if i == axis % x.ndim else length for i, length in enumerate(x.shape)]
    beyond = np.zeros(one, x.dtype)
    return np.concatenate((x, beyond), axis).take(positions, axis)


def overlap(expr: Expr, numbers: KnownSizes, windows: Array) -> Array:
    """The sum of windows where they lie over each other."""
    axis = expr.typed_attr("axis", int)
    result = np.zeros(numbers.shape(expr.shape), dtype=windows.dtype)
    to, source = np.moveaxis(result, axis, 0), np.moveaxis(windows, (axis - 1, axis), (0, 1))
    for (j, i), position in np.ndenumerate(_positions(expr, numbers)):
        if position < len(to):
            to[position] += source[j, i]
    return result


def _positions(expr: Expr, numbers: KnownSizes) -> Array:
    """The position of each element (window, then element); the first beyond the axis for none."""
    return _window_positions(*(numbers.size(expr.attr(name)) for name in WINDOW_SIZES))


@lru_cache(REMEMBERED)
def _window_positions(
    length: int, count: int, width: int, stride: int, dilation: int, before: int
) -> Array:
    found = np.array(
        [[j * stride + i * dilation - before for i in range(width)] for j in range(count)],
        dtype=int,
    ).reshape(count, width)
    found[(found < 0) | (found >= length)] = length
    found.flags.writeable = False  # it is the same array each time
    return found


# The reference meaning of what reads, writes, ranks and counts by ids.


def gather(expr: Expr, numbers: KnownSizes, table: Array, ids: Array) -> Array:
    """Rows by their ids, of each table by its own."""
    batch = batch_of(expr)
    return table[_index(_inside(ids, table.shape[batch]), batch)]


def scatter_add(expr: Expr, numbers: KnownSizes, updates: Array, ids: Array) -> Array:
    """Rows summed by their ids, into each table by its own."""
    result = np.zeros(numbers.shape(expr.shape), dtype=updates.dtype)
    np.add.at(result, _index(ids, batch_of(expr)), updates)
    return result


def pick(expr: Expr, numbers: KnownSizes, x: Array, ids: Array) -> Array:
    """One element of each row."""
    return np.take_along_axis(x, _inside(ids, x.shape[-1])[..., None], axis=-1)[..., 0]


def place(expr: Expr, numbers: KnownSizes, values: Array, ids: Array) -> Array:
    """Zeros with one value in each row."""
    result = np.zeros(numbers.shape(expr.shape), dtype=values.dtype)
    np.put_along_axis(result, ids[..., None], values[..., None], axis=-1)
    return result


def top(expr: Expr, numbers: KnownSizes, x: Array) -> Array:
    """Where the largest are, row by row, NaN first; sorting keeps the order of equal ones."""
    result = np.zeros(numbers.shape(expr.shape), dtype=np.int64)
    for row in np.ndindex(x.shape[:-1]):
        order = sorted(range(x.shape[-1]), key=lambda i: (x[row][i] == x[row][i], -x[row][i]))
        result[row] = order[: result.shape[-1]]
    return result


def earlier(expr: Expr, numbers: KnownSizes, ids: Array) -> Array:
    """How many equal ones are before each, counted one by one."""
    result = np.zeros_like(ids)
    for row in np.ndindex(ids.shape[:-1]):
        seen: dict[int, int] = {}
        for i, value in enumerate(ids[row].tolist()):
            result[row][i] = seen.get(value, 0)
            seen[value] = seen.get(value, 0) + 1
    return result


def _inside(ids: Array, length: int) -> Array:
    """The ids, refused if one is out of range: NumPy would count a negative one from the end."""
    if ids.size and not 0 <= ids.min() <= ids.max() < length:
        raise IndexError(f"ids from {ids.min()} to {ids.max()} do not index {length} rows")
    return ids


def _index(ids: Array, batch: int) -> tuple[Array, ...]:
    """An index for every axis up to the one that ids point along."""
    axes = np.meshgrid(*map(np.arange, ids.shape), indexing="ij", sparse=True)
    return (*axes[:batch], ids)


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
    """The values at which gradients end, and what was chosen, in the order of one run.

    Differences of a function with respect to its inputs take them as constants: a run that is
    given those of another one (`replayed`) passes them on instead of its own. It also chooses as
    that one did, and equal operands of a maximum share as the conventions say. So a tie that no
    inputs avoid, as in max(x, stop(x)), has the one slope that its gradient must have.

    `ties` collects the steps, noted as `step`, whose equal operands a replay moves apart.
    """

    values: list[Array] = field(default_factory=list[Array])
    place: int | None = None  # of the next one in a replay
    ties: dict[object, None] = field(default_factory=dict[object, None])
    step: object = None

    def replayed(self) -> Stopped:
        """The same values, for one more run."""
        return Stopped(self.values, 0, self.ties)

    def take(self, x: Array) -> Array:
        """Note a value, or give the one that takes its place."""
        if self.place is None:
            self.values.append(x)
            return x
        self.place += 1
        return self.values[self.place - 1]

    def note_tie(self, *, apart: bool) -> None:
        """Note that equal operands of the current step have moved apart."""
        if apart:
            self.ties[self.step] = None


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
    return _stop(expr, context, top(expr, context, x))


def _step(function: Callable[..., Array]) -> Meaning:
    """Hold a step function or a comparison where gradients end: it has no derivative."""

    def meaning(expr: Expr, context: Context, *args: Array) -> Array:
        return _stop(expr, context, function(*args))

    return meaning


def flat_at(kinks: Sequence[float], stopped: Stopped, x: Array, y: Array) -> Array:
    """Hold the results of an operator at the numbers where its own gradient is 0."""
    at, held = stopped.take(np.isin(x, kinks)), stopped.take(y)
    stopped.note_tie(apart=bool(np.any(at & (y != held))))
    return np.where(at, held, y)


def _cumsum(expr: Expr, context: Context, x: Array) -> Array:
    axis = expr.typed_attr("axis", int)
    if expr.attr("backwards"):
        return np.flip(np.cumsum(np.flip(x, axis), axis), axis)
    return np.cumsum(x, axis)


def _const(expr: Expr, context: Context) -> Array:
    number = context.number(expr.attr("value"))
    return np.asarray(number, dtype=np.int64 if expr.kind == "int" else context.dtype)


def _iota(expr: Expr, context: Context) -> Array:
    start = context.size(expr.attr("start"))
    return np.arange(start, start + context.size(expr.attr("length")))


def _extreme(function: Callable[..., Array], sign: int) -> Meaning:
    """Return the larger or the smaller operand; one that is chosen stays where gradients end."""

    def meaning(expr: Expr, context: Context, a: Array, b: Array) -> Array:
        stopped = context.stopped
        if stopped is not None and expr.kind == "float":
            a_first = np.greater(a, b).astype(np.int8) - np.greater(b, a)
            order = stopped.take(sign * a_first)
            stopped.note_tie(apart=bool(np.any((order == 0) & (a_first != 0))))
            a, b = np.where(order < 0, b, a), np.where(order > 0, a, b)
            return np.where(order == 0, a / 2 + b / 2, a)
        # NumPy may choose either zero of two, but |x| is never -0.
        return np.abs(a) if is_absolute(expr) else function(a, b)

    return meaning


def _largest(expr: Expr, context: Context, x: Array) -> Array:
    """Return the maximum over axes; elements that hold it share it where gradients end."""
    axes = expr.axes()
    y: Array = np.max(x, axis=axes, keepdims=True)
    if context.stopped is not None and expr.kind == "float":
        hit = context.stopped.take(x == y)
        count = hit.sum(axis=axes, keepdims=True)
        context.stopped.note_tie(apart=bool(np.any(hit & (count > 1) & (x != y))))
        # A NaN equals no maximum.
        shares = np.sum(np.where(hit, x / np.maximum(count, 1), 0.0), axis=axes, keepdims=True)
        y = np.where(count > 0, shares, y)
    return np.asarray(y if expr.attr("keep") else np.squeeze(y, axes))


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
    return np.concatenate(parts, axis=expr.typed_attr("axis", int))


def _stretch(expr: Expr, context: Context, length: int) -> tuple[Any, ...]:
    start = context.size(expr.attr("start"))
    index: list[Any] = [slice(None)] * expr.rank
    index[expr.typed_attr("axis", int)] = slice(start, start + length)
    return tuple(index)


def _cut(expr: Expr, context: Context, x: Array) -> Array:
    return x[_stretch(expr, context, context.size(expr.shape[expr.typed_attr("axis", int)]))]


def _pad(expr: Expr, context: Context, x: Array) -> Array:
    result = np.zeros(context.shape(expr.shape), dtype=x.dtype)
    result[_stretch(expr, context, x.shape[expr.typed_attr("axis", int)])] = x
    return result


def _dropout_keep(expr: Expr, context: Context, x: Array) -> Array:
    """Draw the mask of the whole tensor, and return this rank's part."""
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


def _exchange(expr: Expr, context: Context, x: Array) -> Array:
    """Ask the mesh for the result of a collective, which it has under the primitive's name."""
    axes = (expr.typed_attr(name, int) for name in PRIMITIVES[expr.prim].axes)
    return getattr(context.ranks(), expr.prim)(x, _over(expr), *axes)


def _part(x: Array, mesh: Mesh, over: str, axis: int) -> Array:
    return part_of(x, mesh.rank(over), mesh.size(over), over, axis)


def _shard_slice(expr: Expr, context: Context, x: Array) -> Array:
    return _part(x, context.ranks(), _over(expr), expr.typed_attr("axis", int))


def _pad_from_shard(expr: Expr, context: Context, x: Array) -> Array:
    mesh, over = context.ranks(), _over(expr)
    parts = [np.zeros_like(x) for _ in range(mesh.size(over))]
    parts[mesh.rank(over)] = x
    return whole_of(parts, over, expr.typed_attr("axis", int))


def _first_rank_only(expr: Expr, context: Context, x: Array) -> Array:
    return x if context.ranks().rank(_over(expr)) == 0 else np.zeros_like(x)


def _to_local_index(expr: Expr, context: Context, ids: Array) -> Array:
    """At which of this rank's rows ids point; 0 where that is not among them."""
    rows = _rows_of_rank(expr, context)
    return np.where(np.isin(ids, rows), np.searchsorted(rows, ids), 0)


def _owns_index(expr: Expr, context: Context, ids: Array) -> Array:
    return np.isin(ids, _rows_of_rank(expr, context))


def _rows_of_rank(expr: Expr, context: Context) -> Array:
    """Return the table rows that this rank holds; every rank holds equally many."""
    mesh, over = context.ranks(), _over(expr)
    return _part(np.arange(context.size(expr.attr("rows")) * mesh.size(over)), mesh, over, 0)


def _plain(function: Callable[..., Array]) -> Meaning:
    """The meaning of a primitive that asks for nothing but its arguments."""

    def meaning(expr: Expr, context: Context, *args: Array) -> Array:
        return function(*args)

    return meaning


def _function(name: str) -> Callable[[Array], Array]:
    """Return NumPy's function of a name; where it has none, apply that of Python floats to each."""
    if hasattr(np, name):
        return getattr(np, name)
    number = FUNCTIONS[name].number
    assert number, f"NumPy has no {name}, so its record needs a number"
    each = np.vectorize(number, otypes=[np.float64])
    return lambda x: each(x).astype(x.dtype)


MEANING: Final[Mapping[str, Meaning]] = {
    "const": _const,
    "iota": _iota,
    "neg": _plain(np.negative),
    **{name: _plain(_function(name)) for name in FUNCTIONS},
    **{name: _step(_function(name)) for name in STEPS},
    "stop": _stop,
    "add": _plain(np.add),
    "sub": _plain(np.subtract),
    "mul": _plain(np.multiply),
    "div": _plain(np.divide),
    "pow": _pow,
    "maximum": _extreme(np.maximum, 1),
    "minimum": _extreme(np.minimum, -1),
    "gt": _step(np.greater),
    "ge": _step(np.greater_equal),
    "and": _plain(np.logical_and),
    "or": _plain(np.logical_or),
    "eq": _step(np.equal),
    "where": _plain(np.where),
    "as_float": _as_float,
    "sum": _reduce(np.sum),
    "mean": _reduce(np.mean),
    "max": _largest,
    "cumsum": _cumsum,
    "contract": _contract,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "concat": _concat,
    "cut": _cut,
    "pad": _pad,
    "window": window,
    "overlap": overlap,
    "gather": gather,
    "scatter_add": scatter_add,
    "pick": pick,
    "place": place,
    "top": _top,
    "earlier": earlier,
    "dropout_keep": _dropout_keep,
    "dropout_apply": _dropout_apply,
    "draw": _draw,
    **dict.fromkeys(sorted(SENDING), _exchange),
    **dict.fromkeys(sorted(AROUND), _plain(np.asarray)),
    "shard_slice": _shard_slice,
    "pad_from_shard": _pad_from_shard,
    "first_rank_only": _first_rank_only,
    "owns_index": _owns_index,
    "to_local_index": _to_local_index,
}

FLOATS: Final = NumberSystem(MEANING, np.add)
