"""Recognition of guards that are written as elsewhere: two conditions, parentheses, quotes.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from xg.syntax import errors
from xg.syntax.stop import Repair, Stop

_NEAR: Final = 300  # characters at either side of a token that are looked at, at most
_END: Final = re.compile(r"->|[:#\n{}]|\bas\b|\bwhere\b")
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
    written = _END.split(text, maxsplit=1)[0]
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


def _guard_elsewhere(stop: Stop) -> Repair | None:
    """`if norm = pre or norm = post`, `if (norm = pre)`, `if norm = "pre"`, `if norm in (…)`."""
    text, start = stop.source.text, stop.token.start
    front = text[max(0, start - _NEAR) : start].rpartition("\n")[2]
    begun = re.search(r"\bif\b(?!.*\bif\b)", front)
    if begun is None or (stop.statement is not None and stop.statement.type == "OP"):
        return None
    inside = front[begun.end() :]
    if _END.search(inside):
        return None  # the guard ends in front of the token
    guard = guard_behind(f"{inside}{text[start : start + _NEAR]}")
    if guard is None or _END.match(stop.here.text):
        return None
    return Repair(errors.ShapeElsewhere(stop.here, *guard))


def _guard_behind_a_label(stop: Stop) -> Repair | None:
    """`x -> tanh : y if norm = pre`."""
    label = re.search(r":\s*\w+(?:\s*\[[^\[\]]*\])?$", stop.line[0][-_NEAR:])
    if stop.token.type != "IF" or label is None or "IF" in stop.expected:
        return None
    guard = guard_behind(stop.line[1][:_NEAR])
    if guard is None or "`" in guard.meant:
        return None
    reason = "a guard stands behind its node, and the label behind the guard"
    return Repair(errors.ShapeElsewhere(stop.here, reason, f"{guard.meant} {label[0]}"))


GUARDS: tuple[Callable[[Stop], Repair | None], ...] = (
    _guard_elsewhere,
    _guard_behind_a_label,
)
