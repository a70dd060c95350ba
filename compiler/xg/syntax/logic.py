"""Conditions and choices as Python and C write them, as the functions that an expression has.

Imported only when a file has an error.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Final

_LINE: Final = 200  # characters at each side of a sign that are looked at, at most
_ABOVE: Final = 4_000  # characters above a sign that are looked at for a declaration
_OPEN, _CLOSE = "([{", ")]}"
_ASSIGNS: Final = re.compile(r"(?<![=<>!])=(?!=)")
_AS_PYTHON: Final = (
    (re.compile(r"&&?|∧"), " and "),
    (re.compile(r"\|\|?|∨"), " or "),
    (re.compile(r"!(?!=)|~|¬"), " not "),
    (re.compile(r"\^"), "**"),
    (re.compile("≤"), "<="),
    (re.compile("≥"), ">="),
    (re.compile("≠"), "!="),
)
_TURNED: Final[dict[type[ast.cmpop], str]] = {
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Lt: ">",
    ast.LtE: ">=",
}
_OPPOSITE: Final[dict[type[ast.cmpop], str]] = {
    ast.Gt: ">=", ast.GtE: ">", ast.Lt: ">=", ast.LtE: ">"
}  # fmt: skip


class _NoExpression(Exception):
    """A text that Python does not read either."""


def as_expression(text: str) -> str | None:
    """An expression with the functions of the language; None where it is read by no rule of these.

    >>> as_expression("x > 0 ? x : 0.1*x")
    'select(x > 0, x, 0.1*x)'
    >>> as_expression("(x > 1) && (0 > x)")
    'and(x > 1, 0 > x)'
    >>> as_expression("not x > 0")
    '0 >= x'
    """
    if len(text) > _LINE or ("not " in text and re.search(r"[&|~!]", text)):
        return None
    try:
        plain = _chosen(text)
        for pattern, word in _AS_PYTHON:
            plain = pattern.sub(word, plain)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python, about numbers and signs in the text
            tree = ast.parse(plain.strip(), mode="eval").body
        written = _Writer(plain.strip()).written(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, _NoExpression):
        return None
    return re.sub(r"\s*\*\*\s*", "^", written)


def _chosen(text: str) -> str:
    """A text with `A ? B : C` as Python has it, `B if A else C`."""
    mark = next(_outside(text, "?"), None)
    if mark is None:
        return text
    colon = next((place for place in _outside(text, ":") if place > mark), None)
    if colon is None:
        raise _NoExpression
    condition, first = text[:mark].strip(), text[mark + 1 : colon].strip()
    return f"({first}) if ({condition}) else ({_chosen(text[colon + 1 :].strip())})"


def _outside(text: str, sign: str) -> Iterator[int]:
    """The places of a sign outside of brackets."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char in _OPEN) - (char in _CLOSE)
        if char == sign and depth == 0:
            yield place


class _Writer:
    """Writes a tree of Python with the author's own text where nothing is changed."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()

    def written(self, node: ast.expr) -> str:
        """A part of the tree."""
        match node:
            case ast.BoolOp(op=op, values=values):
                name = "and" if isinstance(op, ast.And) else "or"
                return _nested(name, [self.written(value) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._negated(operand)
            case ast.IfExp(test=test, body=body, orelse=other):
                return f"select({', '.join(map(self.written, (test, body, other)))})"
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [self.written(each) for each in (left, *others)]
                pairs = zip(sides, ops, sides[1:], strict=False)
                return _nested("and", [_compared(*pair) for pair in pairs])
            case _:
                return self._as_it_is(node)

    def _negated(self, node: ast.expr) -> str:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPPOSITE:
                first, second = self.written(left), self.written(right)
                if isinstance(op, ast.Gt | ast.GtE):
                    first, second = second, first
                return f"{first} {_OPPOSITE[type(op)]} {second}"
            case _:
                return f"select({self.written(node)}, 0, 1)"

    def _as_it_is(self, node: ast.expr) -> str:
        """The author's text, but for the conditions in it."""
        begin, end = node.col_offset, node.end_col_offset or 0
        done, pieces = begin, list[str]()
        for inner in _conditions(node):
            start, stop = inner.col_offset, inner.end_col_offset or 0
            written = self.written(inner)
            if "(" in written and self._in_own_parentheses(start, stop):
                start, stop = start - 1, stop + 1
            pieces += [self._data[done:start].decode(), written]
            done = stop
        return "".join([*pieces, self._data[done:end].decode()])

    def _in_own_parentheses(self, start: int, stop: int) -> bool:
        """Whether parentheses around a part belong to it, and to no call."""
        around = self._data[start - 1 : start] + self._data[stop : stop + 1]
        before = self._data[: max(0, start - 1)].decode(errors="replace")[-1:]
        return around == b"()" and not re.match(r"[\w\])]", before)


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    """The outermost conditions and choices inside a part, in their order."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.BoolOp() | ast.Compare() | ast.IfExp() | ast.UnaryOp(op=ast.Not()):
                yield child
            case _:
                yield from _conditions(child)


def _compared(left: str, op: ast.cmpop, right: str) -> str:
    match op:
        case ast.Gt() | ast.GtE():
            return f"{left} {_TURNED[type(op)]} {right}"
        case ast.Lt() | ast.LtE():
            return f"{right} {_TURNED[type(op)]} {left}"
        case ast.Eq():
            return f"equal({left}, {right})"
        case ast.NotEq():
            return f"or({left} > {right}, {right} > {left})"
        case _:
            raise _NoExpression


def _nested(name: str, parts: list[str]) -> str:
    """A function of two operands over several."""
    joined = parts[-1]
    for part in reversed(parts[:-1]):
        joined = f"{name}({part}, {joined})"
    return joined


# ---- the place of a sign -------------------------------------------------------------------------


def in_operator(text: str, place: int) -> bool:
    """Whether the declaration around a place is that of an operator."""
    begun = re.findall(r"^\w+", text[max(0, place - _ABOVE) : place], re.MULTILINE)
    return begun[-1:] == ["op"]


def expression_around(text: str, start: int, end: int) -> str:
    """The part of an expression around a sign at these offsets.

    It goes to a comma, to a bracket that is open, or to the `=` of the operator.
    """
    line = text[max(text.rfind("\n", 0, start) + 1, start - _LINE) : start]
    depth, begin = 0, 0
    assigned = [found.start() for found in _ASSIGNS.finditer(line)]
    for place in range(len(line) - 1, -1, -1):
        depth += (line[place] in _CLOSE) - (line[place] in _OPEN)
        if depth < 0 or (depth == 0 and (line[place] == "," or place in assigned)):
            begin = place + 1
            break
    behind = re.split(r"[#\n]|\bwhere\b", text[end : end + _LINE], maxsplit=1)[0]
    depth, last = 0, len(behind)
    for place, char in enumerate(behind):
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth < 0 or (depth == 0 and char == ","):
            last = place
            break
    return f"{line[begin:]}{text[start:end]}{behind[:last]}".strip()
