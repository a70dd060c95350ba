"""Small texts parsed, for the tests of the syntax."""

from __future__ import annotations

from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.syntax import ast
from xg.syntax.parse import parse

HEAD = "block F(X [B]) -> Y [B] {\n"


def module(text: str) -> ast.Module:
    """The tree of a file."""
    return parse(Source("test.xg", text))


def block(*lines: str) -> ast.Block:
    """The tree of a block with these lines."""
    (tree,) = module(HEAD + "\n".join(lines) + "\n}\n").blocks
    return tree


def chain(*lines: str) -> ast.Chain:
    """The tree of a chain."""
    (tree,) = block(*lines).chains
    return tree


def expression(text: str) -> ast.Expr:
    """The tree of an expression."""
    (tree,) = module(f"op f(x) = {text}").ops
    return tree.body


def mistakes(text: str) -> list[tuple[str, int, int]]:
    """Code, line and column of every error in a file; an empty list for a file without."""
    try:
        module(text)
    except DiagnosticError as error:
        return [(d.code, d.line or 0, d.column or 0) for d in error.diagnostics]
    return []
