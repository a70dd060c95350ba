"""Text to tree, or to its errors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, cast

from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, Diagnostic, DiagnosticError, Problem
from xg.diagnostics.gc_pause import resting_collector
from xg.diagnostics.source import Source
from xg.syntax import ast
from xg.syntax.build import ModuleBuilder
from xg.syntax.characters import check_characters
from xg.syntax.foreign import COMPARISONS
from xg.syntax.half_typed import with_sizes
from xg.syntax.line_ends import StatementTokens
from xg.syntax.reader import Reader
from xg.syntax.tokens import tokenize

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
    return Parsed(module, tuple(_reported(problems)))


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
        from xg.syntax.recover import recover  # only a file with errors pays for it

        problem, stream = recover(source, reader, tokens, stream)
        problems += [problem] if problem else []
    problems += builder.problems[:MISTAKES_AT_MOST]
    module = cast("ast.Module | None", reader.value)
    if problems and module is not None:
        module = with_sizes(source, module)
    return module, problems


def _reported(problems: list[Problem]) -> Iterator[Diagnostic]:
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
