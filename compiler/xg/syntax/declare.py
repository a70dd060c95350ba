"""The place where a name of a file is declared: beside those that are declared already."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xg.diagnostics.diagnostic import Fix
from xg.diagnostics.source import Source, Span
from xg.syntax.spelling import greek_name

# A declaration goes on in the next line behind a comma.
_ITEM = re.compile(r"^(?:#.*\n)*(?:dim|mesh|op|block|plan|example)\b", re.MULTILINE)
_LINE = r"^(?:{})\b(?:[^#\n]*,[ \t]*(?:#.*)?\n(?:[ \t]*(?:#.*)?\n)*)*[^#\n]*"
_HEADS = "edition|use|dim|mesh|option"


def declaration(span: Span, word: str, *names: str) -> Fix:
    """A fix that declares names for a place: in the last line of its word, or behind the head.

    Args:
        span: the place where they are used.
        word: `dim` or `mesh`.
        names: the names, each with its size if it needs one.
    """
    source = span.source
    listed = ", ".join(map(greek_name, names))
    said, them = f"{word} {listed}", "it" if len(names) == 1 else "them"
    beside = list(_ends(source, word))
    heads = list(_ends(source, _HEADS))
    if beside:
        place, text = beside[-1], f", {listed}"
    elif heads:
        end = source.text.find("\n", heads[-1])
        place, text = (end if end >= 0 else len(source.text)), f"\n{said}"
    else:
        starts = [m.start() for m in _ITEM.finditer(source.text) if m.start() <= span.start]
        place, text = (starts[-1] if starts else 0), f"{said}\n\n"
    return Fix(f"declare {them}: {said}", ((Span(source, place, place), text),), (word, *names))


def _ends(source: Source, words: str) -> Iterator[int]:
    """Where the code of each declaration with one of these words ends."""
    for match in re.finditer(_LINE.format(words), source.text, re.MULTILINE):
        yield match.start() + len(match[0].rstrip())
