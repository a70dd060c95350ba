"""Pieces of an expression's text that know how tightly they bind."""

from __future__ import annotations

from enum import IntEnum

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
    """The text of an expression and its binding; `turned` is that of the transposed matrix."""

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
