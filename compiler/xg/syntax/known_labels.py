"""Recognize labels and signs of other languages: assignments, bare shapes, `|x|`, `.5`.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Final

from xg.syntax import errors
from xg.syntax.error_token import Repair, Stop
from xg.syntax.errors.grammar import INFIX
from xg.syntax.formulas import Axes, as_chain, as_operator, axes_written, shapes_written

SIGNS = {"AT", "MATMUL", "PLUS", "ADD", "STAR", "MUL", "MINUS", "SLASH", "CARET"}
UNATTACHED = {"MINUS", "SLASH", "CARET"}  # signs that are no operators
_ABOVE = 4_000  # characters of a block that are looked at for shapes
_NODE = {"NAME", "RPAR", "RSQB"}  # that a node or its label may end with
_NO_OPERATOR = "is not an operator of a chain, unlike `+`, `*` and `@`"
_AT_END = "the name of a chain goes at its end"


def assigned_chain(stop: Stop) -> Repair | None:
    """`h = f(x)`, `h <- f(x)`, `h [B, D] <- f(x)`, but also `x -> f = h`."""
    name, kind = stop.previous, stop.token.type
    assigns = kind == "EQUAL" and "ARROW" in stop.expected
    front = stop.line[0]
    alone = "->" not in front and "=" not in front  # neither in a chain nor in a formula
    arrives = kind == "SINGLE" and alone and stop.statement is not None
    if name is None or name.type not in ("NAME", "RSQB") or not (assigns or arrives):
        return None
    front, rest = stop.line
    if "->" in front:
        meant: tuple[str, ...] = (f"write `{front} : {rest}`",)
    else:
        if state := re.match(r"next\s+(\w+)$", front):
            reason = "`next` sets a state with `=`"
            return Repair(errors.ShapeElsewhere(stop.here, reason, f"next {state[1]} = {rest}"))
        front = front.rpartition(".")[2]
        declares = re.match(r"param\b|.*\bParameter\b", rest)
        meant = _written(rest.rstrip("; "), f" : {front}", stop)
        if declares:
            sizes = re.search(r"\(([^()]+)\)", rest)
            meant = (f"write `param {front} [{sizes[1] if sizes else 'D, D'}]`",)
        if rest in ("zeros", "ones") and _is_set(stop, front):
            shape = re.search(r"\[[^\]\n]*\]", _block_above(stop))
            meant = (f"write `state {front} {shape[0] if shape else '[B, D]'} = {rest}`",)
        if _is_state(stop, front):
            return Repair(_assigned_state(stop, front, rest))
    return Repair(errors.AssignedChain(stop.here, meant))


def _is_state(stop: Stop, name: str) -> bool:
    """Whether the block around declares a state of this name above."""
    begin = stop.brace.end if stop.brace else 0
    above = stop.source.text[begin : stop.token.start]
    return re.search(rf"^[ \t]*state\b[^\n#]*\b{re.escape(name)}\s*[\[,]", above, re.M) is not None


def _is_set(stop: Stop, name: str) -> bool:
    """Whether the block around has a `next` of this name below."""
    below = stop.source.text[stop.token.end :].partition("\n}")[0]
    return re.search(rf"^[ \t]*next\b[^\n#]*\b{re.escape(name)}\s*[=,]", below, re.M) is not None


def _assigned_state(stop: Stop, state: str, formula: str) -> errors.AssignedChain:
    """`h = y` and `h = f(x)` in a block with `state h`."""
    named = formula.isidentifier()
    steps = () if named else _written(formula, f" : {state}_1", stop)
    last = f"write `next {state} = {formula if named else f'{state}_1'}`"
    reason = f"`next` sets the state {state}"
    return errors.AssignedChain(stop.here, (*steps, last), reason)


def _axes_above(stop: Stop) -> Axes:
    """How many axes the names of the block have, as far as it says that above."""
    return axes_written(_block_above(stop))


# `-1 * mean[B]` and `-LogSumExp`: a node, in front of which is a sign.
_NEGATED: Final = re.compile(
    r"\s*(?:([\d.]+)\s*\*\s*(?=\w)|(?=[A-Z][A-Za-z]))(\w+(?:\[[^\]\n]*\])?(?:\([^()\n]*\))?)\s*(.*)$"
)


def _block_above(stop: Stop) -> str:
    """The text of the block above the token, as far as shapes are looked for there."""
    text = stop.source.text[max(0, stop.token.start - _ABOVE) : stop.token.start]
    return text[max(0, text.rfind("\nblock")) :]


def own_operator(formula: str, stop: Stop) -> tuple[str, str] | None:
    """An operator that computes a formula of names whose shapes the block may say."""
    return as_operator(formula, shapes_written(_block_above(stop)))


def _written(formula: str, label: str, stop: Stop) -> tuple[str, ...]:
    """The help that writes a formula as a chain with that label."""
    if chain := formula if "->" in formula else as_chain(formula, _axes_above(stop)):
        return (f"write `{chain}{label}`",)
    if defined := own_operator(formula, stop):
        return (f"define it, `{defined[0]}`, and write `{defined[1]}{label}`",)
    return (f"write its steps, each after an arrow: `x -> f -> g{label}`",)


def infix_in_chain(stop: Stop) -> Repair | None:
    """Report a sign between values where only an arrow or a label fits, but not `x[` or `x.`."""
    left, right = stop.previous, stop.following
    if left is None or stop.token.type not in SIGNS:
        return None
    if left.type == "ARROW":
        return _sign_as_node(stop)
    if right is not None and right.type == "EQUAL" and right.start == stop.token.end:
        return _added_to(stop)
    ends_node = left.type in _NODE and "->" in stop.line[0]
    if left.type != "NAME" and not ends_node:
        return None
    between = "ARROW" in stop.expected and "SLASH" not in stop.expected
    if not between and not _inside_a_call(stop):
        return None
    before, behind = stop.line
    formula = f"{before} {stop.sign} {behind}"
    end, axes = re.search(":|->", formula), _axes_above(stop)
    chain = None if "->" in before else as_chain(formula[: end.start()] if end else formula, axes)
    if stop.opening and not chain:
        return _formula_as_operand(stop)
    rest = formula[end.start() :] if end else ": NAME"
    meant = f"{chain} {rest}" if chain else ""
    called = re.match(r"\w*\s*\(", behind) is not None
    named = right is not None and right.type in ("NAME", "NUMBER") and not called
    operand = stop.span(right).text if right and named else "…"
    if re.match(r"\w+\[[^\]]*\bNone\b", behind):
        operand = f"BC({operand})"
    if "->" in before and not stop.opening:
        return Repair(_after_a_chain(stop, before, operand))
    if not chain and "->" not in before and (defined := own_operator(_first(formula, end), stop)):
        rest = rest if _first(formula, end) == formula[: end.start() if end else None] else ": NAME"
        problem = errors.InfixInChain(
            stop.here, "", "", f"{defined[1]} {rest}".strip(), define=defined[0]
        )
        return Repair(problem)
    return Repair(errors.InfixInChain(stop.here, stop.span(left).text, operand, meant))


def _added_to(stop: Stop) -> Repair | None:
    """`out += relu(d)`."""
    front, behind = stop.line
    if not front.isidentifier():
        return None
    formula = f"{front} {stop.sign} ({behind[1:].strip()})"
    reason = f"a name is defined once: the new value of {front} needs its own name"
    return Repair(errors.AssignedChain(stop.here, _written(formula, f" : {front}_2", stop), reason))


def _first(formula: str, end: re.Match[str] | None) -> str:
    """The first of several values that a chain begins with, up to its arrow or its label."""
    written = formula[: end.start()] if end else formula
    depths = accumulate((sign in "([") - (sign in ")]") for sign in written)
    comma = next((i for i, depth in enumerate(depths) if depth == 0 and written[i] == ","), None)
    return written[:comma]


def _after_a_chain(stop: Stop, before: str, operand: str) -> errors.InfixInChain:
    """`x -> f + y`, and `x -> ⊕<-h•W`, where the sign is between the operand and another."""
    attached = re.search(r"([⊕+]\s*<-\s*)(\w+)$", before)
    if stop.sign in ("+", "⊕", "-"):  # which bind no tighter than the sum in front
        attached = None
    formula = f"{attached[2]} {stop.sign} {operand}" if attached else ""
    if attached and (chain := as_chain(formula)):
        meant = f"{before[: attached.start(2)]}({chain})"
        return errors.InfixInChain(stop.here, "", "", meant)
    if attached and (defined := own_operator(formula, stop)):
        meant = f"{before[: attached.start(2)]}({defined[1]})"
        return errors.InfixInChain(stop.here, "", "", meant, define=defined[0])
    if stop.sign not in INFIX and operand == "…":
        before = ""
    if stop.sign in ("-", "/") and shapes_written(_block_above(stop)).get(operand) == "":
        define = f"op f(x [..], y []) = x {stop.sign} y"
        return errors.InfixInChain(stop.here, "", "", f"{before} -> f<-{operand}", define)
    return errors.InfixInChain(stop.here, before, repeated(stop, operand))


def repeated(stop: Stop, operand: str) -> str:
    """An operand of a sum or a product, with BC where it has fewer axes than the chain before."""
    axes, front = _axes_above(stop), stop.line[0]
    head, *nodes = front.split("->")
    reduced = any("[" in node for node in nodes)
    count = None if reduced else axes.get(head.strip())
    sums = stop.sign in ("+", "⊕", "*", "⊙") or stop.token.type == "NAME"
    fewer = sums and axes.get(operand, 2) < (count if count is not None else 2)
    return f"BC({operand})" if fewer else operand


def _sign_as_node(stop: Stop) -> Repair | None:
    """`-> -<-z`, `-> -z`, `-> /2`: a sign that is no operator; a number divides by scale."""
    front, behind = stop.line
    if stop.token.type == "SLASH" and (size := size_after_sign(stop, behind)):
        meant = f"{front} scale(1/{size})"
        return Repair(errors.InfixInChain(stop.here, "", "", meant, fault=_NO_OPERATOR))
    operand = re.match(r"(?:<-)?\s*(?:\((?=[\d.]+\)))?(\w[\w.]*)", behind)
    if stop.token.type not in UNATTACHED or not operand:
        return None
    if stop.token.type == "MINUS" and (negated := _NEGATED.match(behind)):
        factor, node, rest = negated.groups()
        meant = f"{front} {node} -> scale(-{factor or 1}) {rest}".rstrip()
        return Repair(errors.InfixInChain(stop.here, "", "", meant, fault=_NO_OPERATOR))
    head = front.removesuffix("->").strip()
    left = head if head.isidentifier() else ""
    return Repair(errors.InfixInChain(stop.here, left, operand[1], fault=_NO_OPERATOR))


def size_after_sign(stop: Stop, behind: str) -> str:
    """Return the number after a sign if it is made of dims: `sqrt(D)`, or a dim by its name."""
    written = re.match(r"(?:<-)?\s*((?:sqrt|exp|log)\([^()]*\)|\w+)", behind)
    if written is None:
        return ""
    dims = re.findall(r"^[ \t]*dim\b([^#\n]*)", stop.source.text, re.M)
    is_dim = any(re.search(rf"\b{written[1]}\b", line) for line in dims if "(" not in written[1])
    return written[1] if "(" in written[1] or is_dim else ""


def _formula_as_operand(stop: Stop) -> Repair | None:
    """`+<-(z @ W)`: parentheses hold a chain."""
    front, behind = stop.line
    end = behind.find(")")
    opened, dot, begun = front.rpartition("(")
    formula = f"{begun} {stop.sign} {behind[:end]}"
    if not dot or end < 0 or (not opened.endswith("<-") and not opened.endswith("<=")):
        return None
    chain, defined = as_chain(formula, _axes_above(stop)), own_operator(formula, stop)
    if not chain and not defined:
        return None
    meant, first = (chain, "") if chain else (defined or ("", ""))[::-1]
    problem = errors.InfixInChain(stop.here, begun, "", f"({meant})", first)
    return Repair(problem)


def _inside_a_call(stop: Stop) -> bool:
    """Whether a line begins with a call of values, `relu(x @ W)`."""
    if stop.opening is None or stop.opening.type != "LPAR" or "->" in stop.line[0]:
        return False
    return stop.statement is not None and stop.statement.type == "NAME"


def chain_in_a_node(stop: Stop) -> Repair | None:
    """Report `•<=T(n -> •<=W)`: parentheses after an operator hold one operand."""
    if stop.token.type != "ARROW" or stop.opening is None:
        return None
    front, behind = stop.line
    opened = re.search(r"(\w+)\(([^()]*)$", front)
    if not opened:
        return None
    depths = list(accumulate((sign == "(") - (sign == ")") for sign in behind))
    if -1 not in depths:
        return None  # it is not closed
    inside = behind[: depths.index(-1)].strip()
    meant = f"({opened[2].strip()} -> {inside} -> {opened[1]})"
    reason = f"{opened[1]}(…) takes operands and numbers, not a chain"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


def _called_along(stop: Stop) -> Repair | None:
    """`-> C for S`."""
    axis, block = stop.following, stop.previous
    if "OVER" not in stop.expected or not axis or axis.type != "NAME" or stop.begins_line:
        return None
    if stop.token.type != "NAME" or not block:
        return None
    meant = f"{stop.span(block).text} over {stop.span(axis).text}"
    reason = "use `over` to loop over an axis"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant), ("OVER",), drop=True)


def _name_without_colon(stop: Stop) -> Repair | None:
    """`-> ReLU h [B, D]`."""
    kinds, front = stop.expected, stop.line[0]
    names = stop.token.type == "NAME" and "COLON" in kinds and "NAME" not in kinds
    if not names or stop.opening or stop.begins_line or "->" not in front:
        return None
    shape = re.match(r"\[[^\]]*\]", stop.line[1])
    if stop.here.text == "else":
        reason = "an `if` has no `else`: choose between two nodes with an option"
        first, other = re.search(r"->\s*(\w+)\s+if\b", front), re.match(r"\w+", stop.line[1])
        nodes = f"{first[1] if first else 'tanh'} | {other[0] if other else 'ReLU'}"
        meant = f"option either = {nodes}` and `-> either"
        return Repair(errors.ShapeElsewhere(stop.here, reason, meant))
    meant = f"{front[front.rindex('->') :]} : {stop.here.text} {shape[0] if shape else ''}".rstrip()
    reason = "write a colon before the name of an edge"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant), ("COLON",))


def _shape_for_a_node(stop: Stop) -> Repair | None:
    """`-> [B, D]` and `-> [B, D] : h`."""
    if stop.token.type != "LSQB" or not stop.previous or stop.previous.type != "ARROW":
        return None
    if position := re.match(r"(-?\d+)\s*\]", stop.line[1]):
        reason = "use slice to take positions, or pick to take one"
        return Repair(errors.ShapeElsewhere(stop.here, reason, f"-> pick[S]({position[1]})"))
    shape = re.match(r"([^\]]*\])(\s*:\s*(\w+))?", stop.line[1])
    meant = f": {shape[3] or 'NAME'} [{shape[1]}" if shape else ": NAME [B, D]"
    reason = "a shape is not a step: it goes after the name of an edge"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


def _shape_before_name(stop: Stop) -> Repair | None:
    """`: [B, D] h`."""
    shape = re.search(r":\s*(\[[^\]]*\])$", stop.line[0])
    if stop.token.type != "NAME" or not shape:
        return None
    reason = "the name of an edge goes before its shape"
    return Repair(errors.ShapeElsewhere(stop.here, reason, f": {stop.here.text} {shape[1]}"))


def _shape_in_parentheses(stop: Stop) -> Repair | None:
    """`: h (B, D)`."""
    name, axes = re.search(r":\s*(\w+)$", stop.line[0]), re.match(r"[^()]*(?=\))", stop.line[1])
    if stop.token.type != "LPAR" or "LSQB" not in stop.expected or not (name and axes):
        return None
    meant = f": {name[1]} [{axes[0]}]"
    return Repair(errors.ShapeElsewhere(stop.here, "a shape goes in brackets", meant))


def _shape_at_the_head(stop: Stop) -> Repair | None:
    """`x [B, D] -> ReLU : y`."""
    before = stop.previous
    if before is None or before.type != "RSQB" or stop.token.type != "ARROW":
        return None
    if "LPAR" not in stop.expected or "->" in stop.line[0]:
        return None
    reason = "a chain begins with a name only: its shape is set where the name is defined"
    meant = f"{stop.line[0].partition('[')[0].strip()} -> {stop.line[1]}"
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


LABELS: tuple[Callable[[Stop], Repair | None], ...] = (
    _called_along,
    _name_without_colon,
    _shape_for_a_node,
    _shape_before_name,
    _shape_in_parentheses,
    _shape_at_the_head,
)


# Recognition of signs and numbers that are written as elsewhere: `|x|`, `.5`, lists of words.
#
# Imported only when a file has an error.


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
    fault = "begins an absolute value, which needs an op of your own"
    return Repair(errors.InfixInChain(stop.here, "", "", meant, define, fault))


def _bare_point(stop: Stop) -> Repair | None:
    """`1.` and `.5`: a point has digits on both sides."""
    if stop.here.text != ".":
        return None
    before, behind = stop.previous, stop.following
    reason = "a decimal point needs digits on both sides"
    if before and before.type == "NUMBER" and before.end == stop.token.start:
        digits = stop.span(before).text
        sizes = stop.opening is not None and stop.opening.type == "LSQB"
        if sizes or (stop.statement and stop.statement.type in ("DIM", "MESH")):
            reason, meant = "a size is an integer", digits
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
    reason = "`|` goes between the words of an option"
    last = stop.span(stop.previous)
    return Repair(errors.ShapeElsewhere(last, reason, f"option {listed[1]} = {words}"))


SIGNS_ELSEWHERE: tuple[Callable[[Stop], Repair | None], ...] = (
    _bars,
    _bare_point,
    _words_by_commas,
)
