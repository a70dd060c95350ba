"""Recognize lines, signatures and imports of other languages: `def f`, `x float`, `import f`.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.terminal import SLIP, similar
from xg.syntax import errors
from xg.syntax.error_token import NEAR, Repair, Stop
from xg.syntax.known_python import is_value

DECLARING: Final = {"BLOCK", "OP", "PARAM", "STATE"}
_INSIDE: Final = ("param", "state", "next", "dim", "highlight", "note", "expect")
_OUTSIDE: Final = ("edition", "use", "dim", "mesh", "option", "op", "block", "plan", "example")
_ELSEWHERE: Final = {
    **dict.fromkeys(("parameter", "parameters", "weight", "weights", "tensor"), "param"),
    **dict.fromkeys(("size", "sizes", "dimension", "dimensions", "axis", "axes"), "dim"),
    **dict.fromkeys(("def", "fn", "func", "function", "layer"), "block"),
}
_SHAPED: Final = re.compile(r"\w+\s*\[[^\]\n]*\](\s*in\s+\w+|\s*frozen)*$")
_HEAD: Final = re.compile(r'\w+\s*("[^"]*"\s*)?\(')
_BY_NAME: Final = (
    "an expression finds axes by name: an operand without one is repeated along it",
    "op f(x [.., S, D], s [.., S]) = x * s",
)
_FUNCTION: Final = re.compile(r"(\w+\([^()]*\))\s*(?::\s*return\s|=)\s*(.+)")
_RETURN: Final = (
    "the signature names the outputs; a line computes one if it ends in its name: `-> tanh : Y`"
)
_SIGNS: Final = {"STAR", "SLASH", "PLUS", "MINUS", "CARET", "MUL", "ADD", "AT"}
_NEW_AXES: Final = ("BC", "fill", "normal", "uniform", "bernoulli")  # what their brackets list
_PORT: Final = 200  # characters of a name with its shape, at most


def other_word(stop: Stop) -> Repair | None:
    """`params W [D]`, `dims B, D`, `blok F(…)`, `return y`; `D = 3` outside of a block."""
    first, outside = stop.previous, "item" in stop.reader.choices and stop.begins_line
    if outside:
        first, second, rest = stop.token, stop.following, stop.line[1]
    else:
        second, rest = stop.token, f"{stop.here.text}{_text_after(stop)}"
    if first is None or first.type != "NAME" or second is None:
        return None
    span = stop.span(first)
    listed = second.type == "COMMA" and "=" in rest and "->" not in rest
    if outside and (second.type == "EQUAL" or listed):
        sizes = f"{span.text}{'' if listed else ' '}{rest}"
        return Repair(errors.OtherWord(span, (f"write `dim {sizes}`",)))
    if second.type != "NAME" or (not outside and first is not stop.statement):
        return None
    if span.text == "return":
        return Repair(errors.OtherWord(span, (_RETURN,)))
    known = _OUTSIDE if outside else _INSIDE if stop.reader.awaits("statement") else ()
    word = _ELSEWHERE.get(span.text.lower()) or similar(span.text, known, SLIP)
    if word is None or word not in known or (word == "block" and not _HEAD.match(rest)):
        return None
    if word == "block" and (formula := _FUNCTION.fullmatch(rest)):
        return Repair(errors.OtherWord(span, (f"write `op {formula[1]} = {formula[2]}`",)))
    problem = errors.OtherWord(span, (f"did you mean {word}? write `{word} {rest}`",), word)
    return Repair(problem, (word.upper(),), drop=True) if outside else Repair(problem)


def _text_after(stop: Stop) -> str:
    """Return the text of the line after the token, including leading blanks."""
    text, end = stop.source.line_text(stop.here.line), stop.here.column - 1 + len(stop.here.text)
    return text[end:].partition("#")[0].rstrip()


def missing_comma_of_shapes(stop: Stop) -> Repair | None:
    """`param W [D, D] b [D]`, `F(x [B] z [B])`, in one line or in several."""
    before, text = stop.previous, stop.source.text
    in_parentheses = stop.opening is not None and stop.opening.type == "LPAR"
    shaped = stop.following is not None and stop.following.type == "LSQB"
    ends = {"RSQB", "NAME", "FROZEN"} if in_parentheses and shaped else {"RSQB"}
    if before is None or before.type not in ends or stop.token.type != "NAME":
        return None
    lists = "COMMA" in stop.expected and "ARROW" not in stop.expected
    if not lists or not (in_parentheses or (stop.opening is None and not stop.begins_line)):
        return None
    head = text[stop.token.start :].partition("{")[0]
    if in_parentheses and head.count(")") <= head.count("("):
        return None  # it is the parenthesis that is missing
    if stop.repaired:
        return Repair(None, ("COMMA",))
    found = _SHAPED.search(text, max(0, before.end - _PORT), before.end)
    port = Span(stop.source, found.start() if found else before.start, before.end)
    return Repair(errors.MissingComma(port, stop.here, _list_of(stop, port)), ("COMMA",))


def _list_of(stop: Stop, port: Span) -> Span:
    """The parentheses around a port, the line of a parameter, or the outputs of a head."""
    text = stop.source.text
    if stop.opening:
        start, end = stop.opening.start, text.find(")", port.end) + 1
    else:
        is_line = stop.statement is not None and stop.statement.type in ("PARAM", "STATE")
        start = stop.statement.start if stop.statement and is_line else port.start
        end = start + len(re.split(r"[\n{]", text[start:], maxsplit=1)[0])
    return Span(stop.source, start, end)


def bare_shape(stop: Stop) -> Repair | None:
    """`b [D]` as a line of its own."""
    front = stop.line[0]
    if stop.token.type not in ("_NL", "$END", "RBRACE") or "LPAR" not in stop.expected:
        return None
    if stop.opening or not _SHAPED.fullmatch(front) or not stop.reader.awaits("statement"):
        return None
    reason = "declare a parameter with `param`"
    return Repair(errors.ShapeElsewhere(stop.here, reason, f"param {front}"))


def shape_of_a_declaration(stop: Stop) -> Repair | None:
    """`param W(D, D)`."""
    declares = stop.statement is not None and stop.statement.type in DECLARING - {"OP"}
    if stop.token.type != "LPAR" or "LSQB" not in stop.expected or not declares:
        return None
    front, behind = stop.line
    name, axes = re.search(r"(\w+)$", front[-_PORT:]), re.match(r"[^()]*(?=\))", behind)
    if name is None or axes is None:
        return None
    reason = "a shape goes in brackets"
    return Repair(errors.ShapeElsewhere(stop.here, reason, f"{name[1]} [{axes[0]}]"))


def outputs_of_a_head(stop: Stop) -> Repair | None:
    """`F(x [B]) -> [B] {`, `F(x [B]) -> (y [B], z [B]) {` and `F(x [B]) {`."""
    kind, (front, behind) = stop.token.type, stop.line
    arrived = stop.previous is not None and stop.previous.type == "ARROW"
    if arrived and "ports" in stop.reader.choices and kind == "LSQB":
        shape = behind.partition("]")[0]
        reason = "an output has a name before its shape"
        return Repair(errors.ShapeElsewhere(stop.here, reason, f"-> Y [{shape}]"), ("NAME",))
    if arrived and "ports" in stop.reader.choices and kind == "LPAR":
        meant = f"-> {behind.partition(')')[0]}"
        reason = "outputs follow the arrow without parentheses"
        return Repair(errors.ShapeElsewhere(stop.here, reason, meant))
    closed = stop.previous is not None and stop.previous.type == "RPAR"
    if kind == "LBRACE" and closed and "ARROW" in stop.expected and front.startswith("block"):
        shape = re.search(r"\[[^\]]*\]", front)
        meant = f"{front} -> Y {shape[0] if shape else '[B, D]'} {{"
        return Repair(
            errors.ShapeElsewhere(stop.here, "a signature names the outputs of the block", meant)
        )
    return None


# ---- brackets and texts as Python has them -------------------------------------------------------


def _colon_in_brackets(stop: Stop) -> Repair | None:
    """Report `BC[b -> b, e:E]` and `Layer(E: 2)`, written like Python dictionaries."""
    before, behind = stop.previous, stop.following
    if stop.token.type != "COLON" or stop.opening is None or "EQUAL" not in stop.expected:
        return None
    if not before or before.type != "NAME" or not behind or behind.type not in ("NAME", "NUMBER"):
        return None
    value = re.match(r"([^,()\[\]]*)(?:,[^()\[\]]*)?[)\]]", stop.line[1])
    if value is None:
        return None  # it is not closed
    meant = f"{stop.span(before).text}={value[1].strip()}"
    reason = "the size of a name in brackets goes after `=`"
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
    """`-> [:, 1:]` and `x[:, 1:]`."""
    begins = stop.token if stop.token.type == "LSQB" and not stop.opening else stop.opening
    if begins is None or begins.type != "LSQB" or stop.token.type not in ("LSQB", "COLON"):
        return None
    entries = re.match(r"([^\[\]\n]*:[^\[\]\n]*)\]", stop.source.text[begins.end :])
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
    if stop.statement is not None and stop.statement.type == "OP":
        return Repair(errors.ShapeElsewhere(stop.here, *_BY_NAME))
    reason = "use slice to take positions, or pick to take one"
    attached = re.search(r"<[-=]\s*(\w+)\[[^\[\]]*$", stop.line[0])
    name = attached or re.match(r"(\w+)(?=\[)", stop.line[0])
    chain = f"{name[1] + ' ' if name else ''}-> {meant}"
    return Repair(errors.ShapeElsewhere(stop.here, reason, f"({chain})" if attached else chain))


def _axis(stop: Stop, place: int) -> str:
    """The axis at a place of the value that is indexed, or that the line begins with; else S."""
    front, above = stop.line[0], stop.source.text[: stop.token.start]
    attached = re.search(r"<[-=]\s*(\w+)\[[^\[\]]*$", front)
    head = attached[1] if attached else re.split(r"\W", front, maxsplit=1)[0]
    written = [*re.finditer(rf"\b{re.escape(head)} \[([^\]]*)\]", above)]
    axes = written[-1][1].split(", ") if written else []
    return axes[place] if place < len(axes) and axes[place].isidentifier() else "S"


def _formula_as_axis(stop: Stop) -> Repair | None:
    """`mean[H/2, W/2]`."""
    opening = stop.opening
    if stop.token.type not in _SIGNS or opening is None or opening.type != "LSQB":
        return None
    if not {"COMMA", "RSQB"} <= stop.expected:
        return None
    text = stop.source.text
    node = re.search(r"\w+$", text[max(0, opening.start - _PORT) : opening.start])
    inside = re.match(r"[^\[\]\n]*", text[opening.end :])
    if node is None or inside is None:
        return None
    place = stop.token.start - opening.end
    items = re.finditer(r"\s*((?:(?!->)[^,()])*[^,()\s>])", inside[0])
    item = next((each for each in items if each.end() > place), None)
    if item is None:
        return None
    formula = item[1].rstrip(" -")
    span = Span(
        stop.source, opening.end + item.start(1), opening.end + item.start(1) + len(formula)
    )
    if is_value(text[: opening.start], node[0]):
        block = text[max(0, text.rfind("\nblock", 0, opening.start)) : opening.start]
        states = re.findall(r"^[ \t]*state\b.*", block, re.M)
        if re.fullmatch(r"\w+ ?- ?1", formula) and any(node[0] in each for each in states):
            reason = "a round starts with the state of the previous round"
            return Repair(errors.ShapeElsewhere(span, reason, node[0]))
        reason = "use slice to take positions, or pick to take one"
        meant = f"{node[0]} -> pick[S]({formula})"
        return Repair(errors.ShapeElsewhere(span, reason, meant))
    name = next(name for name in _free_names() if not re.search(rf"\b{name}\b", text))
    before, behind = inside[0][: item.start(1)], inside[0][item.start(1) + len(formula) :]
    new = "->" in before or node[0] in _NEW_AXES
    brackets = f"[{before}{name}{f'={formula}' if new else ''}{behind}]"
    is_listed = not new and "->" not in behind
    return Repair(errors.AxisFormula(span, f"{node[0]}{brackets}", name if is_listed else ""))


def _free_names() -> Iterator[str]:
    """Names that an axis may get, without end."""
    yield "n"
    yield from (f"n_{number}" for number in count(2))


def _list_of_peers(stop: Stop) -> Repair | None:
    """`[a, b] -> C`."""
    if stop.token.type != "LSQB" or not stop.begins_line:
        return None
    peers = re.match(r"([\w., ]+)\](\s*->.*)", stop.line[1])
    if peers is None:
        return None
    reason = "separate the values before a chain with commas, without brackets"
    return Repair(errors.ShapeElsewhere(stop.here, reason, f"{peers[1]}{peers[2]}"))


def _number_as_node(stop: Stop) -> Repair | None:
    """`-> *0.5`, `-> + 1`, `-> 1 - x` and `-> 2 : y`."""
    token, front, before = stop.token, stop.line[0], stop.previous
    if token.type == "NUMBER" and re.search(r"->\s*[*⊙]\s*$", front):
        meant = f"-> scale({stop.here.text})"
        return Repair(errors.ShapeElsewhere(stop.here, "a number multiplies by scale", meant))
    if token.type == "NUMBER" and re.search(r"->\s*[+⊕]\s*$", front):
        return _of_a_number(stop.here, f"x + {stop.here.text}")
    if before is None or before.type != "NUMBER" or "MUL" in stop.expected:
        return None
    number = stop.span(before).text
    if not re.search(rf"->\s*{re.escape(number)}$", front):
        return None
    if token.type in _SIGNS:
        return _of_a_number(stop.span(before), f"{number} {stop.sign} x")
    if token.type not in ("COLON", "ARROW", "_NL", "RBRACE"):
        return None
    reason = "a number is not a node of a chain: multiply with scale"
    return Repair(errors.ShapeElsewhere(stop.span(before), reason, f"-> scale({number})"))


def _of_a_number(span: Span, formula: str) -> Repair:
    """A formula of a number as an operator of one's own."""
    fault = "is not a node of a chain: use the number in an op of your own"
    define = f"op f(x) = {formula}"
    return Repair(errors.InfixInChain(span, "", "", "-> f", define=define, fault=fault))


def _times_as_a_letter(stop: Stop) -> Repair | None:
    """`2x Layer` and `N x Layer`."""
    before, behind = stop.previous, stop.following
    if not before or not behind or behind.type != "NAME" or stop.here.text != "x":
        return None
    number = before.type == "NUMBER" and before.end == stop.token.start
    if not number and not re.search(r"->\s*\w+$", stop.line[0]):
        return None
    meant = f"{stop.span(before).text} × {stop.span(behind).text}"
    reason = "write a repeat with `×` or `*`"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant), ("STAR",), drop=True)


def _frozen_synonym(stop: Stop) -> Repair | None:
    """`param c [G] fixed`."""
    front, word = stop.line[0], stop.here.text.lower()
    words = ("fixed", "const", "constant", "buffer", "nograd", "no_grad")
    if "FROZEN" not in stop.expected or word not in words:
        return None
    name = re.search(r"\w+\s*\[[^\]]*\]$", front)
    reason = "to not train a parameter or input, write `frozen`"
    meant = f"{name[0] if name else ''} frozen".lstrip()
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant), ("FROZEN",), drop=True)


def _next_of_several(stop: Stop) -> Repair | None:
    """`next h, c = h_1, c_1`."""
    lists = stop.token.type == "COMMA" and stop.expected == frozenset({"EQUAL"})
    if not lists or stop.statement is None or stop.statement.type != "NEXT":
        return None
    front, _, values = f"{stop.line[0]},{stop.line[1]}".partition("=")
    states = [name.strip() for name in front.removeprefix("next").split(",")]
    edges = [name.strip() for name in values.split(",")]
    if len(states) != len(edges) or not all(name.isidentifier() for name in (*states, *edges)):
        return None
    pairs = zip(states, edges, strict=True)
    meant = f"next {', '.join(f'{state} = {edge}' for state, edge in pairs)}"
    reason = "`next` sets one state per line"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


WORDS: tuple[Callable[[Stop], Repair | None], ...] = (
    _colon_in_brackets,
    _text_as_word,
    _positions_in_brackets,
    _formula_as_axis,
    _list_of_peers,
    _number_as_node,
    _times_as_a_letter,
    _frozen_synonym,
    _next_of_several,
    other_word,
    outputs_of_a_head,
    shape_of_a_declaration,
    missing_comma_of_shapes,
    bare_shape,
)


# Recognition of types, shapes and sizes that are written as elsewhere: `x float`, `[B x D]`.
#
# Imported only when a file has an error.


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
    """Return the range to write after a shape instead of a type; "-" for any other word."""
    if _FLOATS.fullmatch(word):
        return ""
    return " in V" if _INTEGERS.fullmatch(word) else " in 2" if _MASKS.fullmatch(word) else "-"


_REASONS: Final = {
    "": "numbers are floats by default",
    " in V": "integers are declared by their range, 0 to V-1",
    " in 2": "a mask is declared by its range, 0 or 1",
}


def _type_of_a_tensor(stop: Stop) -> Repair | None:
    """Report `x float [B]`, `float x [B]` or `x: float [B]`, in a head or after `param`."""
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
    reason = "separate axes with commas"
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
    problem = errors.ShapeElsewhere(stop.here, "set a value with `=`", meant)
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
    reason = "a number has decimal digits only"
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


# Recognition of lines outside of blocks as other languages have them: `import f`, `f(x) = x + 1`.
#
# Imported only when a file has an error.


_LINE: Final = 300  # characters of a line that are looked at, at most
_NAMES: Final = r"[({]?\s*(\w+(?:\s*,\s*\w+){0,20})\s*[)}]?"
_FILE: Final = r"(\"[^\"\n]{1,200}\"|[\w./-]{1,200})"
_FORMS: Final = (  # of each, the groups of the names and of the file
    (re.compile(rf"from {_FILE}\s+(?:import|use) {_NAMES}$"), 2, 1),
    (re.compile(rf"(?:import|include|use) {_NAMES}\s+(?:from|of|in) {_FILE}$"), 1, 2),
    (re.compile(rf"use (\"[^\"\n]{{1,200}}\")\s*[:,]?\s*(?:import )?{_NAMES}$"), 2, 1),
    (re.compile(rf"(?:import|include) {_FILE}()$"), 2, 1),
)


def _use(stop: Stop) -> Repair | None:
    """`from "f" import A`, `import f`, `import A from "f.xg"` and `use "f.xg": A`."""
    outside = stop.begins_line and "item" in stop.reader.choices
    if not outside and (stop.statement is None or stop.statement.type != "USE"):
        return None
    line = stop.source.line_text(stop.here.line)[:_LINE].partition("#")[0].strip()
    forms = ((form.match(line), names, file) for form, names, file in _FORMS)
    form = next((each for each in forms if each[0]), None)
    if form is None or form[0] is None:
        return None
    names, file = form[0][form[1]] or "NAME", form[0][form[2]]
    own = file.strip('"')
    quoted = f'"{own if own.endswith(".xg") else f"{own}.xg"}"'
    meant = f"use {names} from {quoted}"
    if '"' not in file and own.isidentifier():
        meant = f"{meant}`, or from the shipped library `use {names} from {own}"
    if stop.token.type == "STRING":
        return Repair(errors.FileBeforeNames(stop.here, meant))
    if stop.statement is not None and '"' not in file:
        return Repair(errors.UnquotedFile(stop.here, f"write `{meant}`"))
    reason = "import names from a file with `use`"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


def _operator(stop: Stop) -> Repair | None:
    """`f(x) = x + 1` outside of a block."""
    if stop.token.type != "NAME" or not stop.begins_line or "item" not in stop.reader.choices:
        return None
    formula = re.match(r"(\([^()\n]{1,100}\))\s*:?=\s*(\S.*)$", stop.line[1][:_LINE])
    if formula is None:
        return None
    meant = f"op {stop.here.text}{formula[1]} = {formula[2]}"
    return Repair(errors.ShapeElsewhere(stop.here, "an operator begins with `op`", meant))


_PLAN_HEAD: Final = re.compile(r'plan\s+(\w+(?:\s+"[^"]*")?)\s*(\{.*)')


def _plan_without_block(stop: Stop) -> Repair | None:
    """`plan DP {`, which names no block."""
    if stop.statement is None or stop.statement.type != "PLAN" or stop.token.type != "LBRACE":
        return None
    head = _PLAN_HEAD.match(stop.source.line_text(stop.here.line)[:_LINE].strip())
    if "OF" not in stop.expected or head is None:
        return None
    blocks = re.findall(r"^block\s+(\w+)", stop.source.text, re.M)
    reason = "a plan names its block"
    meant = f"plan {head[1]} of {blocks[-1] if blocks else 'F'} {head[2]}"
    problem = errors.ShapeElsewhere(stop.here, reason, meant)
    return Repair(problem, ("OF", "NAME"))


USES: tuple[Callable[[Stop], Repair | None], ...] = (
    _use,
    _operator,
    _plan_without_block,
)
