"""Text to tree, or to every mistake found in it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from xg.diagnostic import DiagnosticError, Problem
from xg.source import Source
from xg.syntax import ast
from xg.syntax.build import ModuleBuilder
from xg.syntax.characters import check_characters
from xg.syntax.lalr import Action, Parser
from xg.syntax.line_ends import StatementTokens
from xg.syntax.tokens import tokenize
from xg_grammar import tables


class _Actions(Mapping[str, Action]): ...


def parse(source: Source) -> ast.Module:
    check_characters(source)
    builder = ModuleBuilder(source)
    tokens, problems = tokenize(source)
    t = tables()
    parser = Parser(t, source, {r["name"]: getattr(builder, r["name"], None) for r in t["rules"] if r["name"]})
    stream = StatementTokens(source, tokens)
    misfit = parser.feed(stream)
    if misfit: raise Exception(misfit, source.text[misfit.start-20:misfit.end+10], parser.expected())
    problems += builder.problems
    if problems: raise DiagnosticError.of(*problems)
    return cast("ast.Module", parser.value)
