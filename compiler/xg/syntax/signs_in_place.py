"""Remarks about signs and letters of other languages that depend on their place: `x²`, `√x`.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from typing import Final

from xg.diagnostics.source import Span
from xg.syntax.foreign import SPELLED_OUT
from xg.syntax.guards import guard_behind
from xg.syntax.logic import as_expression, expression_around, in_operator
from xg.syntax.spelling import GREEK

_NEAR: Final = 200  # characters at either side of a sign that are looked at, at most
_LOGIC: Final = ("&", "&&", "?", "!", "~", "¬", "∧", "∨", "≠")
_TRANSPOSED: Final = ("ᵀ", "⊤", "'")
_POWERS: Final = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True))
_ATOM: Final = r"[\w.]+(?:\([^()\n]{0,100}\))?"
_COMMANDS: Final = {
    **dict.fromkeys(("cdot", "times", "ast"), "a product is written with `*`"),
    **dict.fromkeys(("to", "rightarrow", "mapsto"), "dataflow is written `->`"),
    **dict.fromkeys(("odot", "circ"), "the elementwise product is written `⊙`, or `*`"),
    "oplus": "an elementwise sum is written `⊕`, or `+`",
    "infty": "write `inf`",
}


def remark(span: Span) -> str:
    """The remark about a sign where it is; nothing where only the sign itself says more."""
    text = span.source.text
    operator = in_operator(text, span.start)
    front = text[max(0, span.start - _NEAR) : span.start].rpartition("\n")[2]
    behind = text[span.end : span.end + _NEAR].partition("\n")[0]
    if span.text == "\\":
        return _command(behind, operator=operator)
    if span.text == "%":
        return "no function takes a remainder" if operator else ""
    if span.text == "∞":
        return "write `inf`"
    if span.text == "√":
        operand = re.match(rf"\(?\s*({_ATOM})", behind)
        return f"write `sqrt({operand[1] if operand else '…'})`" if operator else ""
    if span.text in _TRANSPOSED:
        return _transposed(span.text, front, operator=operator)
    if span.text in _LOGIC:
        return _logic(span, front, behind, operator=operator)
    return _power(span.text, front, operator=operator)


def _logic(span: Span, front: str, behind: str, *, operator: bool) -> str:
    """A condition, in an operator or behind `if`."""
    if not operator:
        guarded = re.search(r"\bif\b(?!.*(?:\bif\b|->|:))", front)
        guard = guard_behind(f"{front[guarded.end() :]}{span.text}{behind}") if guarded else None
        return f"{guard.reason}: write `{guard.meant}`" if guard else ""
    meant = as_expression(expression_around(span.source.text, span.start, span.end))
    if meant is None and span.text == "?":
        return "a choice between two numbers is a function: `select(x > 0, x, 0)`"
    return f"write `{meant}`" if meant else ""


def _transposed(sign: str, front: str, *, operator: bool) -> str:
    """`Wᵀ`, `W^⊤` and `W'` in a chain."""
    matrix = re.search(r"(<[-=]|^)\s*(\w+)\s*\^?\s*$", front)
    if operator or matrix is None or "[" in front:
        return ""
    if sign == "'" and not re.search(r"(?:@|•)\s*<=[^<]*$", front):
        return ""  # it is the prime of a name
    return f"write `T({matrix[2]})`" if matrix[1] else f"write `{matrix[2]} -> T`"


def _power(letters: str, front: str, *, operator: bool) -> str:
    """`x²`."""
    base = re.search(r"(\w+)$", front)
    if base is None or not set(letters) <= _POWERS.keys():
        return ""
    power = "".join(_POWERS[letter] for letter in letters)
    if operator or re.match(r"\s*(?:dim|mesh)\b", front):
        return f"write `{base[1]}^{power}`"
    begun = re.search(r"(<[-=]|^|->|,)\s*\w+$", front)
    if begun is None or "[" in front:
        return ""
    used = f"{base[1]} -> power"
    used = f"({used})" if begun[1][:1] == "<" else used
    return f"define it: `op power(x) = x^{power}`, and write `{used}`"


def _command(behind: str, *, operator: bool) -> str:
    r"""`\gamma`, `\sqrt{x}` and `\frac{a}{b}`, as LaTeX has them."""
    name = re.match(r"[A-Za-z]+", behind)
    if name is None:
        return ""
    if name[0] in GREEK.values() or name[0] in SPELLED_OUT.values():
        return f"write `{name[0]}`: a letter has its name alone"
    parts = re.match(r"(sqrt|frac)\{([^{}]{1,100})\}(?:\{([^{}]{1,100})\})?", behind)
    if parts is None or not operator:
        return _COMMANDS.get(name[0], "")
    if parts[1] == "sqrt":
        return f"write `sqrt({parts[2]})`"
    above, below = (each if each.isalnum() else f"({each})" for each in (parts[2], parts[3] or "…"))
    return f"write `{above}/{below}`"
