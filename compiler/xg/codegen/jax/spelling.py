"""How JAX says each primitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from xg.codegen.emit import array_ops
from xg.codegen.emit.body import PLAIN
from xg.codegen.emit.spelling import Scope, Spell
from xg.codegen.emit.support import SupportFile
from xg.codegen.emit.text import Text, call, tuple_of
from xg.ir.body import topological
from xg.ir.dim import Dim
from xg.ir.prim import Expr

SUPPORT: Final = SupportFile(str(Path(__file__).with_name("support.py")))
FLOAT: Final = ".astype(float)"  # as wide as JAX is set to


class JaxSpelling:
    """The backend's words (see `xg.codegen.emit.spelling.Spelling`)."""

    name = "jax"
    seed = "Seed"
    empty = "jnp.zeros(0)"
    saved_size = "Size"

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive."""
        return WORDS[expr.prim](expr, args, scope)

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or wide floats as floats of the function's type."""
        source = Text(text.text.removesuffix(FLOAT), text.binding)
        return Text(f"{source.atom}.astype({scope.float_type()})")

    def zeros(self, shape: str, scope: Scope) -> str:
        """Zeros of the function's type."""
        return f"jnp.zeros({shape}, {scope.float_type()})"

    def no_room(self, shape: str, scope: Scope) -> str:
        """Zeros: where they are only read, XLA makes none."""
        return self.zeros(shape, scope)

    def stack(self, rows: str, axis: int) -> str:
        """A list of arrays, stacked along a new axis."""
        return f"jnp.stack({rows}, axis={axis})"

    def support(self, function: str) -> str:
        """The source of a support function."""
        return SUPPORT.source(function)


def _unary(function: str, of_arrays: str) -> Spell:
    """A function of arrays; of plain numbers the one of the standard library."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        plain = all(part.prim in PLAIN for part in topological([expr]))
        return call(f"math.{function}" if plain else of_arrays, args[0].text)

    return spell


def _float(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    return Text(f"{args[0].atom}{FLOAT}")


def _iota(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    start, length = expr.attr("start"), expr.attr("length")
    assert isinstance(start, Dim)
    assert isinstance(length, Dim)
    ends = [length] if start.constant == 0 else [start, start + length]
    return call("jnp.arange", *(scope.size(end).text for end in ends))


def _swapped(text: Text, rank: int) -> Text:
    return Text(f"{text.atom}.T" if rank == 2 else f"{text.atom}.mT")


def _transpose(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    order = expr.attr("order")
    assert isinstance(order, tuple)
    pair = array_ops.moved_axes([int(str(axis)) for axis in order])
    if pair == (-1, -2):
        return _swapped(args[0], len(order))
    if pair:
        return Text(f"{args[0].atom}.swapaxes({pair[0]}, {pair[1]})")
    return Text(f"{args[0].atom}.transpose({', '.join(str(axis) for axis in order)})")


def _broadcast(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    shape = tuple_of(scope.shape(expr.shape)) if expr.shape else "()"
    if expr.args[0].prim == "const":
        if args[0].text == "0":
            return call("jnp.zeros", shape, scope.float_type())
        return call("jnp.full", shape, args[0].text, scope.float_type())
    return call("jnp.broadcast_to", args[0].text, shape)


def _concat(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    parts = "[" + ", ".join(arg.text for arg in args) + "]"
    return call("jnp.concatenate", parts, f"axis={expr.attr('axis')}")


def _gather(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """`take` gives NaN for an id outside; an index would give the nearest row instead."""
    return call("jnp.take", args[0].text, args[1].text, "axis=0")


def _keep(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    p = array_ops.scalar(expr, "p", scope).text
    return call(scope.use("keep_mask"), f"{args[0].atom}.shape", p, "seed", "place")


WORDS: Final[Mapping[str, Spell]] = {
    **array_ops.ARITHMETIC,
    "const": array_ops.constant("jnp.inf"),
    "iota": _iota,
    **{name: _unary(name, f"jnp.{name}") for name in ("exp", "log", "sqrt", "tanh", "sin", "cos")},
    "erf": _unary("erf", "jax.lax.erf"),
    "maximum": array_ops.function("jnp.maximum"),
    "minimum": array_ops.function("jnp.minimum"),
    "where": array_ops.function("jnp.where"),
    "as_float": _float,
    "sum": array_ops.reduction("sum", "axis", "keepdims"),
    "mean": array_ops.reduction("mean", "axis", "keepdims"),
    "max": array_ops.reduction("max", "axis", "keepdims"),
    "contract": array_ops.contraction(_swapped, 'jnp.einsum("{spec}", {a}, {b})'),
    "reshape": array_ops.reshaped,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "concat": _concat,
    "cut": array_ops.cut,
    "pad": array_ops.pad,
    "gather": _gather,
    "scatter_add": array_ops.scatter_add,
    "pick": array_ops.support("pick"),
    "place": array_ops.place,
    "dropout_keep": _keep,
    "dropout_apply": array_ops.drop,
}
