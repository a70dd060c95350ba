"""Comparisons as other languages write them, turned round in the author's own symbols."""

from __future__ import annotations

import re
from typing import Final

from xg.syntax.foreign import native

_LINE: Final = 200  # characters at each side of a sign that are looked at, at most
_SIGN: Final = re.compile(r"<=|>=|≤|≥|<-(?!\s)|<|(?<![-=])>")
_TURNED: Final = {"<": ">", "<-": ">", "<=": ">=", "≤": ">=", ">": "<", ">=": "<=", "≥": "<="}
_NAME: Final = re.compile(r"[^\W\d_][\w.]*")
_OPEN, _CLOSE = "([{", ")]}"
_ENDS: Final = (",", ";", ":", "#", "->", "|", "&", " if ", " where ", " and ", " or ")


def turned_round(text: str, start: int, end: int) -> str:
    """The help for a sign of a comparison that begins an arrow here, at these offsets."""
    before, behind = _before(text, start), _behind(text, end)
    written = native(text[start:end])  # `←` is an arrow too
    compared = before + written + behind
    if not before.strip() or not behind.strip():
        return "turn the comparison round: `b > a`, `b >= a`"
    if _in_operator(text, start):
        return f"turn the comparison round: `{_written(compared)}`"
    left, right, sign = before.strip(), behind.strip(), _TURNED[written]
    defined, used = f"op f(x, y) = y {sign} x", "-> f<-…"
    if _is_number(right):
        defined, used = f"op f(x) = {right} {sign} x", "-> f"
    elif _NAME.fullmatch(right):
        used = f"-> f<-{right}"
    used = f"{left} {used}" if _NAME.fullmatch(left) else used
    return f"an operator of yours compares: `{defined}`, and `{used}`"


def _written(compared: str) -> str:
    """A comparison with `>` and `>=`, or several, joined by the function that joins them."""
    signs = [found[0] for found in _SIGN.finditer(compared)]
    parts = [part.strip() for part in _SIGN.split(compared)]
    if parts and signs[-1:] == ["<-"]:
        parts[-1] = f"-{parts[-1]}"
    single = [
        f"{right} {_TURNED[sign]} {left}" if sign[0] in "<≤" else f"{left} {sign} {right}"
        for left, sign, right in zip(parts, signs, parts[1:], strict=False)
    ]
    joined = single[-1]
    for each in reversed(single[:-1]):
        joined = f"and({each}, {joined})"
    return joined


def _in_operator(text: str, start: int) -> bool:
    """Whether the innermost declaration at a place is an operator: only these have comparisons."""
    declared = re.findall(r"^\w+", text[:start], re.MULTILINE)
    return bool(declared) and declared[-1] == "op"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d[\w.]*", text) is not None


def _before(text: str, start: int) -> str:
    """The operands of a comparison to the left of its sign: to a comma, a bracket or `=`."""
    line = text[max(text.rfind("\n", 0, start) + 1, start - _LINE) : start]
    depth, place = 0, len(line)
    for place in range(len(line) - 1, -1, -1):
        char = line[place]
        depth += (char in _CLOSE) - (char in _OPEN)
        is_equal = char == "=" and line[place - 1 : place] not in ("<", ">")
        end = _end(line, place) or ("=" if is_equal else "")
        if depth < 0 or (depth == 0 and end):
            return line[place + len(end or char) :].removeprefix("where ")
    return line


def _behind(text: str, end: int) -> str:
    """The operands to the right: to a comma, a bracket or an arrow."""
    line = text[end : end + _LINE].partition("\n")[0]
    depth = 0
    for place, char in enumerate(line):
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth < 0 or (depth == 0 and _end(line, place)):
            return line[:place]
    return line


def _end(line: str, place: int) -> str:
    """The word or sign at a place that no operand of a comparison has; nothing if there is none."""
    return next((each for each in _ENDS if line.startswith(each, place)), "")
