"""Parse text into a tree, or into its errors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, cast

from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, Diagnostic, DiagnosticError, Problem, Source
from xg.diagnostics.lazy_dataclass import replace, resting_collector
from xg.syntax import ast
from xg.syntax.build import ModuleBuilder
from xg.syntax.reader import Reader
from xg.syntax.spelling import COMPARISONS
from xg.syntax.tokens import (
    CLOSES,
    ITEM_WORDS,
    OPENS,
    StatementTokens,
    Token,
    check_characters,
    tokenize,
)

# Lines of dims and mesh axes that do not parse: what can be read of them, for an editor.
#
# Every block depends on the names of the file's sizes. So a line that is given up for one number
# that is half typed still declares its names, each with its size where that can be read alone.


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
            read = _parse_part(source, [word, *item]) or _parse_part(source, [word, item[0]])
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
    """Yield the tokens between commas, up to the end of a line that does not end in a comma."""
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


def _parse_part(source: Source, tokens: list[Token]) -> ast.Module | None:
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


REMEMBERED = 4  # texts read last: what checks one also lays it out
UNEXPECTED = "XG0110"  # the code of errors.Unexpected, which is imported only when there are any
SIGN = "XG0104"  # that of errors.ForeignSpelling
LEFT_OVER = {"XG0133", "XG0142"}  # words whose place was in a statement that was given up


class Parsed(NamedTuple):
    """The readable part of a file, and its errors in the order of the file.

    With errors the tree lacks the statements that were given up; it may be None.
    """

    module: ast.Module | None
    diagnostics: tuple[Diagnostic, ...]


def parse(source: Source) -> ast.Module:
    """The tree of a file; DiagnosticError with its errors, in the order of the file."""
    module, diagnostics = parse_partly(source)
    if module is None or diagnostics:
        raise DiagnosticError(diagnostics)
    return module


@lru_cache(REMEMBERED)
def parse_partly(source: Source) -> Parsed:
    """The tree of a file that may be half typed, for an editor; never fails."""
    try:
        check_characters(source)
        module, problems = _read(source)
    except DiagnosticError as error:
        return Parsed(None, error.diagnostics)
    return Parsed(module, tuple(_independent_errors(problems)))


@resting_collector()
def _read(source: Source) -> tuple[ast.Module | None, list[Problem]]:
    """Read the tokens, and continue after each error."""
    tokens, _, problems = tokenize(source)
    del problems[MISTAKES_AT_MOST:]
    builder = ModuleBuilder(source)
    reader = Reader(source, builder)
    stream = StatementTokens(source, tokens)
    for _ in range(MISTAKES_AT_MOST):
        if reader.feed(stream) is None:
            break
        from xg.syntax.recovery import recover  # only a file with errors pays for it

        problem, stream = recover(source, reader, tokens, stream)
        problems += [problem] if problem else []
    problems += builder.problems[:MISTAKES_AT_MOST]
    module = cast("ast.Module | None", reader.value)
    if problems and module is not None:
        module = with_sizes(source, module)
    return module, problems


def _independent_errors(problems: list[Problem]) -> Iterator[Diagnostic]:
    """The errors in the file's order, without those that follow from an error before."""
    mistakes = sorted((problem.diagnostic() for problem in problems), key=_offset)
    signs = [mistake for mistake in mistakes if mistake.code == SIGN]
    compared = {each.line for each in signs if each.span and each.span.text in COMPARISONS}
    told = {mistake.line for mistake in mistakes if mistake.code not in LEFT_OVER}
    previous: Diagnostic | None = None
    for mistake in mistakes:
        if mistake.code in LEFT_OVER and mistake.line in told:
            continue
        follows = previous is not None and previous.line == mistake.line
        guessed = mistake.line in compared and mistake.code != SIGN
        if not guessed and not (follows and mistake.code == UNEXPECTED):
            yield mistake
            previous = mistake


def _offset(mistake: Diagnostic) -> int:
    return mistake.span.start if mistake.span else 0
