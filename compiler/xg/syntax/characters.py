"""The characters that a file may have: none that a reader cannot see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from xg.diagnostics.diagnostic import MISTAKES_AT_MOST, DiagnosticError, Problem
from xg.diagnostics.limits import SourceBytes
from xg.diagnostics.source import Source, Span
from xg.syntax.errors import ForbiddenCharacter, NotText

# Unicode's control, format, surrogate and line-separator characters, and the fillers among its
# letters: they move the cursor, turn the text round or take no room. Tab and line feed are fine.
INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE_RUN = re.compile(f"[{INVISIBLE}]+")


def check_characters(source: Source) -> None:
    """Raise DiagnosticError for a file that is too long, not UTF-8, or has invisible characters."""
    size = len(source.text.encode("utf-8", "surrogateescape"))
    SourceBytes.check(size, Span(source, 0, 0))
    problems = list(islice(_problems(source), MISTAKES_AT_MOST))
    if problems:
        raise DiagnosticError.of(*problems)


def _problems(source: Source) -> Iterator[Problem]:
    for match in _INVISIBLE_RUN.finditer(source.text):
        span = Span(source, *match.span())
        if "\ud800" <= span.text[0] <= "\udfff":
            yield NotText(span)
            return  # of another encoding every character is wrong
        yield ForbiddenCharacter(span)
