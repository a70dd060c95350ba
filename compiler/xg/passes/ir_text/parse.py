"""Lark's LALR parser of the printed IR, and its errors in words."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final, cast

from lark import Lark, UnexpectedInput, UnexpectedToken

from xg.passes.ir_text.errors import UnreadableIR
from xg.passes.ir_text.grammar import GRAMMAR
from xg.passes.ir_text.records import ProgramText
from xg.passes.ir_text.tree import Tree

_WORDS: Final = {
    "NAME": "a name",
    "KEY": "the key of a graph",
    "STRING": "a text in quotes",
    "GLYPH": "an operator",
    "INT": "a number",
    "FLOAT": "a number",
    "CALL": "'call'",
    "BACKWARD": "'backward'",
    "_NL": "the end of the line",
    "$END": "the end of the text",
}


def parse(text: str) -> ProgramText:
    """The tree of a text; raises UnreadableIR."""
    lark: Any = _parser()  # whose trees Lark's types do not know
    try:
        return cast("ProgramText", lark.parse(text))
    except UnexpectedInput as error:
        line = error.line if error.line > 0 else text.count("\n") + 1
        raise UnreadableIR(line, _says(error, text)) from None


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", transformer=Tree(), maybe_placeholders=True)


def _says(error: UnexpectedInput, text: str) -> str:
    """Expected first, found second."""
    stop: Any = error  # a token that does not fit, or a character that begins none
    if isinstance(error, UnexpectedToken):
        expected, kind = stop.accepts, stop.token.type
        what = _WORDS[kind] if kind in ("$END", "_NL") else repr(str(stop.token))
    else:
        expected, what = stop.allowed, repr(text[stop.pos_in_stream])
    words = sorted(set(map(_word, cast("Iterable[str]", expected))))
    return f"expected {' or '.join(words)}, not {what}"


def _word(terminal: str) -> str:
    """A terminal of the grammar as people see it."""
    patterns = {each.name: each.pattern.value for each in _parser().terminals}
    return _WORDS.get(terminal) or repr(patterns.get(terminal, terminal))
