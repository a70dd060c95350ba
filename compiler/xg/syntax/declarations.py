"""Fix declarations: add a name to a line of `dim` or `mesh`, or take a name out."""

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


# An item of a list taken out of a text: a declared name, with its comma or with its line.


_COMMA_BEHIND = re.compile(r"[ \t]*,[ \t]*")
_ALONE = re.compile(r"[ \t]*(?:param|dim|mesh|state|option|use)[ \t]+$|[ \t]*$")
_BEHIND = re.compile(r"[ \t]*(?:from[ \t]+\S+[ \t]*)?(?:\n|$)")


def left_out(item: Span, name: str) -> tuple[Fix, ...]:
    """The item of a declaration left out; nothing where its neighbours would change.

    Names without a shape take that of the next name, so the last of these stays.
    """
    text, end = item.source.text, item.end
    if _lends_shape(item):
        return ()
    before = text[text.rfind("\n", 0, item.start) + 1 : item.start]
    gone: Span | None = None
    if behind := _COMMA_BEHIND.match(text, end):
        gone = Span(item.source, item.start, behind.end())
    elif (comma := _comma_before(text, item.start)) is not None:
        gone = Span(item.source, comma, end)
    elif _ALONE.fullmatch(before) and (rest := _BEHIND.match(text, end)):
        gone = Span(item.source, item.start - len(before), rest.end())
    return (Fix(f"leave {name} out", ((gone, ""),)),) if gone else ()


def _lends_shape(item: Span) -> bool:
    """Whether a name before this one has its shape from it."""
    text = item.source.text
    comma = _comma_before(text, item.start) if "[" in item.text else None
    return bool(comma) and (text[comma - 1].isalnum() or text[comma - 1] == "_")


def _comma_before(text: str, start: int) -> int | None:
    """Find the comma right before a place, with the blanks around it: where these begin.

    A search with a pattern would read the text from its beginning for each item.
    """
    while start and text[start - 1].isspace():
        start -= 1
    if not start or text[start - 1] != ",":
        return None
    start -= 1
    while start and text[start - 1] in " \t":
        start -= 1
    return start
