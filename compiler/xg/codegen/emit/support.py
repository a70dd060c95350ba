"""Functions and classes that a generated module contains, from files of ordinary, tested code.

In a module they are private: ``drop`` of a file is ``_drop`` there.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable
from functools import cached_property
from pathlib import Path

_DEFINED = (ast.FunctionDef, ast.ClassDef)


def private(function: str) -> str:
    """The name of a support function in a generated module."""
    return function if function.startswith("_") else f"_{function}"


class SupportFile:
    """The functions of some files and what they call among themselves."""

    def __init__(self, *paths: str) -> None:
        self.paths = [Path(path) for path in paths]

    def source(self, function: str) -> str:
        """The text of a function as it is in a module: it and what it calls are private."""
        return self._functions[function][0]

    def called(self, function: str) -> tuple[str, ...]:
        """The functions that a function calls."""
        return self._functions[function][1]

    def closure(self, functions: Iterable[str]) -> list[str]:
        """The functions and all that they call, in the order of the files."""
        names: set[str] = set()
        pending = list(functions)
        while pending:
            name = pending.pop()
            if name not in names:
                names.add(name)
                pending.extend(self._functions[name][1])
        return [name for name in self._functions if name in names]

    @cached_property
    def _functions(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """For every function: its text and the other functions that it calls."""
        texts = [path.read_text(encoding="utf-8") for path in self.paths]
        bodies = [(text, ast.parse(text).body) for text in texts]
        nodes = [(text, n) for text, body in bodies for n in body if isinstance(n, _DEFINED)]
        names = {node.name for _, node in nodes}
        functions: dict[str, tuple[str, tuple[str, ...]]] = {}
        for text, node in nodes:
            called = {
                inner.func.id
                for inner in ast.walk(node)
                if isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Name)
                and inner.func.id in names
            }
            functions[node.name] = (_with_private_names(text, node, names), tuple(sorted(called)))
        return functions


def _with_private_names(
    text: str, node: ast.FunctionDef | ast.ClassDef, names: Collection[str]
) -> str:
    """The text of a definition, with every mention of the named ones made private.

    Its decorators are part of it, which `ast` does not count.
    """
    first = min(part.lineno for part in (node, *node.decorator_list))
    lines = [line.encode() for line in text.split("\n")[first - 1 : node.end_lineno]]
    inner = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    bound = {part.id for part in inner if isinstance(part.ctx, ast.Store)}
    bound |= {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    places = [(part.lineno, part.col_offset, part.id) for part in inner if part.id not in bound]
    keyword = "class " if isinstance(node, ast.ClassDef) else "def "
    places.append((node.lineno, node.col_offset + len(keyword), node.name))
    for number, column, name in sorted(places, reverse=True):
        if name in names and private(name) != name:
            line = lines[number - first]
            lines[number - first] = line[:column] + b"_" + line[column:]
    return b"\n".join(lines).decode()
