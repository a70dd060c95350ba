"""Build expressions with the parentheses they need, and break lines that are too long."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from textwrap import wrap

from xg.diagnostics.lazy_dataclass import dataclass

WIDTH = 88  # what `ruff format` allows by default: no emitted line is ever re-wrapped


class Precedence(IntEnum):
    """How tightly an expression holds together, loosest first, as Python's grammar has it."""

    CONDITION = 0
    COMPARE = 1
    OR = 2
    AND = 3
    SUM = 4
    PRODUCT = 5
    SIGN = 6
    POWER = 7
    ATOM = 8


@dataclass(frozen=True, slots=True)
class Text:
    """The text of an expression and its binding; `turned` is the transposed matrix as text."""

    text: str
    binding: Precedence = Precedence.ATOM
    turned: str | None = None

    def in_context(self, outer: Precedence) -> str:
        """The text, in parentheses where an operator of the given binding would tear it apart."""
        return self.text if self.binding >= outer else f"({self.text})"

    @property
    def atom(self) -> str:
        """The text where something is attached to it: a call, an attribute, an index."""
        return self.in_context(Precedence.ATOM)


def infix(left: Text, sign: str, right: Text, binding: Precedence) -> Text:
    """A left-associative infix operation."""
    tighter = Precedence(min(binding + 1, Precedence.ATOM))
    return Text(f"{left.in_context(binding)} {sign} {right.in_context(tighter)}", binding)


def power(base: Text, exponent: Text) -> Text:
    """`base**exponent`, without spaces around simple operands, as the formatter writes it."""
    tight = _simple(base.text) and _simple(exponent.text.removeprefix("-"))
    sign = "**" if tight else " ** "
    return Text(f"{base.atom}{sign}{exponent.in_context(Precedence.SIGN)}", Precedence.POWER)


def _simple(text: str) -> bool:
    """A name, a number or a dotted path: what the formatter hugs with `**`."""
    return all(part.isidentifier() for part in text.split(".")) or text.replace(".", "").isdigit()


def call(function: str, *args: str) -> Text:
    """A call of a function."""
    return Text(f"{function}({', '.join(args)})")


def tuple_of(items: list[str]) -> str:
    """A tuple display, with the comma that one item needs."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


# Lines that are too long, broken as the formatter would break them.


def bracketed(head: str, items: Sequence[str], tail: str, indent: int = 0) -> list[str]:
    """``head(items)tail`` on one line, on three, or with one item per line; `indent` is outside."""
    inside = ", ".join(items)
    if indent + len(head) + len(inside) + len(tail) <= WIDTH:
        return [f"{head}{inside}{tail}"]
    if indent + 4 + len(inside) <= WIDTH:
        return [head, f"    {inside}", tail]
    return [head, *(f"    {item}," for item in items), tail]


def dictionary(head: str, items: Sequence[str], tail: str, indent: int = 0) -> list[str]:
    """``head{items}tail`` on one line or with one item per line; `indent` is outside."""
    line = f"{head}{{{', '.join(items)}}}{tail}"
    if indent + len(line) <= WIDTH:
        return [line]
    return [f"{head}{{", *(f"    {item}," for item in items), f"}}{tail}"]


def indent_lines(lines: Sequence[str], by: int = 4) -> list[str]:
    """Lines further to the right; empty ones stay empty."""
    return [f"{' ' * by}{line}" if line else "" for line in lines]


def broken(code: str, indent: int = 4) -> list[str]:
    """A statement on one line or, where its call is too long, with the arguments on the next."""
    if indent + len(code) <= WIDTH or not code.endswith(")"):
        return [code]
    opening = _opening(code)
    head, inside = code[: opening + 1], code[opening + 1 : -1]
    return bracketed(head, arguments(inside), ")", indent)


def parenthesize(code: str, indent: int) -> list[str]:
    """An expression in parentheses: too long, it begins a line with each of its last operators."""
    if indent + len(code) <= WIDTH:
        return [code]
    for signs in ("+-", "@*/%"):
        lines = _at_operators(code, signs)
        if len(lines) > 1 and all(indent + len(line) <= WIDTH for line in lines):
            return lines
    return broken(code, indent)


def _at_operators(code: str, signs: str) -> list[str]:
    """The code with a new line before each of these operators outside all brackets."""
    lines, depth, start = list[str](), 0, 0
    for position, char in enumerate(code):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and char in signs and code[position - 1 : position + 2] == f" {char} ":
            lines.append(code[start : position - 1])
            start = position
    return [*lines, code[start:]]


def add_comment(code: str, comment: str, indent: int = 4) -> list[str]:
    """Add a comment after the first line of a statement; break lines that are too long.

    The rest of a long comment is on lines below, inside the brackets.
    """
    if not comment:
        return broken(code, indent)
    room = WIDTH - indent
    if len(code) + len(comment) + 4 <= room:
        return [f"{code}  # {comment}"]
    targets, _, value = code.partition(" = ") if _is_assignment(code) else ("", "", code)
    head = f"{targets} = " if targets else ""
    if re.match(r"[\w.]+\(", value) and _opening(value) == value.index("("):
        opening = value.index("(") + 1
        first, *rest = _call_lines(head + value[:opening], arguments(value[opening:-1]), indent)
        if len(first) + len(comment) + 4 <= room:
            return [f"{first}  # {comment}", *rest]
    if targets:
        beside, *below = _in_two(comment, room - len(head) - len("(  # "), room - len("    # "))
        lines = [*(f"# {line}" for line in below), *parenthesize(value, indent + 4)]
        return [f"{head}(  # {beside}" if beside else f"{head}(", *indent_lines(lines), ")"]
    *before, last = broken(code, indent)
    return [*before, f"{last}  # {comment}"]


def _in_two(comment: str, first: int, rest: int) -> list[str]:
    """Split a comment into the part that fits the first line and wrapped further lines."""
    if len(comment) <= first:
        return [comment]
    head, more = "", comment
    if first > len(comment.split(" ")[0]):
        head = wrap(comment, first, break_long_words=False, break_on_hyphens=False)[0]
        more = comment.removeprefix(head).strip()
    return [head, *wrap(more, rest, break_long_words=False, break_on_hyphens=False)]


def chosen(target: str, value: str, test: str, other: str, indent: int = 4) -> list[str]:
    """``target = value if test else other``, in parentheses where it is too long."""
    line = f"{target} = {value} if {test} else {other}"
    if indent + len(line) <= WIDTH:
        return [line]
    inside = [f"{value} if {test} else {other}"]
    if indent + 4 + len(inside[0]) > WIDTH:
        *before, last = broken(f"else {other}", indent + 4)
        inside = [*broken(value, indent + 4), f"if {test}", *before, last]
    return [f"{target} = (", *indent_lines(inside), ")"]


def wrap_comment(comment: str) -> list[str]:
    """Wrap a comment into lines of its own that also fit a nested function."""
    first, *rest = wrap_text(comment, 8, further=6)
    return [f"# {first}", *(f"# {line}" for line in rest)]


def wrap_text(text: str, indent: int = 4, further: int = 0) -> list[str]:
    """Wrap the text of a docstring or comment; a shape in brackets stays on one line."""
    solid = re.sub(r"\[[^\]]*\]", lambda shape: shape[0].replace(" ", "\0"), text)
    lines = wrap(
        solid,
        WIDTH - indent,
        subsequent_indent=" " * further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


def _is_assignment(code: str) -> bool:
    return re.match(r"[\w, ]+ = ", code) is not None


def _call_lines(head: str, items: Sequence[str], indent: int) -> list[str]:
    """A call with its arguments below, on one line or one on each."""
    inside = ", ".join(items)
    if indent + 4 + len(inside) <= WIDTH:
        return [head, f"    {inside}", ")"]
    return [head, *(f"    {item}," for item in items), ")"]


def _opening(code: str) -> int:
    """Where the bracket opens that the last character closes."""
    depth = 0
    for position in range(len(code) - 1, -1, -1):
        depth += (code[position] in ")]}") - (code[position] in "([{")
        if depth == 0:
            return position
    raise ValueError(f"unbalanced: {code}")


def arguments(inside: str) -> list[str]:
    """The arguments of a call or a function, split at the commas between them."""
    items: list[str] = []
    depth = start = 0
    for position, char in enumerate(inside):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            items.append(inside[start:position].strip())
            start = position + 1
    return [*items, inside[start:].strip()]
