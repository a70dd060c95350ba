"""Recognition of guards that are written as elsewhere: two conditions, parentheses, quotes.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from xg.syntax import errors
from xg.syntax.guards import ENDS, guard_behind
from xg.syntax.stop import Repair, Stop

_NEAR: Final = 300  # characters at either side of a token that are looked at, at most


def _guard_elsewhere(stop: Stop) -> Repair | None:
    """`if norm = pre or norm = post`, `if (norm = pre)`, `if norm = "pre"`, `if norm in (…)`."""
    text, start = stop.source.text, stop.token.start
    front = text[max(0, start - _NEAR) : start].rpartition("\n")[2]
    begun = re.search(r"\bif\b(?!.*\bif\b)", front)
    if begun is None or (stop.statement is not None and stop.statement.type == "OP"):
        return None
    inside = front[begun.end() :]
    if ENDS.search(inside):
        return None  # the guard ends in front of the token
    guard = guard_behind(f"{inside}{text[start : start + _NEAR]}")
    if guard is None or ENDS.match(stop.here.text):
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
