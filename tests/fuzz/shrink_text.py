"""A shorter text that fails in the same way: lines are taken out, then words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Fails = Callable[[str], bool]

TRIALS_AT_MOST = 2_000
_WORDS = re.compile(r'"[^"\n]*"|\w+|\s+|.', re.DOTALL)


def shrink_text(text: str, fails: Fails) -> str:
    """The text without what is not needed for the failure."""
    trials = iter(range(TRIALS_AT_MOST))
    for pattern in (re.compile(r"[^\n]*\n|[^\n]+"), _WORDS):
        text = "".join(_without(pattern.findall(text), fails, trials))
    return text


def _without(parts: Sequence[str], fails: Fails, trials: object) -> list[str]:
    """Parts in ever smaller pieces, each left out if it still fails (delta debugging)."""
    left, size = list(parts), max(1, len(parts) // 2)
    while size:
        place, shorter = 0, False
        while place < len(left):
            candidate = left[:place] + left[place + size :]
            if next(trials, None) is None:  # pyright: ignore
                return left
            if fails("".join(candidate)):
                left, shorter = candidate, True
            else:
                place += size
        if not shorter or size > 1:
            size //= 2
    return left
