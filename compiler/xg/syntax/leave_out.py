"""An item of a list taken out of a text: a declared name, with its comma or with its line."""

from __future__ import annotations

import re

from xg.diagnostics.diagnostic import Fix
from xg.diagnostics.source import Span

_COMMA_BEHIND = re.compile(r"[ \t]*,[ \t]*")
_COMMA_BEFORE = re.compile(r"[ \t]*,\s*$")
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
    elif comma := _COMMA_BEFORE.search(text, 0, item.start):
        gone = Span(item.source, comma.start(), end)
    elif _ALONE.fullmatch(before) and (rest := _BEHIND.match(text, end)):
        gone = Span(item.source, item.start - len(before), rest.end())
    return (Fix(f"leave {name} out", ((gone, ""),)),) if gone else ()


def _lends_shape(item: Span) -> bool:
    """Whether a name before this one has its shape from it."""
    text = item.source.text
    comma = _COMMA_BEFORE.search(text, 0, item.start)
    shaped = "[" in item.text
    return bool(shaped and comma and re.search(r"\w$", text[: comma.start()]))
