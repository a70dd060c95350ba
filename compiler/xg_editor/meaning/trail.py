"""The tree at an offset of a file, and the trees around it."""

from __future__ import annotations

from collections.abc import Iterator

from xg.syntax import ast
from xg.syntax.ast import Syntax, parts

Trail = tuple[Syntax, ...]  # the innermost tree first, the file last


def trail(module: ast.Module, offset: int) -> Trail:
    """The smallest tree that has the character at `offset`, then all that it is part of.

    Just behind a word is still in the word, as editors see it.

    >>> from xg.diagnostics.source import Source
    >>> from xg.syntax.parse import parse
    >>> module = parse(Source("f.xg", "dim B, D_h = 4*D"))
    >>> [type(tree).__name__ for tree in trail(module, 15)]
    ['Name', 'Path', 'Operation', 'Arithmetic', 'DimDecl', 'Module']
    """
    inside = smallest(module, offset, 0)
    return inside if named(inside) else smallest(module, offset, 1)


def named(found: Trail) -> bool:
    """Whether there is a name or a text, not only the room between."""
    return isinstance(found[0], ast.Name | ast.Text)


def smallest(module: ast.Module, offset: int, behind: int) -> Trail:
    """The trail of the smallest tree around an offset; `behind` counts its end as inside."""
    best: Trail = (module,)
    length = len(module.span.source.text) + 1
    for candidate in trails(module):
        span = candidate[0].span
        if span.start <= offset < span.end + behind and span.end - span.start <= length:
            best, length = candidate, span.end - span.start
    return best


def trails(module: ast.Module) -> Iterator[Trail]:
    """Every tree of a file with those around it, each before its parts."""
    waiting: list[Trail] = [(module,)]
    while waiting:
        branch = waiting.pop()
        yield branch
        waiting += [(part, *branch) for part in parts(branch[0])]
