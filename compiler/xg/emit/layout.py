"""Lines that are too long, broken as the formatter would break them."""

from __future__ import annotations

from collections.abc import Sequence

from xg.emit.text import WIDTH


def bracketed(head: str, items: Sequence[str], tail: str, indent: int = 0) -> list[str]:
    """``head(items)tail`` on one line, on three, or with one item per line; `indent` is outside."""
    inside = ", ".join(items)
    if indent + len(head) + len(inside) + len(tail) <= WIDTH:
        return [f"{head}{inside}{tail}"]
    if indent + 4 + len(inside) <= WIDTH and "*" not in items:
        return [head, f"    {inside}", tail]
    return [head, *(f"    {item}," for item in items), tail]


def mapping(head: str, items: Sequence[tuple[str, str]], tail: str = "}") -> list[str]:
    """A dictionary display with one item per line."""
    return [head + "{", *(f"    {key}: {value}," for key, value in items), tail]


def indented(lines: Sequence[str], by: int = 4) -> list[str]:
    """Lines further to the right; empty ones stay empty."""
    return [f"{' ' * by}{line}" if line else "" for line in lines]
