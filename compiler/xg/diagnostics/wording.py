"""Word messages: numbers with their nouns, and the known name that somebody meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final


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
