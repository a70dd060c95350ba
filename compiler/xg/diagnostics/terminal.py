"""Print text safely on a terminal: printable, measured, folded between words, with its plurals."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TextIO

TAB = "    "


def printable(text: str) -> str:
    """`text` with every character spelled out (`<U+202E>`) that could move the cursor or hide."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_printable_character, text))


def width(text: str) -> int:
    """Columns that printable `text` takes: 2 for a wide character, 0 for a combining one."""
    if text.isascii():
        return len(text)
    import unicodedata  # only texts with such characters pay for the table

    return sum(
        0
        if unicodedata.combining(character)
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def _printable_character(character: str) -> str:
    if character == "\t":
        return TAB
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, as Source.from_bytes keeps it
        return f"<byte {code - 0xDC00:02X}>"
    return f"<U+{code:04X}>"


# Long lines on a narrow terminal: broken between words, under the cell that they belong to.


LEAST: Final = 20  # columns: a narrower terminal shows nothing that can be read
USUAL: Final = 80


def columns_of(stream: TextIO) -> int | None:
    """Return the columns of a terminal; None for any other stream, whose lines stay whole."""
    if not stream.isatty():
        return None
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return max(int(stated), LEAST)
    try:
        return max(os.get_terminal_size(stream.fileno()).columns or USUAL, LEAST)
    except (OSError, ValueError):
        return USUAL


def fold(line: str, columns: int | None, hang: int | None = None) -> Iterator[str]:
    """Break a line at spaces into parts of at most `columns` columns; None is any number.

    All but the first begin at column `hang`, by default below the last cell of a row of a table.
    A word that is too long stays whole: what is copied from a terminal is what was printed.

    >>> list(fold("ok  softmax  over the last axis", 24))
    ['ok  softmax  over the', '             last axis']
    """
    if columns is None or _visible(line) <= columns:
        yield line
        return
    left = " " * _hanging_indent(line, columns, hang)
    part = line[: len(line) - len(line.lstrip())]
    empty, space = True, ""
    for word in line.lstrip().split(" "):
        if not word:
            space += " "
        elif empty or _visible(part + space + word) <= columns:
            part += space + word
            empty, space = False, " "
        else:
            yield part
            part, space = left + word, " "
    yield part


def _hanging_indent(line: str, columns: int, hang: int | None) -> int:
    """Where the parts of a line begin: not so far to the right that few words fit."""
    indent = len(line) - len(line.lstrip())
    if hang is None:
        hang = _visible(line[: line.rstrip().rfind("  ") + 2])
    return hang if indent < hang <= columns * 2 // 3 else indent + 2


def _visible(text: str) -> int:
    """The columns of a text, without its styles."""
    first, *rest = text.split("\x1b[")
    return width(first) + sum(width(part.partition("m")[2]) for part in rest)


# Word messages: numbers with their nouns, and the known name that somebody meant.


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "block"), counted(2, "block"), counted(0, "error")
    ('1 block', '2 blocks', '0 errors')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# The known name that somebody most likely meant.


CUTOFF: Final = 0.6  # what two names have the same, at least, of which one may be meant
SLIP: Final = 0.65  # what a typing slip leaves the same: of three letters two, of four all but one


def similar(name: str, known: Iterable[str], cutoff: float = CUTOFF) -> str | None:
    """The known name most similar to one, in capitals or not; None if none is close.

    `cutoff` is the part of both that has to be the same: `SLIP` where only a slip is to count.
    """
    from difflib import get_close_matches  # only a wrong name pays for it

    lowered = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), list(lowered), n=1, cutoff=cutoff)
    return lowered[close[0]] if close else None


def there_are(names: Sequence[str], at_most: int = 20) -> tuple[str, ...]:
    """A help line with the known names, where none is similar."""
    more = ", …" if len(names) > at_most else ""
    return (f"there are {', '.join(names[:at_most])}{more}" if names else "there are none",)
