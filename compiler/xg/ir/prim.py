"""Define the primitives: the thirty-odd operations that every operator is made of.

An operator's body is an `Expr`, a directed acyclic graph of primitives whose shapes are known
symbolically. Four tables define a primitive, one per question: its shape here, its derivative in
`primitive_gradients`, its value in `evaluate`, its text in each backend's spelling.

Elementwise primitives broadcast as NumPy does: trailing axes are aligned, an axis of size 1 is
repeated. Axes are counted from the end (-1 is the last), so one body serves every rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import ONE, ZERO, Dim, Scalar, as_scalar, size
from xg.ir.tensor import Shape, spell_shape

T = TypeVar("T")
Kind = Literal["float", "int", "bool"]
Cuts = tuple[tuple[int, str], ...]  # an axis, and the mesh axis that cuts it; outermost first
Attr = int | str | bool | Dim | Scalar | Shape | tuple[int, ...] | tuple[str, ...] | Cuts | None

ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "maximum", "minimum"})
COMPARE: Final = frozenset({"gt", "ge", "eq", "and", "or"})  # give booleans
RANDOM: Final = frozenset({"dropout_keep", "draw"})  # drawn under a seed and a place
LAWS: Final = frozenset({"normal", "uniform", "bernoulli"})  # of `draw`
WHOLE: Final = frozenset({"add", "sub", "mul", "maximum", "minimum"})  # of integers an integer


class ShapeError(Exception):
    """Operands that do not fit a primitive; operators refuse them earlier, in the user's words."""


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """One application of a primitive. Identity is equality: sharing is what makes it a graph."""

    prim: str
    args: tuple[Expr, ...]
    shape: Shape
    kind: Kind = "float"
    attrs: tuple[tuple[str, Attr], ...] = ()
    name: str | None = None

    def named(self, name: str) -> Expr:
        """The same expression under the name that generated code shall give it.

        An operand keeps its name: it is made elsewhere.
        """
        return self if self.prim == "operand" or self.name == name else replace(self, name=name)

    def attr(self, key: str) -> Attr:
        """One attribute by its name."""
        return dict(self.attrs)[key]

    def typed_attr(self, key: str, kind: type[T]) -> T:
        """Return one attribute, whose type is known."""
        value = self.attr(key)
        assert isinstance(value, kind)
        return value

    def axes(self, key: str = "axes") -> tuple[int, ...]:
        """Axes among the attributes, counted as they are there."""
        value: Any = self.attr(key)
        return value

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __add__(self, other: Operand) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return binary("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return binary("div", other, self)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __pow__(self, exponent: float | Scalar) -> Expr:
        scalar = as_scalar(exponent)
        return Expr("pow", (self,), self.shape, "float", (("exponent", scalar),))

    def __gt__(self, other: Operand) -> Expr:
        return binary("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return binary("ge", self, other)


Operand = Expr | Scalar | Dim | float


# ---- leaves -------------------------------------------------------------------------------------


def operand(name: str, shape: Shape, kind: Kind = "float") -> Expr:
    """A tensor that comes from outside the body."""
    return Expr("operand", (), shape, kind, (("name", name),), name)


def const(value: Operand) -> Expr:
    """A number, as a tensor without axes; an expression stays what it is."""
    if isinstance(value, Expr):
        return value
    scalar = size(value) if isinstance(value, Dim) else as_scalar(value)
    return Expr("const", (), (), "float", (("value", scalar),))


def integer(value: int | Scalar) -> Expr:
    """Make an integer constant, for example an index."""
    return Expr("const", (), (), "int", (("value", as_scalar(value)),))


def iota(length: Dim, start: Dim = ZERO) -> Expr:
    """The integers start … start + length - 1, shape ``[length]``."""
    return Expr("iota", (), (length,), "int", (("length", length), ("start", start)))


# ---- elementwise --------------------------------------------------------------------------------


def unary(prim: str, x: Expr) -> Expr:
    """An elementwise function of `xg.ir.functions`, or neg or stop."""
    return Expr(prim, (x,), x.shape, "int" if prim == "neg" and x.kind == "int" else "float")


def stop(x: Expr) -> Expr:
    """The same numbers, which count as constants in every derivative."""
    return unary("stop", x)


def binary(prim: str, a: Operand, b: Operand) -> Expr:
    """An elementwise function of two; comparisons give booleans, integers stay integers."""
    left, right = const(a), const(b)
    shape = broadcast_shapes(left.shape, right.shape)
    whole = prim in WHOLE and left.kind == right.kind == "int"
    kind: Kind = "bool" if prim in COMPARE else "int" if whole else "float"
    return Expr(prim, (left, right), shape, kind)


def maximum(a: Operand, b: Operand) -> Expr:
    """The larger of two, elementwise."""
    return binary("maximum", a, b)


def is_absolute(expr: Expr) -> bool:
    """Whether an expression is |x|, written as the larger of x and -x."""
    if expr.prim != "maximum":
        return False
    x, other = expr.args
    return other.prim == "neg" and other.args[0] is x


def minimum(a: Operand, b: Operand) -> Expr:
    """The smaller of two, elementwise."""
    return binary("minimum", a, b)


def equal(a: Operand, b: Operand) -> Expr:
    """Elementwise equality, as booleans."""
    return binary("eq", a, b)


def where(condition: Expr, a: Operand, b: Operand) -> Expr:
    """`a` where the condition holds, else `b`; the other value never leaks, not even as NaN."""
    yes, no = const(a), const(b)
    shape = broadcast_shapes(condition.shape, broadcast_shapes(yes.shape, no.shape))
    kind: Kind = "int" if yes.kind == no.kind == "int" else "float"
    return Expr("where", (condition, yes, no), shape, kind)


def as_float(x: Expr) -> Expr:
    """Integers as floats of the program's precision; arithmetic on integers begins with this."""
    return x if x.kind == "float" else Expr("as_float", (x,), x.shape)


# ---- reductions ---------------------------------------------------------------------------------


def reduce(prim: str, x: Expr, axes: Sequence[int] | int, *, keep: bool = True) -> Expr:
    """``sum``, ``mean`` or ``max`` over axes (counted from the end); `keep` leaves them as 1."""
    chosen = (axes,) if isinstance(axes, int) else tuple(axes)
    gone = {axis % x.rank for axis in chosen}
    sizes = [ONE if i in gone else dim for i, dim in enumerate(x.shape)]
    shape = tuple(dim for i, dim in enumerate(sizes) if keep or i not in gone)
    kind: Kind = "int" if prim == "sum" and x.kind == "int" else "float"
    return Expr(prim, (x,), shape, kind, (("axes", chosen), ("keep", keep)))


def reduce_sum(x: Expr, axes: Sequence[int] | int = -1, *, keep: bool = True) -> Expr:
    """Sum over axes; of integers, which counts, an integer."""
    return reduce("sum", x, axes, keep=keep)


def reduce_mean(x: Expr, axes: Sequence[int] | int = -1, *, keep: bool = True) -> Expr:
    """Mean over axes."""
    return reduce("mean", x, axes, keep=keep)


def reduce_max(x: Expr, axes: Sequence[int] | int = -1, *, keep: bool = True) -> Expr:
    """Maximum over axes."""
    return reduce("max", x, axes, keep=keep)


def cumsum(x: Expr, axis: int, *, backwards: bool = False) -> Expr:
    """Running sum along an axis; with `backwards`, from its end."""
    return Expr("cumsum", (x,), x.shape, "float", (("axis", axis), ("backwards", backwards)))


def all_axes(x: Expr) -> tuple[int, ...]:
    """Every axis of `x`, counted from the end."""
    return tuple(range(-x.rank, 0))


# ---- contraction --------------------------------------------------------------------------------


def contract(a: Expr, b: Expr, spec: str) -> Expr:
    """Sum of products in index letters, ``"bik,kj->bij"``; every letter is an axis."""
    inputs, output = spec.split("->")
    letters_a, letters_b = inputs.split(",")
    dims: dict[str, Dim] = {}
    for letters, expr in ((letters_a, a), (letters_b, b)):
        if len(letters) != expr.rank:
            raise ShapeError(f"{spec} does not fit {spell_shape(expr.shape)}")
        for letter, dim in zip(letters, expr.shape, strict=True):
            if dims.setdefault(letter, dim) != dim:
                raise ShapeError(f"{letter} is {dims[letter]} and {dim} in {spec}")
    shape = tuple(dims[letter] for letter in output)
    return Expr("contract", (a, b), shape, "float", (("spec", spec),))


# ---- views --------------------------------------------------------------------------------------


def reshape(x: Expr, shape: Shape) -> Expr:
    """The same elements in the same order under another shape."""
    return x if x.shape == shape else Expr("reshape", (x,), shape, x.kind)


def transpose(x: Expr, order: Sequence[int]) -> Expr:
    """Axes in another order: axis i of the result is axis ``order[i]`` of `x`."""
    if tuple(order) == tuple(range(x.rank)):
        return x
    shape = tuple(x.shape[axis] for axis in order)
    return Expr("transpose", (x,), shape, x.kind, (("order", tuple(order)),))


def broadcast(x: Expr, shape: Shape) -> Expr:
    """`x` repeated along new leading axes and axes of size 1."""
    return x if x.shape == shape else Expr("broadcast", (x,), shape, x.kind)


def concat(parts: Sequence[Expr], axis: int) -> Expr:
    """Parts one after the other along an axis counted from the end."""
    shape = list(parts[0].shape)
    shape[axis] = sum((part.shape[axis] for part in parts), ZERO)
    return Expr("concat", tuple(parts), tuple(shape), parts[0].kind, (("axis", axis),))


def cut(x: Expr, axis: int, start: Dim, stop: Dim) -> Expr:
    """Positions start … stop-1 of an axis counted from the end."""
    shape = list(x.shape)
    shape[axis] = stop - start
    attrs = (("axis", axis), ("start", start), ("stop", stop))
    return Expr("cut", (x,), tuple(shape), x.kind, attrs)


def pad(x: Expr, axis: int, start: Dim, length: Dim) -> Expr:
    """Zeros of size `length` along the axis, with `x` from position `start` on."""
    shape = list(x.shape)
    shape[axis] = length
    attrs = (("axis", axis), ("start", start), ("length", length))
    return Expr("pad", (x,), tuple(shape), x.kind, attrs)


# ---- indexing -----------------------------------------------------------------------------------


def gather(table: Expr, ids: Expr, batch: int = 0) -> Expr:
    """Rows of a table: ``[*b, V, ..]`` and ids ``[*b, *i]`` give ``[*b, *i, ..]``.

    The first `batch` axes are those of both: each table has ids of its own.
    """
    if table.shape[:batch] != ids.shape[:batch]:
        raise ShapeError(f"{spell_shape(ids.shape)} has no ids for {spell_shape(table.shape)}")
    shape = (*ids.shape, *table.shape[batch + 1 :])
    return Expr("gather", (table, ids), shape, table.kind, (("batch", batch),) if batch else ())


def scatter_add(updates: Expr, ids: Expr, rows: Dim, batch: int = 0) -> Expr:
    """The transpose of gather: ``[*b, *i, ..]`` summed into ``[*b, rows, ..]`` by their ids."""
    if updates.shape[: ids.rank] != ids.shape:
        raise ShapeError(f"{spell_shape(ids.shape)} has no ids for {spell_shape(updates.shape)}")
    shape = (*ids.shape[:batch], rows, *updates.shape[ids.rank :])
    more = (("batch", batch),) if batch else ()
    return Expr("scatter_add", (updates, ids), shape, "float", (("rows", rows), *more))


def rows_or_zeros(table: Expr, ids: Expr, batch: int = 0) -> Expr:
    """Rows of a table by their ids, and zeros for ids past its end.

    No row of zeros is appended: of a table that is cut by its rows each rank gives a term.
    """
    held, inside = _inside(ids, table.shape[batch])
    found = gather(table, inside, batch)
    return where(_under(held, found), found, 0.0)


def sums_of_rows(updates: Expr, ids: Expr, rows: Dim, batch: int = 0) -> Expr:
    """The transpose of `rows_or_zeros`: updates whose ids are past the end are in no sum."""
    held, inside = _inside(ids, rows)
    return scatter_add(where(_under(held, updates), updates, 0.0), inside, rows, batch)


def _inside(ids: Expr, rows: Dim) -> tuple[Expr, Expr]:
    """Which ids are among `rows` rows, and the ids with 0 for those that are not."""
    held = integer(size(rows)) > ids
    return held, where(held, ids, integer(0))


def _under(mask: Expr, x: Expr) -> Expr:
    """A mask with as many axes as `x`, the last ones of size 1."""
    return reshape(mask, (*mask.shape, *(ONE for _ in range(x.rank - mask.rank))))


def batch_of(expr: Expr) -> int:
    """The number of leading axes that a table and its ids share."""
    return expr.typed_attr("batch", int) if "batch" in dict(expr.attrs) else 0


def pick(x: Expr, ids: Expr) -> Expr:
    """One element per row of the last axis: ``[*b, V]`` and ids ``[*b]`` give ``[*b]``."""
    return Expr("pick", (x, ids), ids.shape)


def place(values: Expr, ids: Expr, length: Dim) -> Expr:
    """The transpose of pick: zeros ``[*b, length]`` with values ``[*b]`` at their ids."""
    return Expr("place", (values, ids), (*ids.shape, length), "float", (("length", length),))


# ---- randomness ---------------------------------------------------------------------------------


def dropout_keep(x: Expr, p: Scalar, cuts: Cuts = ()) -> Expr:
    """Which elements of `x` stay, each with probability 1-p; everything in evaluation mode.

    Where `x` is one rank's part, `cuts` are its cut axes and the mesh axes that cut them.
    """
    return Expr("dropout_keep", (x,), x.shape, "bool", (("p", p), ("cuts", cuts)))


def dropout_apply(x: Expr, keep: Expr, p: Scalar, *, scaled: bool) -> Expr:
    """`x` where it stays, else 0; `scaled` by 1/(1-p) so that the mean stays."""
    return Expr("dropout_apply", (x, keep), x.shape, "float", (("p", p), ("scaled", scaled)))


def draw(mean: Expr, law: str, scale: Scalar) -> Expr:
    """Random numbers of a law in the shape of their mean; the mean itself in evaluation mode.

    `scale` is the deviation of ``normal``, the width of ``uniform``, the p of ``bernoulli``.
    """
    return Expr("draw", (mean,), mean.shape, "float", (("law", law), ("scale", scale)))


# ---- shapes -------------------------------------------------------------------------------------


def broadcast_shapes(left: Shape, right: Shape) -> Shape:
    """The shape of an elementwise result, trailing axes aligned."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    head = longer[: len(longer) - len(shorter)]
    tail: list[Dim] = []
    for a, b in zip(longer[len(head) :], shorter, strict=True):
        if a != b and ONE not in (a, b):
            raise ShapeError(f"{spell_shape(left)} and {spell_shape(right)} do not broadcast")
        tail.append(b if a == ONE else a)
    return (*head, *tail)


# The two primitives of windows: an axis cut into stretches that may overlap, and their sum.


WINDOW_SIZES: Final = ("length", "count", "width", "stride", "dilation", "before")


@dataclass(frozen=True, slots=True)
class Windows:
    """How an axis of some length is cut into windows, which may overlap.

    Element i of window j is position ``j stride + i dilation - before`` of the axis.
    """

    length: Dim
    count: Dim
    width: Dim
    stride: Dim = ONE
    dilation: Dim = ONE
    before: Dim = ZERO

    @classmethod
    def of(cls, expr: Expr) -> Windows:
        """Read the sizes of a window or an overlap."""
        dims = [expr.attr(name) for name in WINDOW_SIZES]
        return cls(*(dim for dim in dims if isinstance(dim, Dim)))

    def attrs(self, axis: int) -> tuple[tuple[str, Attr], ...]:
        """The attributes of the primitives; windows are along `axis`, their number before it."""
        sizes = (self.length, self.count, self.width, self.stride, self.dilation, self.before)
        return (("axis", axis), *zip(WINDOW_SIZES, sizes, strict=True))


def window(x: Expr, axis: int, cut: Windows) -> Expr:
    """Replace each position of an axis by its window, whose elements are a new axis after it.

    Zeros are beyond the ends of `x`. The axis is counted from the end; in the result the new one
    has its place.
    """
    if x.shape[axis] != cut.length:
        raise ShapeError(f"windows of {cut.length} positions, of {spell_shape(x.shape)}")
    front, back = x.shape[:axis], x.shape[axis:][1:]
    return Expr("window", (x,), (*front, cut.count, cut.width, *back), x.kind, cut.attrs(axis))


def overlap(windows: Expr, axis: int, cut: Windows) -> Expr:
    """The transpose of window: the sum of windows where they lie over each other."""
    if windows.shape[: axis + 1 or None][-2:] != (cut.count, cut.width):
        raise ShapeError(f"{cut.count} windows of {cut.width}, of {spell_shape(windows.shape)}")
    front, back = windows.shape[: axis - 1], windows.shape[axis:][1:]
    return Expr("overlap", (windows,), (*front, cut.length, *back), "float", cut.attrs(axis))


# The two primitives of routes: which are the largest, and who came before with the same choice.


def top(x: Expr, count: Dim) -> Expr:
    """Where the `count` largest of the last axis are, the largest first; of equals the first."""
    return Expr("top", (x,), (*x.shape[:-1], count), "int", (("count", count),))


def arg_max(x: Expr, axis: int) -> Expr:
    """Place of the largest number of an axis, which keeps length 1; ties go to the first."""
    gone = axis % x.rank
    last = [*(i for i in range(x.rank) if i != gone), gone]
    back = sorted(range(x.rank), key=lambda i: last[i])
    return transpose(top(transpose(x, last), ONE), back)


def earlier(ids: Expr) -> Expr:
    """How many before it on the last axis are equal to each id."""
    return Expr("earlier", (ids,), ids.shape, "int")
