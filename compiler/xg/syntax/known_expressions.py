"""Recognition of formulas of other languages in an operator: `not x > 0`, `exp x`, `sum(D)(x)`.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from xg.diagnostics.source import Span
from xg.syntax import errors
from xg.syntax.formulas import shapes_written
from xg.syntax.logic import as_expression, expression_around
from xg.syntax.stop import NEAR, Repair, Stop

_WORDS: Final = ("and", "or", "not")
_REDUCING: Final = r"(sum|mean|max|min)"
_FUNCTIONS: Final = ("exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "abs", "sigmoid", "stop")
_ATOM: Final = r"[\w.]+(?:\([^()\n]{0,100}\))?"
JOINED: Final = "comparisons are joined by a function"
CHOSEN: Final = "a choice between two numbers is a function"
NEGATED: Final = "a condition is turned round by its comparison"


def _elsewhere(span: Span, reason: str, meant: str) -> Repair:
    return Repair(errors.ShapeElsewhere(span, reason, meant))


def behind_a_sign(stop: Stop) -> Repair | None:
    """`0 ? x`: the sign between two tokens has no meaning, and an error of its own."""
    if stop.previous is None or stop.begins_line or stop.statement is None:
        return None
    between = stop.source.text[stop.previous.end : stop.token.start].strip()
    given_up = stop.statement.type == "OP" or "\\" in between
    return Repair(None) if between and given_up and "\n" not in between else None


def _next_part(stop: Stop) -> Repair | None:
    """`where m = … and s = …`, `where m = … where s = …` and `where m = …; s = …`."""
    front, behind = stop.near
    joins = stop.here.text in ("and", "where", ";", "&", "&&")
    bound = re.match(r"(?:and|where|;|&&?)\s*(\w+\s*=(?!=).*)$", behind)
    if not joins or bound is None or stop.opening or "COMMA" not in stop.expected:
        return None
    if not re.search(r"\bwhere\b.*=", f"{front} "):
        return None
    last = re.search(r"(\w+\s*=[^=]*)$", front)
    meant = f"{last[1].strip() if last else '…'}, {bound[1].strip()}"
    problem = errors.ShapeElsewhere(stop.here, "parts behind `where` have commas between", meant)
    return Repair(problem, ("COMMA",), drop=True)


def _joined(stop: Stop) -> Repair | None:
    """`x > 0 and 1 > x`, `x > 0 || 1 > x` and `not x > 0`, in an expression or in brackets."""
    before = stop.previous
    word = stop.here
    if word.text not in (*_WORDS, "|"):
        if before is None or stop.span(before).text not in _WORDS:
            return None
        word = stop.span(before)
    called = stop.following is not None and stop.following.type == "LPAR"
    if stop.here == word and called and "STAR" not in stop.expected:
        return None  # it is a function
    piece = expression_around(stop.source.text, word.start, word.end)
    meant = as_expression(piece)
    if meant is None or not piece.removeprefix(word.text).strip():
        return None
    insert = ("COMMA",) if stop.opening and word == stop.here else ()
    if word.text in ("and", "or"):
        return Repair(errors.InfixWord(word, meant), insert, drop=bool(insert))
    return _elsewhere(word, NEGATED if word.text == "not" else JOINED, meant)


def _chosen(stop: Stop) -> Repair | None:
    """`x if x > 0 else 0`, also inside of parentheses."""
    if stop.token.type != "IF":
        return None
    meant = as_expression(expression_around(stop.source.text, stop.here.start, stop.here.end))
    return _elsewhere(stop.here, CHOSEN, meant) if meant else None


def _matmul(stop: Stop) -> Repair | None:
    """`x @ w`, where axes have names."""
    front, behind = stop.near
    left, right = re.search(r"(\w+)\s*$", front), re.match(r"[@•]\s*(\w+)", behind)
    if stop.token.type not in ("AT", "MATMUL") or left is None or right is None:
        return None
    begin = stop.statement.start if stop.statement else stop.token.start
    shapes = shapes_written(stop.source.text[begin : min(begin + NEAR, stop.token.start)])
    axis = shapes.get(left[1], "").rpartition(",")[2].strip()
    others = [each.strip() for each in shapes.get(right[1], "").split(",")]
    reason = "an expression knows axes by their names, and sums over those in brackets"
    product = f"({left[1]}*{right[1]})"
    if axis.isidentifier() and axis in others and len(others) > 1:
        return _elsewhere(stop.here, reason, f"sum[{axis}]{product}")
    signature = f"op f({left[1]} [.., D], {right[1]} [D, E])"
    return _elsewhere(stop.here, reason, f"{signature} = sum[D]{product}")


def _reduced(stop: Stop) -> Repair | None:
    """`sum(D)(x)`, `sum_{D}(x)`, `sum[D] x` and `sum_D x`."""
    front, behind = stop.near
    operand = rf"(?:\(([^()\n]{{1,100}})\)|({_ATOM}(?:\s*[*^]\s*{_ATOM}){{0,9}}))"
    before = re.search(rf"\b{_REDUCING}(?:\(([\w, ]+)\)|\[([\w, .]+)\]|_(\w+))\s*$", front)
    taken = re.match(operand, behind)
    if stop.token.type == "LBRACE":
        before = re.search(rf"\b{_REDUCING}_()()()$", front)
        braces = re.match(rf"\{{([\w, ]+)\}}\s*{operand}", behind)
        if before is None or braces is None:
            return None
        axes, inside = braces[1], braces[2] or braces[3]
    elif before is None or taken is None:
        return None
    else:
        axes, inside = before[2] or before[3] or before[4], taken[1] or taken[2]
    reason = "axes that are reduced stand in brackets, what is reduced in parentheses"
    return _elsewhere(stop.here, reason, f"{before[1]}[{axes.strip()}]({inside})")


def _applied(stop: Stop) -> Repair | None:
    """`exp x`."""
    before, behind = stop.previous, stop.near[1]
    if before is None or before.type != "NAME" or stop.token.type not in ("NAME", "NUMBER"):
        return None
    name, operand = stop.span(before).text, re.match(rf"{_ATOM}(?:\^[\w.]+)?", behind)
    if name not in _FUNCTIONS or operand is None or "LPAR" not in stop.expected:
        return None
    reason = "a function has its operand in parentheses"
    return _elsewhere(stop.here, reason, f"{name}({operand[0]})")


_RULES: tuple[Callable[[Stop], Repair | None], ...] = (
    _next_part,
    _joined,
    _chosen,
    _matmul,
    _reduced,
    _applied,
)


def in_expression(stop: Stop) -> Repair | None:
    """A formula of another language behind the head of an operator."""
    if stop.statement is None or stop.statement.type != "OP":
        return None
    return next((found for rule in _RULES if (found := rule(stop)) is not None), None)
