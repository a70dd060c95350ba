"""Lines that free tensors as soon as a function has read them for the last time.

Saved ones go at once. A variable goes before what may hold much at the same time: the backward pass
of another block, or a loop. Without that it would stay until its function returns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from xg.codegen.emit.line_breaks import bracketed
from xg.codegen.emit.text import WIDTH

ADDED: Final = re.compile(r"_add\(grads, .+, (\w+)\)")
CALL: Final = re.compile(r"^(for|while)\b|\w\(\s*params\b")  # a loop, or the function of a block


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


def free_variables(lines: Sequence[str], names: Iterable[str]) -> list[str]:
    """The lines, with ``del X`` before the call of a block behind which no statement reads X."""
    statements = _statements(lines)
    last = {name: _last(statements, _word(name)) for name in dict.fromkeys(names)}
    written: list[str] = []
    for number, statement in enumerate(statements):
        if CALL.search("\n".join(statement)):
            spent = [name for name, place in last.items() if 0 <= place < number]
            written += _deleted(spent) if spent else []
            last = {name: place for name, place in last.items() if name not in spent}
        written += statement
    return written


def add_at_once(lines: Sequence[str]) -> list[str]:
    """The lines, with a gradient added right behind what computes it, and then freed."""
    statements = _statements(lines)
    for statement in list(statements):
        added = ADDED.fullmatch("\n".join(statement))
        if added is None:
            continue
        name = added[1]
        mentions = _mentions(statements, _word(name))
        first = statements[mentions[0]]
        if len(mentions) == 2 and first[0].startswith(f"{name} = "):
            statements.remove(statement)
            statements[mentions[0] + 1 : mentions[0] + 1] = [statement, [f"del {name}"]]
    return [line for statement in statements for line in statement]


def free_intermediates(lines: Sequence[str]) -> list[str]:
    """The lines of an operator, with ``del X`` behind the last that reads X, while some follow.

    The last line returns the results; what it does not compute needs no room.
    """
    rest = lines if _computes(lines[-1]) else lines[:-1]
    assigned = dict.fromkeys(line.split(" = ")[0] for line in lines[:-1])
    last = {name: _last([[each] for each in lines], _word(name)) for name in assigned}
    written: list[str] = []
    for number, line in enumerate(lines):
        written.append(line)
        spent = [name for name, place in last.items() if place == number < len(rest) - 1]
        written += [f"del {', '.join(spent)}"] if spent else []
    return written


def _computes(line: str) -> bool:
    """Whether a ``return`` gives more than variables."""
    return not all(name.isidentifier() for name in line.removeprefix("return ").split(", "))


def _statements(lines: Sequence[str]) -> list[list[str]]:
    """Statements of one function with all their lines."""
    statements: list[list[str]] = []
    for line in lines:
        if statements and line[:1] in (" ", ")", "]", "}"):
            statements[-1].append(line)
        else:
            statements.append([line])
    return statements


def _word(name: str) -> str:
    """The pattern of a variable: no field, and no part of another name."""
    return rf"(?<![.\w]){name}\b"


def _mentions(statements: Sequence[Sequence[str]], pattern: str) -> list[int]:
    """The numbers of the statements that match a pattern."""
    mention = re.compile(pattern)
    return [n for n, lines in enumerate(statements) if any(map(mention.search, lines))]


def _last(statements: Sequence[Sequence[str]], pattern: str) -> int:
    """The number of the last statement that matches a pattern, -1 if there is none."""
    return next(reversed(_mentions(statements, pattern)), -1)


def _deleted(names: Sequence[str]) -> list[str]:
    line = f"del {', '.join(names)}"
    return [line] if len(line) + 4 <= WIDTH else bracketed("del (", names, ")", 4)
