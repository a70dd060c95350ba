"""Lines that are too long, broken as the formatter would break them."""

from __future__ import annotations

from collections.abc import Sequence

from xg.codegen.emit.text import WIDTH


def bracketed(head: str, items: Sequence[str], tail: str, indent: int = 0) -> list[str]:
    """``head(items)tail`` on one line, on three, or with one item per line; `indent` is outside."""
    inside = ", ".join(items)
    if indent + len(head) + len(inside) + len(tail) <= WIDTH:
        return [f"{head}{inside}{tail}"]
    if indent + 4 + len(inside) <= WIDTH:
        return [head, f"    {inside}", tail]
    return [head, *(f"    {item}," for item in items), tail]


def mapping(head: str, items: Sequence[tuple[str, str]], tail: str = "}") -> list[str]:
    """A dictionary display with one item per line."""
    return [head + "{", *(f"    {key}: {value}," for key, value in items), tail]


def indented(lines: Sequence[str], by: int = 4) -> list[str]:
    """Lines further to the right; empty ones stay empty."""
    return [f"{' ' * by}{line}" if line else "" for line in lines]


def broken(code: str, indent: int = 4) -> list[str]:
    """A statement on one line or, where its call is too long, with the arguments on the next."""
    if indent + len(code) <= WIDTH or not code.endswith(")"):
        return [code]
    opening = _opening(code)
    head, inside = code[: opening + 1], code[opening + 1 : -1]
    return bracketed(head, arguments(inside), ")", indent)


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
