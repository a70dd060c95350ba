"""Recognition of steps of a chain as other languages have them: `W^T`, `tanh * 2`, `4 * L`.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from xg.syntax import errors
from xg.syntax.formulas import shapes_written
from xg.syntax.known_python import is_value
from xg.syntax.stop import NEAR, Repair, Stop

_ABOVE: Final = 4_000  # characters above a token that are looked at, at most
_FUNCTIONS: Final = ("sqrt", "exp", "log")
_NODE: Final = r"[\w.]+(?:\[[^\[\]\n]{0,100}\])?(?:\([^()\n]{0,100}\))?(?:<[-=]\s*\w+)*"
_T: Final = r"\s*(?:\^\s*\(?[Tt⊤](?!\w)|\.(?:T|t|transpose)(?!\w)|ᵀ)"
SCALED: Final = "a number multiplies by scale"
ROW: Final = "the number of calls stands in front of a block"
TURNED: Final = "a matrix is transposed by T"


def _near(stop: Stop) -> tuple[str, str]:
    front, behind = stop.near
    return front.strip(), behind.strip()


def _elsewhere(stop: Stop, reason: str, meant: str) -> Repair:
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


def _is_block(stop: Stop, name: str) -> bool:
    """Whether the file declares a block of this name."""
    return re.search(rf"^block {re.escape(name)}\b", stop.source.text, re.MULTILINE) is not None


def _is_size(stop: Stop, formula: str) -> bool:
    """Whether a formula is made of numbers, axes of shapes, other dims, and functions of them."""
    names = set(re.findall(r"[^\W\d]\w*", formula)) - {*_FUNCTIONS}
    above = stop.source.text[: stop.token.start]
    lines = re.findall(r"^[ \t]*dim\b([^#\n]*)", above, re.MULTILINE)
    lines += re.findall(r"\[[^\[\]\n]{0,200}\]", above[-_ABOVE:])
    known = all(any(re.search(rf"\b{name}\b", line) for line in lines) for name in names)
    return known and not any(is_value(above, name) for name in names)


def _transposed(stop: Stop) -> Repair | None:
    """`•<=W^T`, `x^T -> f`, `tanh^T`, `•<=W.t()`."""
    front, behind = _near(stop)
    whole = f"{front}{behind}"
    if stop.token.type == "CARET":
        power = re.match(r"(?:\^|\*\*)\s*\(?\s*(?:[Tt](?!\w)|⊤)\)?\s*(.*)$", behind)
    elif stop.token.type == "LPAR" and re.search(r"\w\.(?:t|T|transpose)$", front):
        power = re.match(r"\([^()]*\)\s*(.*)$", behind)
        front = front.rpartition(".")[0]
    else:
        return None
    operand = re.search(r"(?:([@•])\s*<=|<-)\s*(?:T?\()?(\w+)$", front)
    if power is None or ("->" not in whole and ":" not in whole):
        return None
    if operand:
        return _elsewhere(stop, TURNED, f"{'•<=' if operand[1] else ''}T({operand[2]})")
    rest = power[1].lstrip(") ")
    if front.endswith("->"):
        return _elsewhere(stop, TURNED, f"{front} T {rest}".rstrip())
    if front.isidentifier() or re.search(rf"->\s*{_NODE}$", front):
        return _elsewhere(stop, TURNED, f"{front} -> T {rest}".rstrip())
    return None


def _scaled_chain(stop: Stop) -> Repair | None:
    """`q -> •<=T(k) / sqrt(D)` and `q -> •<=T(k) * (1/sqrt(D))`."""
    front, behind = _near(stop)
    factor = re.match(r"[/*⊙]\s*(\S[^:]*?)\s*(?=->|:|$)", behind)
    if stop.token.type not in ("SLASH", "STAR", "MUL") or factor is None or stop.opening:
        return None
    if "->" not in front or front.endswith("->") or "ARROW" not in stop.expected:
        return None
    number = factor[1]
    if re.match(r"<|.*[<@•⊙⊕,\[]", number) or number.count("(") != number.count(")"):
        return None
    if not _is_size(stop, number):
        return None
    plain = re.fullmatch(r"\(([^()]*(?:\([^()]*\)[^()]*)*)\)", number)
    number = plain[1] if plain else number
    if stop.token.type == "SLASH":
        simple = re.fullmatch(r"[\w.]+|\w+\([^()]*\)", number)
        number = f"1/{number}" if simple else f"1/({number})"
    return _elsewhere(stop, SCALED, f"-> scale({number})")


def _times_a_number(stop: Stop) -> Repair | None:
    """`tanh * 2`, `x * 0.5` and `L × 4` behind an arrow."""
    node = re.search(rf"->\s*({_NODE})\s*[*×⊙]$", _near(stop)[0])
    if stop.token.type != "NUMBER" or node is None:
        return None
    name = re.split(r"\W", node[1], maxsplit=1)[0]
    number = stop.here.text
    head = re.match(r"(\w+)\s*->", _near(stop)[0])
    if (head and head[1] == name) or is_value(stop.source.text[: stop.token.start], name):
        return _elsewhere(stop, SCALED, f"-> scale({number})")
    if _is_block(stop, name) or "×" in _near(stop)[0][-2:]:
        return _elsewhere(stop, ROW, f"{number} × {node[1]}")
    return _elsewhere(stop, SCALED, f"-> {node[1]} -> scale({number})")


def _attached_number(stop: Stop) -> Repair | None:
    """`+<-1` and `*<-0.5`."""
    front, behind = _near(stop)
    sign, number = (
        re.search(r"->\s*([+⊕*⊙])\s*<-$", front),
        re.match(r"[\d.]+(?=\s*(?:->|:|$))", behind),
    )
    if stop.token.type != "NUMBER" or sign is None or number is None:
        return None
    define = f"op f(x) = x + {number[0]}` and `-> f"
    meant = define if sign[1] in "+⊕" else f"-> scale({number[0]})"
    return Repair(errors.NumberInChain(stop.here, meant))


def _row_of_a_block(stop: Stop) -> Repair | None:
    """`L^4`, `L**4` and `L x 4` behind an arrow, where L is a block."""
    front, behind = _near(stop)
    node, count = (
        re.search(rf"->\s*({_NODE})$", front),
        re.match(r"(?:\^|\*\*|x\s)\s*(\w+)", behind),
    )
    if node is None or count is None or stop.token.type not in ("CARET", "NAME"):
        return None
    name = re.split(r"\W", node[1], maxsplit=1)[0]
    if not _is_block(stop, name) or (stop.token.type == "NAME" and not count[1].isdigit()):
        return None
    return _elsewhere(stop, ROW, f"{count[1]} × {node[1]}")


def _number_times_a_value(stop: Stop) -> Repair | None:
    """`0.5*x : y`, `x -> 1/2*x`, `x -> -0.5*x` and `x -> 2x`."""
    front, behind = _near(stop)
    whole = f"{front} {behind}"
    if not stop.reader.awaits("statement") or stop.opening or len(whole) > NEAR:
        return None
    if stop.begins_line:
        formula = re.match(r"(-?[\d.]+(?:/[\d.]+)?)\s*[*⊙]\s*([^\W\d]\w*)\s*((?:->|:).*)$", behind)
        if formula is None or stop.token.type not in ("NUMBER", "MINUS"):
            return None
        return _elsewhere(stop, SCALED, f"{formula[2]} -> scale({formula[1]}) {formula[3]}")
    chain = re.match(
        r"([^\W\d]\w*)\s*->\s*(-?[\d.]+(?: */ *[\d.]+)?) *[*⊙]? *(\w+)\s*(?=->|:|$)", whole
    )
    if chain is None or chain[1] != chain[3]:
        return None
    return _elsewhere(stop, SCALED, f"{chain[1]} -> scale({chain[2].replace(' ', '')})")


def _state_of(stop: Stop, block: str, value: str) -> str:
    """The state of a block that a value is a start of, as `h_0` is of `h`; "" if it has none."""
    text = stop.source.text
    head = re.search(rf"^block {re.escape(block)}\b", text, re.MULTILINE)
    if head is None:
        return value.removesuffix("_0") if value.endswith("_0") else ""
    body = text[head.end() : head.end() + _ABOVE].partition("\n}")[0]
    lines = re.findall(r"\bstate ([^\n#]{1,200})", body)
    states = [name for line in lines for name in re.findall(r"(\w+) ?[\[,]", line)]
    return next((each for each in states if value.startswith(each)), states[0] if states else "")


def _operand_behind_over(stop: Stop) -> Repair | None:
    """`-> Cell over S<-h_0`."""
    front, behind = _near(stop)
    call = re.search(rf"->\s*({_NODE})\s+(over\s+\w+(?:\s+reversed)?)$", front)
    operand = re.match(r"<[-=]\s*(\w+)", behind)
    if stop.token.type not in ("SINGLE", "DOUBLE") or call is None or operand is None:
        return None
    if "(" not in call[1] and (state := _state_of(stop, call[1], operand[1])):
        reason = "a state begins with a value that the call names in parentheses"
        return _elsewhere(stop, reason, f"-> {call[1]}({state}={operand[1]}) {call[2]}")
    reason = "an operand is attached to its node, in front of `over`"
    return _elsewhere(stop, reason, f"-> {call[1]}{operand[0]} {call[2]}")


def _return_in_a_chain(stop: Stop) -> Repair | None:
    """`x -> tanh -> return y`."""
    front = re.search(r"^(.*\S)\s*->\s*return$", _near(stop)[0])
    if stop.token.type != "NAME" or front is None:
        return None
    return _elsewhere(stop, "a chain has its name at its end", f"{front[1]} : {stop.here.text}")


def _results_in_parentheses(stop: Stop) -> Repair | None:
    """`: (Y, h)`."""
    names = re.match(r"\(\s*(\w+(?:\s*,\s*\w+){0,20})\s*\)\s*(?=->|$)", _near(stop)[1])
    if stop.token.type != "LPAR" or names is None or not stop.previous:
        return None
    if stop.previous.type != "COLON" or "NAME" not in stop.expected:
        return None
    reason = "several results have commas between, and no parentheses"
    return _elsewhere(stop, reason, f": {names[1]}")


_ENTRY: Final = r"(?:np\.)?(?::|\.{2,3}|None|newaxis)"
_INDEXED: Final = re.compile(
    rf"(<[-=]\s*|^)(\w+)\[\s*({_ENTRY}(?:\s*,\s*{_ENTRY}){{0,9}})\s*\](.*)"
)


def _new_axis(stop: Stop) -> Repair | None:
    """`x[:, None]` at the start of a line, and `<-b[None, :]`."""
    front, behind = _near(stop)
    found = _INDEXED.search(f"{front}{behind}")
    if found is None or not re.search("None|newaxis", found[3]) or "[" not in front:
        return None
    name = found[2]
    if found[1]:
        return _elsewhere(stop, "values are repeated along axes by BC", f"BC({name})")
    label = re.match(r"\s*:\s*(\w+)\s*(\[[^\[\]]*\])?", found[4])
    text, shapes = stop.source.text, dict[str, str]()
    if (block := text.rfind("\nblock", 0, stop.token.start)) > stop.token.start - _ABOVE:
        above = text[block + 1 : stop.token.start - len(front)]
        shapes = {**shapes_written(above), **shapes_written(above.partition("{")[0])}
    old = [each.strip() for each in shapes.get(name, "B").split(",")]
    entries = [each.strip() for each in found[3].split(",")]
    placed = [old.pop(0) if each == ":" and old else "N" for each in entries]
    new = ", ".join([*placed, *old])
    made = shapes.get(label[1], new) if label else new
    shape = (
        label[2]
        if label and label[2]
        else f"[{made if made.count(',') == new.count(',') else new}]"
    )
    meant = f"{name} -> BC : {label[1] if label else f'{name}_2'} {shape}"
    return _elsewhere(stop, "values are repeated by BC along the axes of its label", meant)


_RULES: tuple[Callable[[Stop], Repair | None], ...] = (
    _new_axis,
    _transposed,
    _attached_number,
    _row_of_a_block,
    _scaled_chain,
    _times_a_number,
    _number_times_a_value,
    _operand_behind_over,
    _return_in_a_chain,
    _results_in_parentheses,
)


def in_chain(stop: Stop) -> Repair | None:
    """A step of another language in a line of a block."""
    if not stop.reader.awaits("statement"):
        return None
    return next((found for rule in _RULES if (found := rule(stop)) is not None), None)
