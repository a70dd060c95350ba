"""Recognition of signs and numbers that are written as elsewhere: `|x|`, `.5`, lists of words.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from xg.syntax import errors
from xg.syntax.known_labels import own_operator
from xg.syntax.stop import Repair, Stop

_LINE = 400  # characters of a line that are looked at, at most


def _bars(stop: Stop) -> Repair | None:
    """`|a - b| : y`, and `op F(x [..]) = |x|`."""
    front, behind = stop.line
    closed = re.match(r"([^|]+)\|\s*(.*)$", behind)
    if stop.here.text != "|" or closed is None or "NAME" not in stop.expected:
        return None
    inner, rest = closed[1].strip(), closed[2]
    if stop.statement is not None and stop.statement.type == "OP":
        return Repair(
            errors.ShapeElsewhere(stop.here, "an absolute value is a function", f"abs({inner})")
        )
    attached = front.endswith(("<-", "<="))
    defined = own_operator(f"abs({inner})", stop) if attached or not front else None
    define, chain = defined or ("op f(x) = abs(x)", "-> f")
    meant = f"{front}({chain})" if attached else f"{chain} {rest}" if defined else chain
    fault = "begins an absolute value, which is a function of an operator of yours"
    return Repair(errors.InfixInChain(stop.here, "", "", meant, define, fault))


def _point_alone(stop: Stop) -> Repair | None:
    """`1.` and `.5`: a point has digits on both sides."""
    if stop.here.text != ".":
        return None
    before, behind = stop.previous, stop.following
    reason = "a point of a number has digits on both sides"
    if before and before.type == "NUMBER" and before.end == stop.token.start:
        digits = stop.span(before).text
        sizes = stop.opening is not None and stop.opening.type == "LSQB"
        if sizes or (stop.statement and stop.statement.type in ("DIM", "MESH")):
            reason, meant = "a size is a whole number", digits
        else:
            meant = f"{digits}.0"
        return Repair(errors.ShapeElsewhere(stop.here, reason, meant), drop=True)
    if behind and behind.type == "NUMBER" and behind.start == stop.token.end:
        return Repair(errors.ShapeElsewhere(stop.here, reason, f"0.{stop.span(behind).text}"))
    return None


def _words_by_commas(stop: Stop) -> Repair | None:
    """`option norm = pre, post`, and `option norm = [pre, post]` or `{pre, post}`."""
    if stop.previous is None:
        return None
    line = stop.source.line_text(stop.span(stop.previous).line)[:_LINE].partition("#")[0]
    listed = re.match(r"option\b.*?(\w+)\s*=\s*[\[({]?\s*(\w+(?:\s*,\s*\w+)+)[\s\])}]*$", line)
    if listed is None:
        return None
    words = " | ".join(re.findall(r"\w+", listed[2]))
    reason = "`|` stands between the words of an option"
    last = stop.span(stop.previous)
    return Repair(errors.ShapeElsewhere(last, reason, f"option {listed[1]} = {words}"))


SIGNS_ELSEWHERE: tuple[Callable[[Stop], Repair | None], ...] = (
    _bars,
    _point_alone,
    _words_by_commas,
)
