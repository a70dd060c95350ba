"""Recognition of brackets and texts that are written as Python has them.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from xg.diagnostics.source import Span
from xg.syntax import errors
from xg.syntax.known_labels import SIGNS
from xg.syntax.stop import Repair, Stop

_NAME = 200  # characters of the name of a node, at most
_ABOVE = 4_000  # characters of a block that are looked at for shapes


def _colon_in_brackets(stop: Stop) -> Repair | None:
    """`BC[b -> b, e:E]` and `Layer(E: 2)`, as a dictionary has it."""
    before, behind = stop.previous, stop.following
    if stop.token.type != "COLON" or stop.opening is None or "EQUAL" not in stop.expected:
        return None
    if not before or before.type != "NAME" or not behind or behind.type not in ("NAME", "NUMBER"):
        return None
    value = re.match(r"([^,()\[\]]*)(?:,[^()\[\]]*)?[)\]]", stop.line[1])
    if value is None:
        return None  # it is not closed
    meant = f"{stop.span(before).text}={value[1].strip()}"
    reason = "what belongs to a name in brackets stands behind `=`"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant), ("EQUAL",), drop=True)


def _text_as_word(stop: Stop) -> Repair | None:
    """`BCE("logits")`."""
    inside = stop.opening is not None and stop.opening.type == "LPAR"
    word = stop.here.text[1:-1]
    if stop.token.type != "STRING" or not inside or "NAME" not in stop.expected:
        return None
    if not word.isidentifier():
        return None
    reason = "a word in parentheses has no quotes"
    return Repair(errors.ShapeElsewhere(stop.here, reason, word), ("NAME",), drop=True)


def _positions_in_brackets(stop: Stop) -> Repair | None:
    """`-> [:, 1:]`, and the same behind a name."""
    if stop.token.type != "LSQB" or stop.opening:
        return None
    entries = re.match(r"([^\[\]]*:[^\[\]]*)\]", stop.line[1])
    if entries is None:
        return None
    each = [entry.strip() for entry in entries[1].split(",")]
    cut = [(place, entry) for place, entry in enumerate(each) if entry != ":"]
    if len(cut) != 1 or not re.fullmatch(r"\w*:-?\w*|\w+", cut[0][1]):
        return None
    place, entry = cut[0]
    axis = _axis(stop, place)
    start, _, end = entry.partition(":")
    if ":" not in entry:
        meant = f"pick[{axis}]({entry})"
    else:
        last = f"{axis} - {end[1:]}" if end.startswith("-") else end or axis
        meant = f"slice[{axis}]({start or 0}, {last})"
    reason = "positions are taken by slice, one of them by pick"
    return Repair(errors.ShapeElsewhere(stop.here, reason, f"-> {meant}"))


def _axis(stop: Stop, place: int) -> str:
    """The axis at a place of the value that the line begins with; S where no text says it."""
    head = re.match(r"\w+", stop.line[0])
    above = stop.source.text[max(0, stop.token.start - _ABOVE) : stop.token.start]
    block = above[max(0, above.rfind("\nblock")) :]
    written = head and re.search(rf"\b{head[0]}\s*\[([^\]]*)\]", block)
    axes = [axis.strip() for axis in written[1].split(",")] if written else []
    return axes[place] if place < len(axes) and axes[place].isidentifier() else "S"


def _formula_as_axis(stop: Stop) -> Repair | None:
    """`mean[H/2, W/2]`."""
    opening = stop.opening
    if stop.token.type not in SIGNS or opening is None or opening.type != "LSQB":
        return None
    if not {"COMMA", "RSQB"} <= stop.expected:
        return None
    text = stop.source.text
    node = re.search(r"\w+$", text[max(0, opening.start - _NAME) : opening.start])
    inside = re.match(r"[^\[\]\n]*", text[opening.end :])
    if node is None or inside is None:
        return None
    start = text.rfind(",", opening.end, stop.token.start) + 1 or opening.end
    end = start + len(text[start : opening.end + len(inside[0])].partition(",")[0])
    formula = text[start:end]
    start += len(formula) - len(formula.lstrip())
    span = Span(stop.source, start, start + len(formula.strip()))
    return Repair(errors.AxisFormula(span, node[0]))


def _list_of_peers(stop: Stop) -> Repair | None:
    """`[a, b] -> C`."""
    if stop.token.type != "LSQB" or not stop.begins_line:
        return None
    peers = re.match(r"([\w., ]+)\](\s*->.*)", stop.line[1])
    if peers is None:
        return None
    reason = "several values begin a chain with commas, without brackets"
    return Repair(errors.ShapeElsewhere(stop.here, reason, f"{peers[1]}{peers[2]}"))


def _times_a_number(stop: Stop) -> Repair | None:
    """`-> *0.5`."""
    if stop.token.type != "NUMBER" or not re.search(r"->\s*[*⊙]\s*$", stop.line[0]):
        return None
    meant = f"-> scale({stop.here.text})"
    return Repair(errors.ShapeElsewhere(stop.here, "a number multiplies by scale", meant))


def _times_as_a_letter(stop: Stop) -> Repair | None:
    """`2x Layer`."""
    before, behind = stop.previous, stop.following
    if not before or before.type != "NUMBER" or not behind or behind.type != "NAME":
        return None
    if stop.here.text != "x" or before.end != stop.token.start:
        return None
    meant = f"{stop.span(before).text} × {stop.span(behind).text}"
    reason = "a row of calls is written `×`, or `*` from the keyboard"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant), ("STAR",), drop=True)


def _not_learned(stop: Stop) -> Repair | None:
    """`param c [G] fixed`."""
    front, word = stop.line[0], stop.here.text.lower()
    words = ("fixed", "const", "constant", "buffer", "nograd", "no_grad")
    if "FROZEN" not in stop.expected or word not in words:
        return None
    name = re.search(r"\w+\s*\[[^\]]*\]$", front)
    reason = "a parameter or an input that is not learned is `frozen`"
    meant = f"{name[0] if name else ''} frozen".lstrip()
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant), ("FROZEN",), drop=True)


BRACKETS: tuple[Callable[[Stop], Repair | None], ...] = (
    _colon_in_brackets,
    _text_as_word,
    _positions_in_brackets,
    _formula_as_axis,
    _list_of_peers,
    _times_a_number,
    _times_as_a_letter,
    _not_learned,
)
