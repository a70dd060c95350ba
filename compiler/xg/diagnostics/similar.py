"""The known name that somebody most likely meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

SHORT: Final = 3  # letters: of a shorter name every change makes another
LONG: Final = 6
COMPARED: Final = 60  # letters of a name: no known one has more


def similar(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to one, in capitals or not; None if none is close."""
    from difflib import get_close_matches  # only a wrong name pays for it

    lowered = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), list(lowered), n=1)
    return lowered[close[0]] if close else None


def slip(name: str, known: Iterable[str]) -> str | None:
    """The known name that a typing slip could have made one of, in capitals or not; None if none.

    A slip is a letter too many, too few, wrong or before its turn; long names may have two.
    """
    allowed = 0 if len(name) < SHORT else 1 if len(name) < LONG else 2
    changes = {other: _changes(name.lower(), other.lower()) for other in known}
    nearest = min(changes, key=lambda other: changes[other], default=None)
    return nearest if nearest is not None and changes[nearest] <= allowed else None


def _changes(one: str, other: str) -> int:
    """The fewest changes that make one text of another."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one[:COMPARED], 1):
        older, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            fewest = min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and (letter, wanted) == (other[j - 2], one[i - 2]):
                fewest = min(fewest, older[j - 2] + 1)
            row.append(fewest)
    return row[-1] + max(0, len(one) - COMPARED)


def there_are(names: Sequence[str], at_most: int = 20) -> tuple[str, ...]:
    """A help line with the known names, where none is similar."""
    more = ", …" if len(names) > at_most else ""
    return (f"there are {', '.join(names[:at_most])}{more}" if names else "there are none",)
