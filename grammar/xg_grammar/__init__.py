"""The grammar of `.xg`: one Lark file, and Lark's parser of it as data.

The parser is shipped because computing it takes longer than compiling a program. `python -m
xg_grammar.build` writes it; a test proves that it is the one of the grammar.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TypedDict


class Terminal(TypedDict):
    """A terminal of the grammar: an expression, or a fixed word or sign."""

    name: str
    pattern: str
    fixed: bool


class Rule(TypedDict):
    """A rule of Lark, with the options by which it makes a tree; `dropped` are symbols by index."""

    origin: str
    order: int
    alias: str | None
    expansion: list[str]
    dropped: list[int]
    expand1: bool
    empty_indices: list[bool]


class Parser(TypedDict):
    """Lark's LALR(1) parser of the grammar.

    A state maps symbols to actions: the number of the next state, or ``-1 - number`` of a rule.
    """

    terminals: list[Terminal]
    rules: list[Rule]
    states: list[dict[str, int]]
    start: int
    end: int


def text() -> str:
    """The grammar, as Lark reads it."""
    return _read("xg.lark")


@cache
def parser() -> Parser:
    """The parser, as `xg_grammar.build` wrote it: a state names symbols of one action together."""
    written: Parser = json.loads(_read("parser.json"))
    written["states"] = [
        {symbol: action for names, action in sorted(state.items()) for symbol in names.split()}
        for state in written["states"]
    ]
    return written


@cache
def patterns() -> dict[str, str]:
    """The regular expressions of the terminals that have one, by name."""
    return {each["name"]: each["pattern"] for each in parser()["terminals"] if not each["fixed"]}


@cache
def literals() -> dict[str, str]:
    """The names of the terminals that are a fixed word or sign, by their text."""
    return {each["pattern"]: each["name"] for each in parser()["terminals"] if each["fixed"]}


def _read(name: str) -> str:
    folder = __file__.removesuffix("__init__.py")
    # pathlib and importlib.resources each take as long to import as Python takes to start
    with open(folder + name, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()
