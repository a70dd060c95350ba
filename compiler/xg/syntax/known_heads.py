"""Recognition of types, shapes and sizes that are written as elsewhere: `x float`, `[B x D]`.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from xg.diagnostics.source import Span
from xg.syntax import errors
from xg.syntax.known_words import DECLARING
from xg.syntax.stop import NEAR, Repair, Stop

_ABOVE: Final = 4_000  # characters above a token that are looked at, at most
_FLOATS: Final = re.compile(
    r"(?:b?float|fp|f)(?:16|32|64)|bfloat16|bf16|float|double|half"
    r"|(?:Float|Double|Half|BFloat16)?Tensor|tensor|ndarray"
)
_INTEGERS: Final = re.compile(r"u?int(?:8|16|32|64)?|[iu](?:8|16|32|64)|long|integer|LongTensor")
_MASKS: Final = re.compile(r"bool(?:ean)?|BoolTensor")
_SHAPE: Final = r"\[[^\[\]\n]{0,200}\]"
_LISTED: Final = {"DIM", "MESH"}
_PREFIXES: Final = {"x": 16, "b": 2, "o": 8}


# ---- types of tensors ----------------------------------------------------------------------------


def _kind(word: str) -> str:
    """The range to write behind a shape instead of a type; "-" for a word that is none."""
    if _FLOATS.fullmatch(word):
        return ""
    return " in V" if _INTEGERS.fullmatch(word) else " in 2" if _MASKS.fullmatch(word) else "-"


_REASONS: Final = {
    "": "numbers are floats, and no word says so",
    " in V": "integers are declared by their range, 0 to V-1",
    " in 2": "a mask is declared by its range, 0 or 1",
}


def _type_of_a_tensor(stop: Stop) -> Repair | None:
    """`x float [B]`, `float x [B]`, `x [B] float`, `x: float [B]`, in a head or behind `param`."""
    declares = stop.statement is not None and stop.statement.type in DECLARING
    if stop.token.type not in ("NAME", "COLON") or stop.previous is None:
        return None
    if not declares and (stop.opening is None or stop.opening.type != "LPAR"):
        return None
    front, behind = stop.near
    if stop.source.text[stop.previous.end : stop.token.start].strip() == ":":
        return Repair(None, drop=True)  # the colon was reported with this word
    before = re.search(rf"(\w+)(?:\s*({_SHAPE}))?\s*$", front)
    word = re.match(rf":?\s*(\w+)(?:\s*({_SHAPE}))?", behind)
    if before is None or word is None:
        return None
    shape = before[2] or word[2]
    in_front = not before[2] and stop.token.type == "NAME" and _kind(before[1]) != "-"
    name, kind = (word[1], before[1]) if in_front else (before[1], word[1])
    if shape is None or _kind(kind) == "-":
        return None
    drop = not in_front and (stop.token.type == "NAME" or before[2] is not None)
    meant = f"{name} {shape}{_kind(kind)}"
    place = Span(stop.source, stop.previous.start, stop.previous.end) if in_front else stop.here
    problem = errors.ShapeElsewhere(place, _REASONS[_kind(kind)], meant)
    return Repair(problem, () if drop else ("COMMA",), drop=drop or stop.token.type == "COLON")


# ---- shapes --------------------------------------------------------------------------------------


def _times_between_axes(stop: Stop) -> Repair | None:
    """`[B x D]`, `[B × S × D]` and `[2x3]`."""
    opening = stop.opening
    if opening is None or opening.type != "LSQB" or not {"COMMA", "RSQB"} <= stop.expected:
        return None
    inside = re.match(r"\[([^\[\]\n]{0,200})\]", stop.source.text[opening.start :][:NEAR])
    if inside is None:
        return None
    axes = re.split(r"\s+x\s+|\s*×\s*|(?<=\d)x(?=\d)", inside[1])
    is_sign = stop.token.type == "CROSS" or stop.here.text == "x"
    if not is_sign and not re.fullmatch(r"x\d+", stop.here.text):
        return None
    if len(axes) < 2 or not all(map(str.strip, axes)):
        return None
    insert = ("COMMA",) if is_sign else ()
    if re.search(r"\sx\s|×|\dx", stop.source.text[opening.end : stop.token.start]):
        return Repair(None, insert, drop=is_sign)  # which was reported at the first of them
    meant = f"[{', '.join(map(str.strip, axes))}]"
    reason = "axes have commas between"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant), insert, drop=is_sign)


# ---- sizes ---------------------------------------------------------------------------------------


def _size_behind_a_colon(stop: Stop) -> Repair | None:
    """`dim D: 64` and `dim D 64`."""
    declares = stop.statement is not None and stop.statement.type in _LISTED | {"OPTION"}
    if not declares or stop.opening or "EQUAL" not in stop.expected:
        return None
    front, behind = stop.near
    name = re.search(r"(\w+)\s*$", front)
    if stop.token.type not in ("COLON", "NUMBER") or name is None or stop.statement is None:
        return None
    value = re.match(r":?\s*([^,#:]*[^,#:\s])", behind)
    if value is None:
        return None
    meant = f"{stop.span(stop.statement).text} {name[1]} = {value[1]}"
    problem = errors.ShapeElsewhere(stop.here, "a value is given with `=`", meant)
    return Repair(problem, ("EQUAL",), drop=stop.token.type == "COLON")


def _number_of_code(stop: Stop) -> Repair | None:
    """`0x10` and `1_000`."""
    before, behind = stop.previous, stop.near[1]
    if before is None or before.type != "NUMBER" or before.end != stop.token.start:
        return None
    written = re.match(r"([xbo])([0-9a-fA-F]+)\b", behind)
    groups = re.match(r"(?:_\d{1,20}){1,10}\b", behind)
    if written and stop.span(before).text == "0":
        try:
            digits = str(int(written[2][:20], _PREFIXES[written[1]]))
        except ValueError:
            return None
    elif groups:
        digits = stop.span(before).text + groups[0].replace("_", "")
    else:
        return None
    reason = "a number has decimal digits alone"
    return Repair(errors.ShapeElsewhere(stop.here, reason, digits))


def _is_dim(stop: Stop, front: str) -> bool:
    """Whether the name at a stop is a dim that the line has before, or a line not far above."""
    name = rf"\b{re.escape(stop.here.text)}\b"
    above = stop.source.text[max(0, stop.token.start - _ABOVE) : stop.token.start - len(front)]
    lines = re.findall(r"\bdim ([^#\n]{0,200})", above)
    return any(re.search(name, line) for line in (front, *lines))


def _product_of_sizes(stop: Stop) -> Repair | None:
    """`dim B, N, D, E = N D`, but not `dim D = 4 E = 5`, which lacks a comma."""
    before, listed = stop.previous, stop.statement is not None and stop.statement.type in _LISTED
    if before is None or not listed or stop.opening or stop.repaired:
        return None
    if stop.token.type not in ("NAME", "LPAR") or "STAR" not in stop.expected:
        return None
    front, behind = stop.near
    if "=" not in front.rpartition(",")[2] or re.match(r"\w+\s*=", behind):
        return None
    if before.type == "NUMBER" and not _is_dim(stop, front):
        return None
    start = before.start
    if before.type == "RPAR":
        start = stop.source.text.rfind("(", max(0, start - NEAR), start)
        if start < 0:
            return None
    elif before.type not in ("NAME", "NUMBER"):
        return None
    problem = errors.MissingTimes(Span(stop.source, start, before.end), stop.here)
    return Repair(problem, ("STAR",))


HEADS: tuple[Callable[[Stop], Repair | None], ...] = (
    _type_of_a_tensor,
    _times_between_axes,
    _size_behind_a_colon,
    _number_of_code,
    _product_of_sizes,
)
