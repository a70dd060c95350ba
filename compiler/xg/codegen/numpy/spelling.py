"""How NumPy says each primitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from xg.codegen.emit import array_ops, collectives
from xg.codegen.emit.body import PLAIN
from xg.codegen.emit.spelling import Scope, Spell
from xg.codegen.emit.support import SupportFile
from xg.codegen.emit.text import Text, call, tuple_of
from xg.ir.body import topological
from xg.ir.dim import Dim
from xg.ir.prim import Expr

SUPPORT: Final = SupportFile(str(Path(__file__).with_name("support.py")))


class NumpySpelling:
    """The backend's words (see `xg.codegen.emit.spelling.Spelling`)."""

    name = "numpy"
    seed = "int | None"
    empty = "np.zeros(0)"
    saved_size = ""

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive."""
        return WORDS[expr.prim](expr, args, scope)

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or float64 as floats of the function's type."""
        return Text(f"{text.atom}.astype({scope.float_type()})")

    def zeros(self, shape: str, scope: Scope) -> str:
        """Zeros of the function's type."""
        return f"np.zeros({shape}, {scope.float_type()})"

    def no_room(self, shape: str, scope: Scope) -> str:
        """One zero, repeated."""
        return f"np.broadcast_to(np.zeros((), {scope.float_type()}), {shape})"

    def stack(self, rows: str, axis: int) -> str:
        """A list of arrays, stacked along a new axis."""
        return f"np.stack({rows}, axis={axis})"

    def support(self, function: str) -> str:
        """The source of a support function."""
        return SUPPORT.source(function)


def _unary(function: str) -> Spell:
    """A function of arrays; of plain numbers the one of the standard library."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        if all(part.prim in PLAIN for part in topological([expr])):
            return call(f"math.{function}", args[0].text)
        return call(scope.use("erf") if function == "erf" else f"np.{function}", args[0].text)

    return spell


def _iota(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    start, length = expr.attr("start"), expr.attr("length")
    assert isinstance(start, Dim)
    assert isinstance(length, Dim)
    if start.constant == 0:
        return call("np.arange", scope.size(length).text)
    return call("np.arange", scope.size(start).text, scope.size(start + length).text)


def _swapped(text: Text, rank: int) -> Text:
    return Text(f"{text.atom}.T" if rank == 2 else f"{text.atom}.swapaxes(-1, -2)")


def _transpose(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    order = expr.attr("order")
    assert isinstance(order, tuple)
    pair = array_ops.moved_axes([int(str(axis)) for axis in order])
    if len(order) == 2:
        return Text(f"{args[0].atom}.T")
    if pair:
        return Text(f"{args[0].atom}.swapaxes({pair[0]}, {pair[1]})")
    return Text(f"{args[0].atom}.transpose({', '.join(str(axis) for axis in order)})")


def _broadcast(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    shape = tuple_of(scope.shape(expr.shape)) if expr.shape else "()"
    if expr.args[0].prim == "const":
        if args[0].text == "0":
            return call("np.zeros", shape, scope.float_type())
        return call("np.full", shape, args[0].text, scope.float_type())
    return call("np.broadcast_to", args[0].text, shape)


def _concat(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    parts = "[" + ", ".join(arg.text for arg in args) + "]"
    return call("np.concatenate", parts, f"axis={expr.attr('axis')}")


def _keep(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    p = array_ops.scalar(expr, "p", scope).text
    cuts = collectives.places_of(expr.attr("cuts"))
    if cuts:
        return call(scope.use("keep_part"), f"{args[0].atom}.shape", p, "seed", "place", cuts)
    return call(scope.use("keep_mask"), f"{args[0].atom}.shape", p, "seed", "place")


WORDS: Final[Mapping[str, Spell]] = {
    **array_ops.ARITHMETIC,
    **collectives.WORDS,
    "const": array_ops.constant("np.inf"),
    "iota": _iota,
    "exp": _unary("exp"),
    "log": _unary("log"),
    "sqrt": _unary("sqrt"),
    "tanh": _unary("tanh"),
    "erf": _unary("erf"),
    "sin": _unary("sin"),
    "cos": _unary("cos"),
    "maximum": array_ops.function("np.maximum"),
    "minimum": array_ops.function("np.minimum"),
    "where": array_ops.function("np.where"),
    "as_float": array_ops.bare,  # the writer casts where the type matters
    "sum": array_ops.reduction("sum", "axis", "keepdims"),
    "mean": array_ops.reduction("mean", "axis", "keepdims"),
    "max": array_ops.reduction("max", "axis", "keepdims"),
    "contract": array_ops.contraction(_swapped, 'np.einsum("{spec}", {a}, {b}, optimize=True)'),
    "reshape": array_ops.reshaped,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "concat": _concat,
    "cut": array_ops.cut,
    "pad": array_ops.pad,
    "gather": array_ops.gather,
    "scatter_add": array_ops.scatter_add,
    "pick": array_ops.support("pick"),
    "place": array_ops.place,
    "dropout_keep": _keep,
    "dropout_apply": array_ops.drop,
}
