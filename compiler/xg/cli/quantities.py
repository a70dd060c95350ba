"""Numbers and lists among the words of a command line."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from math import isfinite


def natural(text: str) -> int:
    """0, 1, 2 …"""
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    if len(text) > 9:
        raise ArgumentTypeError("numbers end at 999999999")
    return int(text)


def positive(text: str) -> int:
    """1, 2, 3 …"""
    if text.startswith("-") or natural(text) == 0:
        raise ArgumentTypeError("at least 1")
    return int(text)


def port(text: str) -> int:
    """The number of a port."""
    if natural(text) > 65_535:
        raise ArgumentTypeError("ports end at 65535")
    return int(text)


def amount(text: str) -> float:
    """A real number, at least 0."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not (isfinite(number) and number >= 0):
        raise ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return number


_UNITS = {"in": 72.0, "cm": 72 / 2.54, "mm": 72 / 25.4, "pt": 1.0}


def length(text: str) -> float:
    """3.3in, 84mm: a length in points."""
    for unit, points in _UNITS.items():
        if text.endswith(unit):
            found = amount(text.removesuffix(unit)) * points
            if 20 <= found <= 10_000:
                return found
            raise ArgumentTypeError(f"{text!r} should be from 20pt to 10000pt")
    raise ArgumentTypeError(f"{text!r} is not a width such as 3.3in, 84mm, 8.4cm or 240pt")


class OneOrMore:
    """Known words with commas between them: a tuple of those, in the order of the known ones."""

    def __init__(self, known: Sequence[str]) -> None:
        self.known = known

    def __call__(self, text: str) -> tuple[str, ...]:
        """`fd,torch`."""
        words = {word.strip() for word in text.split(",")}
        for word in sorted(words.difference(self.known)):
            raise ArgumentTypeError(f"{word!r} is none of {', '.join(self.known)}")
        return tuple(word for word in self.known if word in words)
