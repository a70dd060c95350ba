"""Guards of nodes as other languages have them, in the words of the language.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

ENDS: Final = re.compile(r"->|[:#\n{}]|\bas\b|\bwhere\b")
_JOINED: Final = re.compile(r"(\|\|?|&&?|,|\bor\b|\band\b|\bif\b)")
_PART: Final = re.compile(r"(?:(\w+) ?={1,2} ?)?(\w+)")
_ONE: Final = "a node has one guard, which names one option"
_ALONE: Final = "a guard is an option and its word, without quotes and parentheses"
_WORDS: Final = "`|` stands between the words of a guard"


class Guard(NamedTuple):
    """A guard as it is written here, and the rule that another one broke."""

    reason: str
    meant: str


def guard_behind(text: str) -> Guard | None:
    """The guard that a text behind `if` means, from conditions joined as elsewhere.

    >>> guard_behind("norm = pre or norm = post -> tanh").meant
    'if norm = pre | post'
    >>> guard_behind('(norm == "pre") : y').meant
    'if norm = pre'
    >>> guard_behind("norm = pre and act = gelu : y").meant
    'option norm_act = no | yes` and `if norm_act = yes'
    """
    written = ENDS.split(text, maxsplit=1)[0]
    plain = re.sub(r"\b(?:in|is)\b", "=", re.sub(r"[\"'()\[\]]", " ", written))
    parts = _JOINED.split(" ".join(plain.split()))
    found = [_PART.fullmatch(part.strip()) for part in parts[::2]]
    pairs = [(part[1], part[2]) for part in found if part]
    if len(pairs) < len(found) or not pairs[0][0]:
        return None
    options = dict.fromkeys(option for option, _ in pairs if option)
    words = dict.fromkeys(word for _, word in pairs)
    first = next(iter(options))
    if len(options) == 1:
        reason = _WORDS if len(words) > 1 and len(found) > 1 else _ALONE
        return Guard(reason, f"if {first} = {' | '.join(words)}")
    both = "_".join(options)
    return Guard(_ONE, f"option {both} = no | yes` and `if {both} = yes")
