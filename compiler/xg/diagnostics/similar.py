"""The known name that somebody most likely meant."""

from __future__ import annotations

from collections.abc import Iterable


def similar(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to one, in capitals or not; None if none is close."""
    from difflib import get_close_matches  # only a wrong name pays for it

    lowered = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), list(lowered), n=1)
    return lowered[close[0]] if close else None
