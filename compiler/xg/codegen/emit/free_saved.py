"""Lines that free saved tensors as soon as a backward function has read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from xg.codegen.emit.line_breaks import bracketed
from xg.codegen.emit.text import WIDTH


def free_saved(lines: Sequence[str], fields: Iterable[str]) -> list[str]:
    """The lines, with ``del saved.X`` behind the last statement that reads a field.

    None follows a ``return``, which frees everything.
    """
    statements = _statements(lines)
    last = {name: _last(statements, rf"\bsaved\.{name}\b") for name in fields}
    names: list[str] = []
    for number, statement in enumerate(statements):
        names += statement
        spent = [f"saved.{name}" for name, place in last.items() if place == number]
        if spent and not statement[0].startswith("return "):
            names += _deleted(spent)
    return names


def _statements(lines: Sequence[str]) -> list[list[str]]:
    """Statements of one function with all their lines."""
    statements: list[list[str]] = []
    for line in lines:
        if statements and line[:1] in (" ", ")", "]", "}"):
            statements[-1].append(line)
        else:
            statements.append([line])
    return statements


def _last(statements: Sequence[Sequence[str]], pattern: str) -> int:
    """The number of the last statement that matches a pattern, -1 if there is none."""
    mention = re.compile(pattern)
    places = [n for n, lines in enumerate(statements) if any(map(mention.search, lines))]
    return places[-1] if places else -1


def _deleted(names: Sequence[str]) -> list[str]:
    line = f"del {', '.join(names)}"
    return [line] if len(line) + 4 <= WIDTH else bracketed("del (", names, ")", 4)
