"""How NumPy says each primitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from xg.codegen.emit import array_ops, collectives
from xg.codegen.emit.spelling import Scope, Spell
from xg.codegen.emit.support import SupportFile
from xg.codegen.emit.text import Text
from xg.ir.prim import Expr

SUPPORT: Final = SupportFile(
    *(str(Path(__file__).with_name(name)) for name in ("ring.py", "support.py"))
)


class NumpySpelling:
    """The backend's words (see `xg.codegen.emit.spelling.Spelling`)."""

    name = "numpy"
    seed = "int | None"
    empty = "np.zeros(0)"
    saved_size = ""
    quiet = '@np.errstate(all="ignore")'

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive."""
        return WORDS[expr.prim](expr, args, scope)

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or float64 as floats of the function's type."""
        return Text(f"{text.atom}.astype({scope.float_type()})")

    def zeros(self, shape: str, scope: Scope, *, whole: bool = False) -> str:
        """Zeros of the function's type; `whole` ones are integers."""
        return f"np.zeros({shape}, {'np.int64' if whole else scope.float_type()})"

    def no_room(self, shape: str, scope: Scope) -> str:
        """One zero, repeated."""
        return f"np.broadcast_to(np.zeros((), {scope.float_type()}), {shape})"

    def stack(self, rows: str, axis: int) -> str:
        """A list of arrays, stacked along a new axis."""
        return f"np.stack({rows}, axis={axis})"

    def support(self, function: str) -> str:
        """The source of a support function."""
        return SUPPORT.source(function)


SWAPPED: Final = array_ops.swapped("swapaxes(-1, -2)")
WORDS: Final[Mapping[str, Spell]] = {
    **array_ops.ON_ARRAYS,
    **collectives.WORDS,
    **array_ops.as_numpy("np"),
    "erf": array_ops.unary("erf", "erf"),
    "stop": array_ops.bare,
    "as_float": array_ops.bare,  # the writer casts where the type matters
    "contract": array_ops.contraction(SWAPPED, 'np.einsum("{spec}", {a}, {b}, optimize=True)'),
    "transpose": array_ops.transposition(SWAPPED, "swapaxes", "transpose"),
    "dropout_keep": collectives.keep(lambda text: f"{text.atom}.shape"),
}
