"""Recognition of guards that are written as elsewhere: two conditions, no word, parentheses.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from xg.syntax import errors
from xg.syntax.guards import ENDS, guard_behind
from xg.syntax.stop import NEAR, Repair, Stop


def _guard_elsewhere(stop: Stop) -> Repair | None:
    """`if norm = pre or norm = post`, `if (norm = pre)`, `if norm = "pre"`, `if norm in (…)`."""
    front, behind = stop.near
    begun = re.search(r"\bif\b(?!.*\bif\b)", front)
    if begun is None or (stop.statement is not None and stop.statement.type == "OP"):
        return None
    inside = front[begun.end() :]
    if ENDS.search(inside):
        return None  # the guard ends in front of the token
    guard = guard_behind(f"{inside}{behind}")
    if guard is None or ENDS.match(stop.here.text):
        return None
    return Repair(errors.ShapeElsewhere(stop.here, *guard))


def _guard_behind_a_label(stop: Stop) -> Repair | None:
    """`x -> tanh : y if norm = pre`."""
    label = re.search(r":\s*\w+(?:\s*\[[^\[\]]*\])?$", stop.line[0][-NEAR:])
    if stop.token.type != "IF" or label is None or "IF" in stop.expected:
        return None
    guard = guard_behind(stop.line[1][:NEAR])
    if guard is None or "`" in guard.meant:
        return None
    reason = "a guard stands behind its node, and the label behind the guard"
    return Repair(errors.ShapeElsewhere(stop.here, reason, f"{guard.meant} {label[0]}"))


def _guard_without_word(stop: Stop) -> Repair | None:
    """`-> LN if norm`: a guard names the word for which its node is there."""
    negated = re.search(r"\bif\s+not$", stop.line[0])
    front = f"{stop.line[0]} {stop.here.text}" if negated else stop.line[0]
    guard = re.search(r"\bif\s+(not\s+)?(\w+)$", front)
    if guard is None or "EQUAL" not in stop.expected:
        return None
    declared = re.search(rf"^[ \t]*option[ \t]+{guard[2]}[ \t]*=([^#\n]*)", stop.source.text, re.M)
    words = re.findall(r"\w+", declared[1]) if declared else ["yes", "no"]
    word = words[-1] if guard[1] else words[0]
    defined = "" if declared else f"option {guard[2]} = {' | '.join(words)}` and `"
    meant = f"{defined}if {guard[2]} = {word}"
    reason = "an `if` names an option, and the word of it for which the node is there"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


GUARDS: tuple[Callable[[Stop], Repair | None], ...] = (
    _guard_elsewhere,
    _guard_behind_a_label,
    _guard_without_word,
)
