"""The grammar of `.xg`: one Lark file, and Lark's parser of it, serialized.

The parser is shipped because computing it takes longer than compiling a program. `python -m
xg_grammar.build` writes it; a test proves that it is the one of the grammar.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, TypedDict


class SerializedParser(TypedDict):
    """Lark's own form of a parser, as `Lark.load` takes it.

    `memo` holds the terminals and the rules by number; `data` refers to them as `{"@": number}`.
    """

    data: dict[str, Any]
    memo: dict[int, dict[str, Any]]


def text() -> str:
    """The grammar, as Lark reads it."""
    return _read("xg.lark")


@cache
def serialized() -> SerializedParser:
    """The parser, as `xg_grammar.build` wrote it."""
    parser = json.loads(_read("parser.json"))
    table = parser["data"]["parser"]["parser"]
    # the keys of objects are texts in JSON, and numbers in Lark
    table["tokens"] = _numbered(table["tokens"])
    table["states"] = {int(state): _numbered(row) for state, row in table["states"].items()}
    return {"data": parser["data"], "memo": _numbered(parser["memo"])}


@cache
def patterns() -> dict[str, str]:
    """The regular expressions of the terminals that have one, by name."""
    return {name: value for name, kind, value in _terminals() if kind == "PatternRE"}


@cache
def literals() -> dict[str, str]:
    """The names of the terminals that are a fixed word or sign, by their text."""
    return {value: name for name, kind, value in _terminals() if kind == "PatternStr"}


def _terminals() -> list[tuple[str, str, str]]:
    """Name, kind of pattern and pattern of each terminal, in the order of the grammar."""
    memo = serialized()["memo"].values()
    return [
        (entry["name"], entry["pattern"]["__type__"], entry["pattern"]["value"])
        for entry in memo
        if entry["__type__"] == "TerminalDef"
    ]


def _numbered(entries: dict[str, Any]) -> dict[int, Any]:
    return {int(number): entry for number, entry in entries.items()}


def _read(name: str) -> str:
    folder = __file__.removesuffix("__init__.py")
    # pathlib and importlib.resources each take as long to import as Python takes to start
    with open(folder + name, encoding="utf-8") as file:  # noqa: PTH123
        return file.read()
