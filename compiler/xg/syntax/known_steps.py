"""Recognize steps, expressions and guards of other languages: `W^T`, `exp x`, `if a and b`.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from xg.diagnostics.diagnostic import Span
from xg.syntax import errors
from xg.syntax.error_token import NEAR, Repair, Stop
from xg.syntax.formulas import ENDS, as_expression, expression_around, guard_behind, shapes_written
from xg.syntax.known_python import is_value

_ABOVE: Final = 4_000  # characters above a token that are looked at, at most
_FUNCTIONS: Final = ("sqrt", "exp", "log")
_NODE: Final = r"[\w.]+(?:\[[^\[\]\n]{0,100}\])?(?:\([^()\n]{0,100}\))?(?:<[-=]\s*\w+)*"
_T: Final = r"\s*(?:\^\s*\(?[Tt⊤](?!\w)|\.(?:T|t|transpose)(?!\w)|ᵀ)"
SCALED: Final = "use scale to multiply by a number"
ROW: Final = "the number of calls goes before the block"
TURNED: Final = "use T to transpose a matrix"


def _near(stop: Stop) -> tuple[str, str]:
    front, behind = stop.near
    return front.strip(), behind.strip()


def _step_repair(stop: Stop, reason: str, meant: str) -> Repair:
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


def _transpose(stop: Stop) -> Repair | None:
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
        return _step_repair(stop, TURNED, f"{'•<=' if operand[1] else ''}T({operand[2]})")
    rest = power[1].lstrip(") ")
    if front.endswith("->"):
        return _step_repair(stop, TURNED, f"{front} T {rest}".rstrip())
    if front.isidentifier() or re.search(rf"->\s*{_NODE}$", front):
        return _step_repair(stop, TURNED, f"{front} -> T {rest}".rstrip())
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
    return _step_repair(stop, SCALED, f"-> scale({number})")


def _times_a_number(stop: Stop) -> Repair | None:
    """Report `tanh * 2`, `x * 0.5` and `L × 4` after an arrow."""
    node = re.search(rf"->\s*({_NODE})\s*[*×⊙]$", _near(stop)[0])
    if stop.token.type != "NUMBER" or node is None:
        return None
    name = re.split(r"\W", node[1], maxsplit=1)[0]
    number = stop.here.text
    head = re.match(r"(\w+)\s*->", _near(stop)[0])
    if (head and head[1] == name) or is_value(stop.source.text[: stop.token.start], name):
        return _step_repair(stop, SCALED, f"-> scale({number})")
    if _is_block(stop, name) or "×" in _near(stop)[0][-2:]:
        return _step_repair(stop, ROW, f"{number} × {node[1]}")
    return _step_repair(stop, SCALED, f"-> {node[1]} -> scale({number})")


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
    """Report `L^4`, `L**4` and `L x 4` after an arrow, where L is a block."""
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
    return _step_repair(stop, ROW, f"{count[1]} × {node[1]}")


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
        return _step_repair(stop, SCALED, f"{formula[2]} -> scale({formula[1]}) {formula[3]}")
    chain = re.match(
        r"([^\W\d]\w*)\s*->\s*(-?[\d.]+(?: */ *[\d.]+)?) *[*⊙]? *(\w+)\s*(?=->|:|$)", whole
    )
    if chain is None or chain[1] != chain[3]:
        return None
    return _step_repair(stop, SCALED, f"{chain[1]} -> scale({chain[2].replace(' ', '')})")


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
        reason = "a call sets the start of a state in parentheses"
        return _step_repair(stop, reason, f"-> {call[1]}({state}={operand[1]}) {call[2]}")
    reason = "operands go next to their node, before `over`"
    return _step_repair(stop, reason, f"-> {call[1]}{operand[0]} {call[2]}")


def _return_in_a_chain(stop: Stop) -> Repair | None:
    """`x -> tanh -> return y`."""
    front = re.search(r"^(.*\S)\s*->\s*return$", _near(stop)[0])
    if stop.token.type != "NAME" or front is None:
        return None
    return _step_repair(stop, "a chain has its name at its end", f"{front[1]} : {stop.here.text}")


def _results_in_parentheses(stop: Stop) -> Repair | None:
    """`: (Y, h)`."""
    names = re.match(r"\(\s*(\w+(?:\s*,\s*\w+){0,20})\s*\)\s*(?=->|$)", _near(stop)[1])
    if stop.token.type != "LPAR" or names is None or not stop.previous:
        return None
    if stop.previous.type != "COLON" or "NAME" not in stop.expected:
        return None
    reason = "separate results with commas, without parentheses"
    return _step_repair(stop, reason, f": {names[1]}")


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
        return _step_repair(stop, "use BC to repeat values along axes", f"BC({name})")
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
    return _step_repair(stop, "use BC to repeat values along the axes of its label", meant)


_RULES: tuple[Callable[[Stop], Repair | None], ...] = (
    _new_axis,
    _transpose,
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


# Recognition of formulas of other languages in an operator: `not x > 0`, `exp x`, `sum(D)(x)`.
#
# Imported only when a file has an error.


_WORDS: Final = ("and", "or", "not")
_REDUCING: Final = r"(sum|mean|max|min)"
_UNARY: Final = (
    *("exp", "log", "log1p", "sqrt", "tanh", "erf", "sin", "cos", "sign", "floor", "round"),
    *("abs", "sigmoid", "softplus", "stop"),
)
_ATOM: Final = r"[\w.]+(?:\([^()\n]{0,100}\))?"
JOINED: Final = "use a function to join comparisons"
CHOSEN: Final = "use a function to choose between two numbers"
NEGATED: Final = "to negate a condition, reverse its comparison"


def _expression_repair(span: Span, reason: str, meant: str) -> Repair:
    return Repair(errors.ShapeElsewhere(span, reason, meant))


def behind_a_sign(stop: Stop) -> Repair | None:
    """`0 ? x`: the sign between two tokens has no meaning, and an error of its own."""
    if stop.previous is None or stop.begins_line or stop.statement is None:
        return None
    between = stop.source.text[stop.previous.end : stop.token.start].strip()
    given_up = stop.statement.type == "OP" or "\\" in between
    return Repair(None) if between and given_up and "\n" not in between else None


def _next_part(stop: Stop) -> Repair | None:
    """`where m = … and s = …`, `where m = … where s = …` and `where m = …; s = …`."""
    front, behind = stop.near
    joins = stop.here.text in ("and", "where", ";", "&", "&&")
    bound = re.match(r"(?:and|where|;|&&?)\s*(\w+\s*=(?!=).*)$", behind)
    if not joins or bound is None or stop.opening or "COMMA" not in stop.expected:
        return None
    if not re.search(r"\bwhere\b.*=", f"{front} "):
        return None
    last = re.search(r"(\w+\s*=[^=]*)$", front)
    meant = f"{last[1].strip() if last else '…'}, {bound[1].strip()}"
    problem = errors.ShapeElsewhere(stop.here, "parts behind `where` have commas between", meant)
    return Repair(problem, ("COMMA",), drop=True)


def _logic_words(stop: Stop) -> Repair | None:
    """`x > 0 and 1 > x`, `x > 0 || 1 > x` and `not x > 0`, in an expression or in brackets."""
    before = stop.previous
    word = stop.here
    if word.text not in (*_WORDS, "|"):
        if before is None or stop.span(before).text not in _WORDS:
            return None
        word = stop.span(before)
    called = stop.following is not None and stop.following.type == "LPAR"
    if stop.here == word and called and "STAR" not in stop.expected:
        return None  # it is a function
    piece = expression_around(stop.source.text, word.start, word.end)
    meant = as_expression(piece)
    if meant is None or not piece.removeprefix(word.text).strip():
        return None
    insert = ("COMMA",) if stop.opening and word == stop.here else ()
    if word.text in ("and", "or"):
        return Repair(errors.InfixWord(word, meant), insert, drop=bool(insert))
    return _expression_repair(word, NEGATED if word.text == "not" else JOINED, meant)


def _chosen(stop: Stop) -> Repair | None:
    """`x if x > 0 else 0`, also inside of parentheses."""
    if stop.token.type != "IF":
        return None
    meant = as_expression(expression_around(stop.source.text, stop.here.start, stop.here.end))
    return _expression_repair(stop.here, CHOSEN, meant) if meant else None


def _matmul(stop: Stop) -> Repair | None:
    """`x @ w`, where axes have names."""
    front, behind = stop.near
    left, right = re.search(r"(\w+)\s*$", front), re.match(r"[@•]\s*(\w+)", behind)
    if stop.token.type not in ("AT", "MATMUL") or left is None or right is None:
        return None
    begin = stop.statement.start if stop.statement else stop.token.start
    shapes = shapes_written(stop.source.text[begin : min(begin + NEAR, stop.token.start)])
    axis = shapes.get(left[1], "").rpartition(",")[2].strip()
    others = [each.strip() for each in shapes.get(right[1], "").split(",")]
    reason = "an expression names its axes, and sums over those in brackets"
    product = f"({left[1]}*{right[1]})"
    if axis.isidentifier() and axis in others and len(others) > 1:
        return _expression_repair(stop.here, reason, f"sum[{axis}]{product}")
    signature = f"op f({left[1]} [.., D], {right[1]} [D, E])"
    return _expression_repair(stop.here, reason, f"{signature} = sum[D]{product}")


def _reduction(stop: Stop) -> Repair | None:
    """`sum(D)(x)`, `sum_{D}(x)`, `sum[D] x` and `sum_D x`."""
    front, behind = stop.near
    operand = rf"(?:\(([^()\n]{{1,100}})\)|({_ATOM}(?:\s*[*^]\s*{_ATOM}){{0,9}}))"
    before = re.search(rf"\b{_REDUCING}(?:\(([\w, ]+)\)|\[([\w, .]+)\]|_(\w+))\s*$", front)
    taken = re.match(operand, behind)
    if stop.token.type == "LBRACE":
        before = re.search(rf"\b{_REDUCING}_()()()$", front)
        braces = re.match(rf"\{{([\w, ]+)\}}\s*{operand}", behind)
        if before is None or braces is None:
            return None
        axes, inside = braces[1], braces[2] or braces[3]
    elif before is None or taken is None:
        return None
    else:
        axes, inside = before[2] or before[3] or before[4], taken[1] or taken[2]
    reason = "axes to reduce go in brackets, and the operand in parentheses"
    return _expression_repair(stop.here, reason, f"{before[1]}[{axes.strip()}]({inside})")


def _call_without_parentheses(stop: Stop) -> Repair | None:
    """`exp x`."""
    before, behind = stop.previous, stop.near[1]
    if before is None or before.type != "NAME" or stop.token.type not in ("NAME", "NUMBER"):
        return None
    name, operand = stop.span(before).text, re.match(rf"{_ATOM}(?:\^[\w.]+)?", behind)
    if name not in _UNARY or operand is None or "LPAR" not in stop.expected:
        return None
    reason = "a function needs its operand in parentheses"
    return _expression_repair(stop.here, reason, f"{name}({operand[0]})")


_EXPRESSION_RULES: tuple[Callable[[Stop], Repair | None], ...] = (
    _next_part,
    _logic_words,
    _chosen,
    _matmul,
    _reduction,
    _call_without_parentheses,
)


def in_expression(stop: Stop) -> Repair | None:
    """Report a formula of another language after the head of an operator."""
    if stop.statement is None or stop.statement.type != "OP":
        return None
    return next((found for rule in _EXPRESSION_RULES if (found := rule(stop)) is not None), None)


# Recognition of guards that are written as elsewhere: two conditions, no word, parentheses.
#
# Imported only when a file has an error.


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
    reason = "a guard goes after its node, and the label after the guard"
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
    reason = "an `if` names an option and a word that keeps the node"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


GUARDS: tuple[Callable[[Stop], Repair | None], ...] = (
    _guard_elsewhere,
    _guard_behind_a_label,
    _guard_without_word,
)
