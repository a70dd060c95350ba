"""How JAX says each primitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from xg.codegen.emit import array_ops, collectives
from xg.codegen.emit.spelling import Scope, Spell
from xg.codegen.emit.support import SupportFile
from xg.codegen.emit.text import Text, call
from xg.ir.prim import Expr, batch_of

SUPPORT: Final = SupportFile(str(Path(__file__).with_name("support.py")))
FLOAT: Final = ".astype(float)"  # as wide as JAX is set to


class JaxSpelling:
    """The backend's words (see `xg.codegen.emit.spelling.Spelling`)."""

    name = "jax"
    seed = "Seed"
    empty = "jnp.zeros(0)"
    saved_size = "Size"
    quiet = ""

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive."""
        return WORDS[expr.prim](expr, args, scope)

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or wide floats as floats of the function's type."""
        source = Text(text.text.removesuffix(FLOAT), text.binding)
        return Text(f"{source.atom}.astype({scope.float_type()})")

    def zeros(self, shape: str, scope: Scope, *, whole: bool = False) -> str:
        """Zeros of the function's type; `whole` ones are integers."""
        return f"jnp.zeros({shape}, {'int' if whole else scope.float_type()})"

    def no_room(self, shape: str, scope: Scope) -> str:
        """Zeros: where they are only read, XLA makes none."""
        return self.zeros(shape, scope)

    def stack(self, rows: str, axis: int) -> str:
        """A list of arrays, stacked along a new axis."""
        return f"jnp.stack({rows}, axis={axis})"

    def support(self, function: str) -> str:
        """The source of a support function."""
        return SUPPORT.source(function)


def _float(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    return Text(f"{args[0].atom}{FLOAT}")


def _gather(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    """Fill in NaN for an id outside: a bare index would give the nearest row instead.

    `jnp.take` does so, too, but gives the shape of its table if that has no rows.
    """
    if batch_of(expr):
        return array_ops.gather(expr, args, scope)
    return call(f"{args[0].atom}.at[{args[1].text}].get", 'mode="fill"')


SWAPPED: Final = array_ops.swapped("mT")
WORDS: Final[Mapping[str, Spell]] = {
    **array_ops.ON_ARRAYS,
    **array_ops.as_numpy("jnp"),
    "erf": array_ops.unary("erf", "jax.lax.erf"),
    "stop": array_ops.function("jax.lax.stop_gradient"),
    "as_float": _float,
    "contract": array_ops.contraction(SWAPPED, 'jnp.einsum("{spec}", {a}, {b})'),
    "transpose": array_ops.transposition(SWAPPED, "swapaxes", "transpose"),
    "gather": _gather,
    "dropout_keep": collectives.keep(lambda text: f"{text.atom}.shape"),
}
