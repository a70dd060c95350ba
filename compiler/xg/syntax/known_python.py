"""Recognition of calls, slices, choices and loops that are written as Python and torch have them.

Imported only when a file has an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from xg.diagnostics.diagnostic import Span
from xg.syntax import errors
from xg.syntax.error_token import Repair, Stop
from xg.syntax.errors.grammar import INFIX
from xg.syntax.formulas import as_chain, shapes_written
from xg.syntax.known_labels import own_operator, size_after_sign

_MODULES: Final = r"(?:torch|np|numpy|nn|F|functional|math|tf|jnp|jax|mx|keras|layers)"
_SIZE: Final = r"[\w\s+*/-]"
_NEAR: Final = 300  # characters at either side of a token that are looked at, at most

_ABOVE: Final = 4_000  # characters above a token that are looked at, at most
_FILLED: Final = {"zeros": 0, "ones": 1}


def _near(stop: Stop) -> tuple[str, str]:
    """Return parts of the line before and after the token: a line may be of any length."""
    front, behind = stop.line
    return front[-_NEAR:], behind[:_NEAR]


def _elsewhere(stop: Stop, reason: str, meant: str) -> Repair:
    return Repair(errors.ShapeElsewhere(stop.here, reason, meant))


def _behind_a_module(stop: Stop) -> Repair | None:
    """`-> torch.tanh` and `np.cos(x)`; in a plan `layers.W` is a path."""
    if stop.reader.awaits("placement"):
        return None
    front, behind = _near(stop)
    text = f"{front}{stop.here.text}"
    name = re.search(rf"\b{_MODULES}(?:\.{_MODULES})*\.(\w+)\($", text)
    if name is None and stop.token.type == "DOT":
        name = re.match(r"(?:\w+\.)*(\w+)", behind) if re.search(rf"\b{_MODULES}$", front) else None
    if name is None:
        return None
    return _elsewhere(stop, "operators and functions have no module", name[1])


def _method(stop: Stop) -> Repair | None:
    """`a.view(B, D)` in a chain, `x.pow(2)` in an expression."""
    front, behind = _near(stop)
    called = re.search(r"(\w+)\.(\w+)$", front)
    if stop.token.type != "LPAR" or called is None or re.fullmatch(_MODULES, called[1]):
        return None
    own = behind.partition(")")[0]
    if stop.statement is not None and stop.statement.type == "OP":
        listed = ", ".join(filter(None, (called[1], own)))
        reason = "a function goes before its operand"
        return _elsewhere(stop, reason, f"{called[2]}({listed})")
    node = f"{called[2]}({own})" if own else called[2]
    return _elsewhere(stop, "a node goes after its operand", f"{called[1]} -> {node}")


def _range_in_a_node(stop: Stop) -> Repair | None:
    """`slice[S](0:1)`, `slice[S](1:` and `slice[S, 0:1]`."""
    front, behind = _near(stop)
    if stop.token.type != "COLON" or stop.opening is None:
        return None
    begun = re.search(rf"(?:slice|pick)\[([\w-]+)(?:\]\s*\(|,)({_SIZE}*)$", front)
    if begun is None:
        return None
    end = re.match(rf"{_SIZE}*?(?=->|[)\],:]|$)", behind)
    axis, start, stop_at = begun[1], begun[2].strip(), end[0].strip() if end else ""
    last = f"{axis} - {stop_at[1:]}" if stop_at.startswith("-") else stop_at or axis
    reason = "the first position and the one after the last are two numbers"
    return _elsewhere(stop, reason, f"slice[{axis}]({start or 0}, {last})")


_BACK: Final = r"(?i:backwards?|reversed?|descending|inverse)\b"


def _sign_in_front(stop: Stop) -> Repair | None:
    """`⊕<-•(h, U)`, as a function."""
    operands = re.match(r"\(\s*(\w+)\s*,\s*(\w+)\s*\)", _near(stop)[1])
    if stop.sign not in INFIX or operands is None or "NAME" not in stop.expected:
        return None
    meant = f"({operands[1]} {INFIX[stop.sign]}{operands[2]})"
    return _elsewhere(stop, "a sign goes after its first operand", meant)


def _indexed_head(stop: Stop) -> Repair | None:
    """`keep<-top[k]`, `C[F, R] : M` and `randn[B, D] -> f`: parentheses do not follow."""
    front, behind = _near(stop)
    named = re.search(r"(\w+)\[([\w, +-]{1,100})\]$", front)
    if stop.expected != frozenset({"LPAR"}) or stop.token.type == "LPAR" or named is None:
        return None
    name, inside = named[1], named[2]
    above = stop.source.text[: stop.token.start - len(front)]
    if behind.count(")") > behind.count("("):
        return None  # it is a part of something else
    made = {each for each in re.findall(r"\w+", inside) if is_value(above, each)}
    if made and re.search(rf"<[-=]\s*{re.escape(name)}\[[^\]]*\]$", front):
        axes = re.findall(rf"\b{re.escape(name)}[\w, ]* ?\[(\w+)", above)
        meant = f"({name} -> gather[{axes[-1] if axes else 'N'}]<-{inside})"
        return _elsewhere(stop, "use gather to take positions by index", meant)
    if made and re.search(rf"\bparam\b[^\n#]{{0,200}}\b{re.escape(name)}\b", above[-_ABOVE:]):
        meant = f"{inside} -> Emb({name}) {stop.here.text} {behind}".rstrip()
        return _elsewhere(stop, "use Emb to look up rows of a table", meant)
    shape = shapes_written(above[max(0, above.rfind("\nblock")) :]).get(name)
    if made and shape and inside.isidentifier():
        meant = f"{name} -> gather[{shape.partition(',')[0]}]<-{inside} {stop.here.text} {behind}"
        return _elsewhere(stop, "use gather to take positions by index", meant.rstrip())
    if made:
        meant = f"{inside} -> {name} {stop.here.text} {behind}".rstrip()
        reason = "operands go before their node, and brackets name axes"
        return _elsewhere(stop, reason, meant)
    if name in _FILLED:
        meant = f"fill[{inside}]({_FILLED[name]})"
        return _elsewhere(stop, "the numbers of a source go in parentheses after its axes", meant)
    if is_value(above, name):
        part = f"{name} -> pick[S]({inside})"
        meant = f"({part})" if re.search(r"<[-=]\s*\w+\[[^\]]*\]$", front) else part
        return _elsewhere(stop, "use slice to take positions, or pick to take one", meant)
    meant = f"{'normal' if name.lower() in ('randn', 'noise') else name}[{inside}](1)"
    reason = "the numbers of a source go in parentheses after its axes"
    return _elsewhere(stop, reason, meant)


def is_value(above: str, name: str) -> bool:
    """Whether a text gives a value this name: a port, a parameter or a label."""
    block = above[max(0, above.rfind("\nblock")) :]
    port = rf"\b{re.escape(name)} ?\["
    label = rf":[\w ,\[\]*+-]*\b{re.escape(name)}\b"
    return re.search(f"{port}|{label}", block) is not None


def _peers_in_parentheses(stop: Stop) -> Repair | None:
    """`(F, R) -> C`."""
    peers = re.search(r"^\(([\w, ]+,[\w, ]+)$", _near(stop)[0])
    if stop.token.type != "RPAR" or peers is None or not _near(stop)[1].startswith("->"):
        return None
    reason = "separate the values before a chain with commas, without brackets"
    return _elsewhere(stop, reason, f"{peers[1]} {_near(stop)[1]}")


def _unnamed_result(stop: Stop) -> Repair | None:
    """`: values, _`."""
    front = _near(stop)[0]
    if stop.token.type != "UNDERSCORE" or "NAME" not in stop.expected or ":" not in front:
        return None
    reason = "each result needs a name, even if nothing reads it"
    return _elsewhere(stop, reason, f"{front[front.rindex(':') :]} rest")


def _results_behind_an_arrow(stop: Stop) -> Repair | None:
    """`x -> Gate -> G, aux`."""
    first = re.search(r"->\s*(\w+)$", _near(stop)[0])
    if stop.token.type != "COMMA" or first is None or stop.opening:
        return None
    if not re.fullmatch(r"\w+(\s*,\s*\w+)*", _near(stop)[1]):
        return None
    reason = "the result of a node is named after a colon"
    return _elsewhere(stop, reason, f": {first[1]}, {_near(stop)[1]}")


def _choice(stop: Stop) -> Repair | None:
    """`where(x > 0, x, 0)` in an expression; `-> where(…)`."""
    behind = _near(stop)[1]
    if stop.token.type != "WHERE" or not behind.startswith("("):
        return None
    reason = "to choose between two numbers, use select in an expression"
    if stop.statement is not None and stop.statement.type == "OP":
        return _elsewhere(stop, reason, f"select{behind}")
    meant = "op f(x, y) = select(x > y, x, y)` and `-> f<-y"
    return _elsewhere(stop, reason, meant)


def _loop(stop: Stop) -> Repair | None:
    """Report `for i in range(3):` at the start of a line or after a node."""
    front, behind = _near(stop)
    text = f"{front} {stop.here.text} {behind}"
    loop = re.search(r"\bfor\s+\w+\s+in\s+(?:range\()?([\w*+ ]+)", text)
    if loop is None or "for" not in (stop.here.text, front.rpartition(" ")[2]):
        return None
    count = loop[1].strip()
    begins = stop.statement is not None and stop.span(stop.statement).text == "for"
    before = front.removesuffix("for").strip()
    node = re.search(r"->\s*(\w+)(\([^()]*\))?$", before)
    reason = "use `over` to loop over an axis, and `×` to repeat a block"
    if begins or node is None:
        return _elsewhere(stop, reason, f"x -> {count} × Layer` or `X -> Cell over S")
    return _elsewhere(stop, reason, f"-> {node[1]}{node[2] or ''} over {count}")


def _named_in_front(stop: Stop) -> Repair | None:
    """`-> Cell as first over S`."""
    named = re.search(r"(\w+)\s+(as\s+\w+)$", _near(stop)[0])
    axis = re.match(r"\w+(?:\s+reversed)?", _near(stop)[1])
    if stop.token.type != "OVER" or named is None or axis is None:
        return None
    meant = f"{named[1]} over {axis[0]} {named[2]}"
    return _elsewhere(stop, "the name of a call goes after its axis", meant)


def _backwards(stop: Stop) -> Repair | None:
    """`over reversed(S)`, `over -S`, `over S backwards`, `over S, reverse`, `reversed over S`."""
    front, behind = _near(stop)
    axis = re.match(r"\(?\s*(\w+)", behind) if re.search(r"\bover$", front) else None
    word = f"{stop.here.text}{behind}".lstrip(",")
    if (along := re.search(r"\bover\s+(\w+)$", front)) and re.match(_BACK, word.strip()):
        axis = along
    elif stop.token.type == "REVERSED" and "OVER" in stop.expected:
        axis = re.match(r"over\s+(\w+)", behind)
    elif stop.token.type not in ("REVERSED", "MINUS"):
        return None
    if axis is None:
        return None
    reason = "to loop backwards, write `reversed` after the axis"
    return _elsewhere(stop, reason, f"over {axis[1]} reversed")


def _row_of_a_chain(stop: Stop) -> Repair | None:
    """`3 × (F<-y)`."""
    if stop.token.type != "LPAR" or stop.opening or not stop.previous:
        return None
    count = re.search(r"([\w]+)\s*[×*]$", _near(stop)[0])
    if count is None or "ARROW" in stop.expected or "RPAR" in stop.expected:
        return None
    reason = "`×` repeats a block: put the steps in parentheses into one"
    return _elsewhere(stop, reason, f"{count[1]} × Layer")


def _comma_too_many(stop: Stop) -> Repair | None:
    """`conv(K, pad=1,)` and `b, [D]`."""
    front = _near(stop)[0]
    if not stop.previous or stop.previous.type != "COMMA" or stop.begins_line:
        return None
    if stop.token.type in ("RPAR", "RSQB"):
        return _elsewhere(stop, "a list ends without a comma", stop.here.text)
    name = re.search(r"(\w+)\s*,$", front)
    shape = re.match(r"[^\]]*\]", _near(stop)[1])
    if stop.token.type != "LSQB" or name is None or shape is None or "NAME" not in stop.expected:
        return None
    reason = "no comma goes between a name and its shape"
    return _elsewhere(stop, reason, f"{name[1]} [{shape[0]}")


def _head_without_brace(stop: Stop) -> Repair | None:
    """`block F(x [B]) -> y [B]` at the end of its line."""
    if stop.token.type != "_NL" or "LBRACE" not in stop.expected or stop.opening:
        return None
    return Repair(errors.ColonForBrace(stop.here), ("LBRACE",), drop=True)


def _product_without_sign(stop: Stop) -> Repair | None:
    """`a k` and `(1/B) sum[B](x)` in an expression."""
    before = stop.previous
    in_op = stop.statement is not None and stop.statement.type == "OP"
    if before is None or not in_op or stop.opening or "STAR" not in stop.expected:
        return None
    if before.type not in ("NAME", "RPAR", "NUMBER") or stop.token.type != "NAME":
        return None
    start = before.start
    if before.type == "RPAR":
        text = stop.source.text
        begin = max(text.rfind("\n", 0, start), start - _NEAR)
        start = text.rfind("(", begin, start)
        if start < 0 or text[start + 1 : before.start].count(")"):
            return None
    factor = Span(stop.source, start, before.end)
    return Repair(errors.MissingTimes(factor, stop.here), ("STAR",))


def _braces_in_a_name(stop: Stop) -> Repair | None:
    """Report `h_{t-1}`, a subscript in LaTeX."""
    inside = re.match(r"(\w+)[^}]*\}", _near(stop)[1])
    name = re.search(r"(\w+)_$", _near(stop)[0])
    if stop.token.type != "LBRACE" or name is None or inside is None:
        return None
    return _elsewhere(
        stop, "a name can only have letters, digits and `_`", f"{name[1]}_{inside[1]}"
    )


def _next_with_a_colon(stop: Stop) -> Repair | None:
    """`next s : s_1`."""
    state = re.match(r"next\s+(\w+)$", _near(stop)[0])
    if stop.token.type != "COLON" or state is None:
        return None
    reason = "`next` sets a state with `=`"
    return Repair(
        errors.ShapeElsewhere(stop.here, reason, f"next {state[1]} = {_near(stop)[1]}"),
        ("EQUAL",),
        drop=True,
    )


def _einsum(stop: Stop) -> Repair | None:
    """`einsum("bd,bdh->bh", x, W)`."""
    if stop.token.type != "STRING" or not re.search(r"\b(?:einsum|contract)\($", _near(stop)[0]):
        return None
    reason = "a sum of products is an op of your own, with named axes"
    return _elsewhere(stop, reason, "op f(x [.., D], W [.., D, E]) = sum[D](x * W)")


def _shape_of_an_op(stop: Stop) -> Repair | None:
    """`op f(x [.., D]) -> [.., 2*D] = …`."""
    in_op = stop.statement is not None and stop.statement.type == "OP"
    if (
        stop.token.type not in ("ARROW", "COLON")
        or not in_op
        or stop.expected != frozenset({"EQUAL"})
    ):
        return None
    reason = "an operator's result has the shape of its expression"
    return _elsewhere(stop, reason, f"{_near(stop)[0]} = …")


def _result_by_its_place(stop: Stop) -> Repair | None:
    """`topk(2)[0]`."""
    place = re.match(r"\d+\s*\]", _near(stop)[1])
    if stop.token.type != "LSQB" or not stop.previous or stop.previous.type != "RPAR" or not place:
        return None
    reason = "name the results of a node, and use pick to take one position of an axis"
    return _elsewhere(stop, reason, ": first, second` or `-> pick[S](0)")


def _operand_behind_its_node(stop: Stop) -> Repair | None:
    """`CE<-slice[T](1, T)(t)`."""
    front, behind = _near(stop)
    operand = re.match(r"(\w+)\s*\)", behind)
    node = re.search(r"(\w+(?:\[[^\]]*\])?\([^()]*\))$", front)
    if stop.token.type != "LPAR" or operand is None or node is None:
        return None
    reason = "a node goes after its operand"
    return _elsewhere(stop, reason, f"({operand[1]} -> {node[1]})")


def _sum_of_calls(stop: Stop) -> Repair | None:
    """`ReLU(a) + ReLU(b) : y` and `range(N)/N : t`."""
    left = stop.previous
    if left is None or left.type != "RPAR" or stop.sign not in (*INFIX, "/"):
        return None
    before, behind = _near(stop)
    formula = f"{before} {stop.sign} {behind}"
    end = re.search(":|->", formula)
    written = formula[: end.start()] if end else formula
    define, chain = "", as_chain(written)
    if stop.token.type == "SLASH" and (divisor := re.match(r"[\w.]+", behind)):
        number = divisor[0] if divisor[0][0].isdigit() else size_after_sign(stop, behind)
        defined = None if number else own_operator(written, stop)
        define, chain = defined or ("", f"{before} -> scale(1/{number or divisor[0]})")
    if "->" in before or chain is None:
        return None
    meant = f"{chain} {formula[end.start() :] if end else ': NAME'}"
    return Repair(errors.InfixInChain(stop.here, before, "", meant, define))


PYTHON: tuple[Callable[[Stop], Repair | None], ...] = (
    _behind_a_module,
    _method,
    _range_in_a_node,
    _choice,
    _backwards,
    _named_in_front,
    _loop,
    _sign_in_front,
    _indexed_head,
    _peers_in_parentheses,
    _unnamed_result,
    _results_behind_an_arrow,
    _row_of_a_chain,
    _comma_too_many,
    _head_without_brace,
    _product_without_sign,
    _braces_in_a_name,
    _next_with_a_colon,
    _einsum,
    _shape_of_an_op,
    _result_by_its_place,
    _operand_behind_its_node,
    _sum_of_calls,
)
