"""The grammar of `.xg`: one Lark file, and the parse tables that Lark computes from it.

The tables are shipped because computing them takes longer than compiling a program. `python -m
xg_grammar.build` writes them anew; a test proves that they are what the grammar says.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TypedDict


class Rule(TypedDict):
    """One production. Its children are picked from the values of its symbols.

    A pick is a position; `[position]` for a list whose elements become children; or null for an
    optional part that is absent. A rule that `inlines` gives its only child itself, without a name.
    """

    name: str | None
    origin: str
    size: int
    picks: list[int | list[int] | None]
    inlines: bool


class Tables(TypedDict):
    """What a lexer and an LALR(1) parser need.

    `states[state][symbol]` is the next state, or `-1 - i` to reduce by rule i. The start is state
    0; the text is accepted when state `accept` is reached with `$END` next.
    """

    patterns: dict[str, str]
    literals: dict[str, str]
    ignored: list[str]
    rules: list[Rule]
    states: list[dict[str, int]]
    accept: int


def text() -> str:
    """The grammar, as Lark reads it."""
    return _read("xg.lark")


@cache
def tables() -> Tables:
    """The parse tables, as `xg_grammar.build` wrote them."""
    return json.loads(_read("tables.json"))


def _read(name: str) -> str:
    folder = __file__.removesuffix("__init__.py")
    # pathlib and importlib.resources each take as long to import as Python takes to start
    with open(folder + name, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()
