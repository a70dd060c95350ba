"""The initial value of a parameter."""

from __future__ import annotations

from typing import Final

from xg.diagnostics.wording import SLIP, similar
from xg.ir.graph import Start
from xg.passes.resolve.errors import BadArgument, Refused
from xg.passes.resolve.expressions import ExpressionReader
from xg.syntax import ast
from xg.syntax.ast import walk

_NORMAL: Final = ("normal", "randn", "gaussian", "randn_like")


def start(reader: ExpressionReader, expr: ast.Expr) -> Start:
    """The initial value of a parameter: a word, the law that it is drawn from, or a number."""
    match expr:
        case ast.Path(name="ones" | "zeros" as word):
            return word
        case ast.Number(value=0 | 1 as number):
            return "ones" if number else "zeros"
        case ast.Call(
            operator=ast.Name(name="normal"),
            axes=None,
            arguments=(ast.Argument(name=None, value=deviation),),
        ):
            return reader.scalar(deviation)
        case ast.Call(
            operator=ast.Name(name="uniform"),
            axes=None,
            arguments=(
                ast.Argument(name=None, value=low),
                ast.Argument(name=None, value=high),
            ),
        ):
            return reader.scalar(low), reader.scalar(high)
        case ast.Path() | ast.Call(operator=ast.Name(name="normal" | "uniform")) | ast.Array():
            raise Refused(_no_start(expr))
        case _:
            if any(_is_normal(reader, part) for part in walk(expr)):
                raise Refused(_no_start(expr, _drawn(reader, expr)))
            number = reader.scalar(expr)
            return number, number


def _drawn(reader: ExpressionReader, expr: ast.Expr) -> str:
    """The law that a product with a random tensor means, `normal(0.02)` for `0.02*normal`."""
    if not isinstance(expr, ast.Arithmetic) or any(each.sign in "+-" for each in expr.rest):
        return ""
    factors = [("*", expr.first), *((each.sign, each.operand) for each in expr.rest)]
    laws = [
        place
        for place, (sign, each) in enumerate(factors)
        if sign == "*" and _is_normal(reader, each)
    ]
    if len(laws) != 1:
        return ""
    left = [(sign, each) for place, (sign, each) in enumerate(factors) if place != laws[0]]
    law = factors[laws[0]][1]
    if isinstance(law, ast.Call) and law.operator.name == "normal":  # what it has is a deviation
        given = law.arguments[0].value if len(law.arguments) == 1 else None
        if given is None or not isinstance(given, ast.Number | ast.Path):
            return ""
        if given.span.text not in ("1", "1.0"):
            left.append(("*", given))
    left.sort(key=lambda each: each[0] == "/")
    texts = [f"{sign}{_in_product(each)}" for sign, each in left]
    written = "".join(texts)
    return f"normal({written[1:] if written[0] == '*' else f'1{written}'})"


def _is_normal(reader: ExpressionReader, expr: object) -> bool:
    """Whether this is a tensor of normal numbers, as NumPy, torch and JAX call it."""
    if not isinstance(expr, ast.Path | ast.Call):
        return False
    name = expr.operator.name if isinstance(expr, ast.Call) else expr.name
    return name.lower() in _NORMAL and name not in {*reader.dims, *reader.numbers}


def _in_product(expr: ast.Expr) -> str:
    return f"({expr.span.text})" if isinstance(expr, ast.Arithmetic) else expr.span.text


def _no_start(expr: ast.Expr, law: str = "") -> BadArgument:
    written, starts = expr.span.text, "ones, zeros, a number, normal(0.02) or uniform(-0.1, 0.1)"
    slip = similar(written, ("ones", "zeros"), SLIP) if isinstance(expr, ast.Path) else None
    return BadArgument(
        expr.span,
        f"a parameter cannot start as {written}",
        (
            f"the deviation is in parentheses: write `{law}`"
            if law
            else f"it may start as {starts}",
        ),
        meant=law or slip,
    )
