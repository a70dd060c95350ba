"""Lines of dims and mesh axes that do not parse: what can be read of them, for an editor.

Every block depends on the names of the file's sizes. So a line that is given up for one number that
is half typed still declares its names, each with its size where that can be read alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import replace
from xg.diagnostics.source import Source
from xg.syntax import ast
from xg.syntax.build import ModuleBuilder
from xg.syntax.line_ends import CLOSES, ITEM_WORDS, OPENS, StatementTokens
from xg.syntax.reader import Reader
from xg.syntax.tokens import Token, tokenize

_WORDS = ("DIM", "MESH")


def with_sizes(source: Source, module: ast.Module) -> ast.Module:
    """A tree with the sizes of lines that were given up, as far as these can be read."""
    tokens = tokenize(source).tokens
    dims, meshes = list(module.dims), list(module.meshes)
    known = {decl.span.start for decl in (*dims, *meshes)}
    for word, items in _lines(tokens):
        if any(item[0].start in known for item in items):
            continue
        for item in items:
            read = _read(source, [word, *item]) or _read(source, [word, item[0]])
            dims += read.dims if read else ()
            meshes += read.meshes if read else ()
    return replace(
        module, dims=tuple(sorted(dims, key=_start)), meshes=tuple(sorted(meshes, key=_start))
    )


def _lines(tokens: list[Token]) -> Iterator[tuple[Token, list[list[Token]]]]:
    """The word of each declaration of sizes of the file, and the tokens of each size."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.type == "LBRACE") - (token.type == "RBRACE")
        if token.type in _WORDS and depth <= 0:
            yield token, [item for item in _items(tokens, index + 1) if item[0].type == "NAME"]


def _items(tokens: list[Token], index: int) -> Iterator[list[Token]]:
    """The tokens between commas, until the line ends behind something else."""
    item: list[Token] = []
    depth, last = 0, ""
    for token in tokens[index:]:
        kind = token.type
        if kind in ITEM_WORDS or kind == "$END" or (kind == "_NL" and last != "COMMA"):
            break
        depth += (kind in OPENS) - (kind in CLOSES)
        if kind == "COMMA" and depth <= 0:
            if item:
                yield item
            item = []
        elif kind != "_NL":
            item.append(token)
        last = last if kind == "_NL" else kind
    if item:
        yield item


def _read(source: Source, tokens: list[Token]) -> ast.Module | None:
    """The tree of a few tokens of a file; None if they do not fit together."""
    end = Token("$END", "", tokens[-1].end)
    builder = ModuleBuilder(source)
    reader = Reader(source, builder)
    try:
        unread = reader.feed(StatementTokens(source, [*tokens, end]))
    except DiagnosticError:
        return None
    return None if unread or builder.problems else cast("ast.Module | None", reader.value)


def _start(decl: ast.DimDecl | ast.MeshDecl) -> int:
    return decl.span.start
