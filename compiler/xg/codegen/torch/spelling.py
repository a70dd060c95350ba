"""How torch says each primitive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from xg.codegen.emit import array_ops, collectives
from xg.codegen.emit.spelling import Scope, Spell
from xg.codegen.emit.support import SupportFile
from xg.codegen.emit.text import Precedence, Text, call, tuple_of
from xg.ir.prim import Expr

SUPPORT: Final = SupportFile(
    *(str(Path(__file__).with_name(name)) for name in ("ring.py", "support.py"))
)


class TorchSpelling:
    """The backend's words (see `xg.codegen.emit.spelling.Spelling`)."""

    name = "torch"
    seed = "Seed"
    empty = "torch.zeros(0, dtype=torch.float64)"  # as in NumPy
    saved_size = ""
    quiet = ""

    def primitive(self, expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        """The text of one primitive."""
        return WORDS[expr.prim](expr, args, scope)

    def cast(self, text: Text, scope: Scope) -> Text:
        """Integers or float64 as floats of the function's type."""
        source = text.atom.removesuffix(DOUBLE)
        return Text(f"{source}.to({scope.float_type()})")

    def zeros(self, shape: str, scope: Scope, *, whole: bool = False) -> str:
        """Zeros of the function's type, where its tensors are; `whole` ones are integers."""
        if whole:
            return f"torch.zeros({shape}, dtype=torch.int64, device={scope.place()})"
        return f"torch.zeros({shape}, {_made(scope)})"

    def no_room(self, shape: str, scope: Scope) -> str:
        """One zero, repeated."""
        return f"torch.zeros((), {_made(scope)}).expand({shape})"

    def stack(self, rows: str, axis: int) -> str:
        """A list of tensors, stacked along a new axis."""
        return f"torch.stack({rows}, dim={axis})"

    def support(self, function: str) -> str:
        """The source of a support function."""
        return SUPPORT.source(function)


DOUBLE: Final = ".double()"  # whole numbers become float64 as in NumPy, not torch's default


def _made(scope: Scope) -> str:
    """The arguments of a new tensor: its type and its device."""
    return f"dtype={scope.float_type()}, device={scope.place()}"


def _double(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    return Text(f"{args[0].atom}{DOUBLE}")


def _extreme(function: str, bound: str) -> Spell:
    """The larger or smaller of two; beside a number torch has a word of its own."""

    def spell(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        texts = [arg.text for arg in args]
        plain = [array_ops.is_plain(arg) for arg in expr.args]
        if all(plain):
            texts[0] = _tensor(texts[0])
        if any(plain):
            number, other = (1, 0) if plain[1] else (0, 1)
            operand = Text(texts[other]) if all(plain) else args[other]
            return Text(f"{operand.atom}.clamp({bound}={texts[number]})")
        return call(f"torch.{function}", *texts)

    return spell


def _comparison(symbol: str) -> Spell:
    spell = array_ops.sign(symbol, Precedence.COMPARE)

    def of_tensors(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
        plain = all(map(array_ops.is_plain, expr.args))
        return spell(expr, [Text(_tensor(args[0].text)), args[1]] if plain else args, scope)

    return of_tensors


def _where(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    texts = [arg.text for arg in args]
    if expr.kind == "float" and all(map(array_ops.is_plain, expr.args[1:])):
        texts[1] = _tensor(texts[1])
    return call("torch.where", *texts)


def _tensor(number: str) -> str:
    """A number where torch needs a tensor; by itself it would take its own default type."""
    return f"torch.tensor({number}, dtype=torch.float64)"


def _broadcast(expr: Expr, args: Sequence[Text], scope: Scope) -> Text:
    shape = tuple_of(scope.shape(expr.shape))
    if array_ops.is_plain(expr.args[0]):
        whole = f"dtype=torch.int64, device={scope.place()}"
        kind = whole if expr.kind == "int" else _made(scope)
        if args[0].text == "0":
            return Text(f"torch.zeros({shape}, {kind})")
        return call("torch.full", shape, args[0].text, kind)
    return Text(f"{args[0].atom}.expand({', '.join(scope.shape(expr.shape)) or '()'})")


SWAPPED: Final = array_ops.swapped("mT")
WORDS: Final[Mapping[str, Spell]] = {
    **array_ops.ON_ARRAYS,
    **collectives.WORDS,
    "const": array_ops.constant("torch.inf"),
    "iota": array_ops.arange("torch.arange", lambda scope: [f"device={scope.place()}"]),
    **array_ops.elementary("torch"),
    "erf": array_ops.unary("erf", "torch.erf"),
    "sub_at": array_ops.support("sub_at"),
    "stop": array_ops.method("detach"),
    "maximum": array_ops.absolute("torch.abs", _extreme("maximum", "min")),
    "minimum": _extreme("minimum", "max"),
    "gt": _comparison(">"),
    "ge": _comparison(">="),
    "eq": _comparison("=="),
    "where": _where,
    "as_float": _double,
    "sum": array_ops.reduction("sum", "dim", "keepdim"),
    "mean": array_ops.reduction("mean", "dim", "keepdim"),
    "max": array_ops.reduction("amax", "dim", "keepdim"),
    "contract": array_ops.contraction(SWAPPED, 'torch.einsum("{spec}", {a}, {b})'),
    "transpose": array_ops.transposition(SWAPPED, "transpose", "permute"),
    "broadcast": _broadcast,
    "concat": array_ops.concatenation("torch.cat", "dim"),
    "dropout_keep": collectives.keep(lambda text: text.text),
}
