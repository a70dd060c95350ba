"""The canonical layout of a program: `xg fmt`."""

from __future__ import annotations

from xg.diagnostics.source import Source
from xg.syntax.alignment import padding
from xg.syntax.line_layout import LineWriter
from xg.syntax.lines import LineSplitter
from xg.syntax.parse import parse
from xg.syntax.spacing import Spacing
from xg.syntax.tokens import tokenize


def format(source: Source) -> str:
    """The program in canonical layout: the same tree, the same comments; applied twice, the same.

    The author's lines and paragraphs stay. Raises DiagnosticError for a program with errors.
    """
    module = parse(source)
    tokens, comments, _ = tokenize(source)
    lines = LineSplitter().split(tokens, comments)
    spacing = Spacing(source, module, tokens)
    draft = LineWriter(source, spacing, {})
    draft.write(lines)
    return LineWriter(source, spacing, padding(module, lines, draft.columns)).write(lines)
