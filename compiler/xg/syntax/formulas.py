"""Translate formulas, conditions, guards and signs of other languages into the notation.

Python's own parser reads the formula. Imported only when a file has an error.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Final

from xg.diagnostics.diagnostic import Span
from xg.syntax.spelling import FOREIGN, GREEK, SPELLED_OUT, native

READ_AT_MOST: Final = 200  # characters: a help of more is not read, and a tree of more is deep
_NEAR: Final = 200  # characters at either side of a sign that are looked at, at most
_ABOVE: Final = 4_000  # characters above a sign that are looked at for a declaration
_SPELLED: Final = str.maketrans(SPELLED_OUT)
SOURCES: Final = {
    **dict.fromkeys(("randn", "normal", "noise"), "normal[{}](1)"),
    **dict.fromkeys(("rand", "uniform"), "uniform[{}](0, 1)"),
    **dict.fromkeys(("zeros", "fill"), "fill[{}](0)"), "ones": "fill[{}](1)",
}  # fmt: skip
_TRANSPOSED: Final = re.compile(r" ?\^ ?[Tt](?!\w)| ?\^⊤|ᵀ")
_OWN: Final = {"•": "@", "⊕": "+", "⊙": "*", "^": "**", "×": "*"}
_SIGNS: Final = str.maketrans(
    {
        **_OWN,
        **{
            text: _OWN.get(native(text), native(text))
            for text in FOREIGN
            if len(text) == 1 and native(text) in (*_OWN, "-", "/")
        },
    }
)
_INFIX: Final[dict[type[ast.operator], str]] = {
    ast.MatMult: "•<=",
    ast.Add: "⊕<-",
    ast.Mult: "⊙<-",
}
_CALLED: Final = {"matmul": "•<=", "mm": "•<=", "dot": "•<=", "add": "⊕<-", "mul": "⊙<-"}
OPERATORS: Final = {
    "relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "swish": "SiLU", "softmax": "S",
    "layernorm": "LN", "layer_norm": "LN", "dropout": "DO", "transpose": "T",
}  # fmt: skip
FUNCTIONS: Final = ("exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "abs", "max", "min")


class _Untranslated(Exception):
    """A formula that has no counterpart in the notation."""


def _parse_python(text: str) -> ast.expr:
    if len(text) > READ_AT_MOST:
        raise _Untranslated
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python, about strings and signs in the text
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _Untranslated from None


def _parse_formula(text: str) -> ast.expr:
    return _parse_python(_TRANSPOSED.sub(".T", text.strip()).translate(_SIGNS))


# ---- shapes that a text gives --------------------------------------------------------------------


Shapes = Mapping[str, str]  # the axes of names as a text writes them
_LISTED: Final = re.compile(r"(\w+)\s*(\[[^\]\n]{0,200}\]|,)?")


def shapes_written(text: str) -> Shapes:
    """Return the axes of each name whose shape a text gives, spelled like in the text.

    >>> shapes_written("param x, z [B, D], s []")
    {'x': 'B, D', 'z': 'B, D', 's': ''}
    """
    shapes: dict[str, str] = {}
    names: list[str] = []
    for found in _LISTED.finditer(text):
        name, behind = found[1], found[2] or ""
        names.append(name)
        if behind == ",":
            continue
        for each in names if behind else ():
            shapes.setdefault(each, behind[1:-1])  # the first is the declaration
        names = []
    return shapes


def count_axes(shapes: Shapes, name: str) -> int | None:
    """How many axes a name has, or None if that is unknown."""
    shape = shapes.get(name)
    return None if shape is None else shape.count(",") + bool(shape.strip())


# ---- chains --------------------------------------------------------------------------------------


def as_chain(text: str, shapes: Shapes | None = None) -> str | None:
    """Return the chain that computes a formula, without a name for its result, or None.

    An operand with fewer axes than what it is added to is repeated.

    >>> as_chain("relu(x @ W.T + b)")
    'x -> •<=T(W) -> ⊕<-b -> ReLU'
    >>> as_chain("x @ W + b", {"b": "D"})
    'x -> •<=W -> ⊕<-BC(b)'
    """
    try:
        return _chain(_parse_formula(text), shapes or {})
    except _Untranslated:
        return None


def _axes(node: ast.AST, shapes: Shapes) -> int | None:
    """How many axes a tensor has, a product of matrices two at least; None if that is unknown."""
    match node:
        case ast.Name(id=name):
            return count_axes(shapes, name)
        case ast.BinOp(left=left, op=ast.MatMult()):
            return _axes(left, shapes) or 2
        case ast.BinOp(left=left, right=right):
            known = [count for count in (_axes(left, shapes), _axes(right, shapes)) if count]
            return max(known, default=None)
        case ast.Attribute(value=value, attr="T") | ast.Call(args=[value, *_]):
            return _axes(value, shapes)
        case _:
            return None


def _is_fewer(one: ast.AST, other: ast.AST, shapes: Shapes) -> bool:
    """Whether a name has fewer axes than what it is combined with."""
    fewer, more = _axes(one, shapes), _axes(other, shapes)
    return isinstance(one, ast.Name) and None not in (fewer, more) and (fewer or 0) < (more or 0)


def _chain(node: ast.AST, shapes: Shapes) -> str:
    """A tensor as a chain, or as its name."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _INFIX:
            sign, mixes = _INFIX[type(op)], isinstance(op, ast.Add | ast.Mult)
            if mixes and _is_fewer(left, right, shapes):
                left, right = right, left
            operand = _operand(right, shapes)
            repeated = mixes and _is_fewer(right, left, shapes)
            return f"{_chain(left, shapes)} -> {sign}{f'BC({operand})' if repeated else operand}"
        case ast.Attribute(value=value, attr="T"):
            return f"{_chain(value, shapes)} -> T"
        case ast.Call(func=function, args=sizes) if _function_name(function) in SOURCES:
            return SOURCES[_function_name(function)].format(", ".join(map(ast.unparse, sizes)))
        case ast.Subscript(value=ast.Name(id=name), slice=sizes) if name in SOURCES:
            return SOURCES[name].format(ast.unparse(sizes).strip("()"))
        case ast.Call(func=function, args=[first, *rest], keywords=keywords):
            if all(map(_is_last_axis, keywords)):
                return f"{_chain(first, shapes)} -> {_step(_function_name(function), rest, shapes)}"
        case _:
            pass
    raise _Untranslated


def _step(name: str, rest: list[ast.expr], shapes: Shapes) -> str:
    """A node: its numbers in parentheses, its other operands attached."""
    if sign := _CALLED.get(name):
        if len(rest) != 1:
            raise _Untranslated
        return f"{sign}{_operand(rest[0], shapes)}"
    numbers = [each for each in rest if isinstance(each, ast.Constant)]
    own = f"({', '.join(map(ast.unparse, numbers))})" if numbers else ""
    attached = (f"<-{_operand(each, shapes)}" for each in rest if each not in numbers)
    return f"{OPERATORS.get(name.lower(), name)}{own}{''.join(attached)}"


def _operand(node: ast.expr, shapes: Shapes) -> str:
    """An operand: a name, a transpose of one, or a chain in parentheses."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr="T"):
            return f"T({name})"
        case _:
            chain = _chain(node, shapes)
            return f"({chain})" if "->" in chain else chain


def _function_name(function: ast.expr) -> str:
    """The function that is called: `torch.relu` is `relu`."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            raise _Untranslated


def _is_last_axis(keyword: ast.keyword) -> bool:
    return keyword.arg in ("dim", "axis") and ast.unparse(keyword.value) == "-1"


# ---- operators of one's own ----------------------------------------------------------------------


_REDUCED: Final = re.compile(r"\b(sum|mean)\(")


def as_operator(text: str, shapes: Shapes | None = None) -> tuple[str, str] | None:
    """An operator of one's own that computes a formula of numbers, and the chain with it.

    A sum or a mean without axes is over all axes of its first name if `shapes` has them, or else
    over the last one.

    >>> as_operator("x**2 - y")
    ('op f(x, y) = x^2 - y', 'x -> f<-y')
    >>> as_operator("-mean(p*log(p))", {"p": "B, D"})
    ('op f(p [B, D]) = -mean[B, D](p * log(p))', 'p -> f')
    """
    try:
        tree = _parse_formula(text)
    except _Untranslated:
        return None
    names = dict.fromkeys(_names(tree))
    if not names or None in names:
        return None
    first, *others = (str(name) for name in names)
    written = ast.unparse(tree).replace(" ** ", "^")
    heads, known = [first, *others], list[str]()
    scalars = {name for name in heads if (shapes or {}).get(name) == ""}
    if _REDUCED.search(written):
        known = [_named_axes((shapes or {}).get(name, "")) or ".., D" for name in heads]
        written = _REDUCED.sub(rf"\1[{known[0].removeprefix('.., ')}](", written)
    elif scalars and len(scalars) < len(heads):
        known = [".."] * len(heads)
    axes = ["" if name in scalars else each for name, each in zip(heads, known, strict=False)]
    heads = [f"{name} [{each}]" for name, each in zip(heads, axes, strict=False)] or heads
    used = "".join(f"<-{name}" for name in others)
    defined = f"op f({', '.join(heads)}) = {written}", f"{first} -> f{used}"
    return defined[0].translate(_SPELLED), defined[1].translate(_SPELLED)


def _names(node: ast.AST) -> Iterator[str | None]:
    """The values of a formula of numbers in their order; None for what an operator cannot say."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Constant(value=int() | float()):
            pass
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield from _names(operand)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow()):
            yield from _names(left)
            yield from _names(node.right)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            for each in args:
                yield from _names(each)
        case ast.Call(func=ast.Name(id="sum" | "mean"), args=[each], keywords=[]):
            yield from _names(each)
        case _:
            yield None


def _named_axes(shape: str) -> str:
    """The axes of a shape that an operator's signature may say: names, each once; else ""."""
    axes = [axis.strip() for axis in shape.split(",")]
    apart = len(set(axes)) == len(axes) and all(map(str.isidentifier, axes))
    return ", ".join(axes) if apart else ""


# ---- conditions and choices ----------------------------------------------------------------------


_AS_PYTHON: Final = (
    (re.compile(r"&&?|∧"), " and "),
    (re.compile(r"\|\|?|∨"), " or "),
    (re.compile(r"!(?!=)|~|¬"), " not "),
    (re.compile(r"\^"), "**"),
    (re.compile("≤"), "<="),
    (re.compile("≥"), ">="),
    (re.compile("≠"), "!="),
    (re.compile("←"), "<-"),
    (re.compile("−"), "-"),
)
_OPPOSITE: Final[dict[type[ast.cmpop], ast.cmpop]] = {
    ast.Gt: ast.LtE(), ast.GtE: ast.Lt(), ast.Lt: ast.GtE(), ast.LtE: ast.Gt(),
}  # fmt: skip


def as_expression(text: str) -> str | None:
    """An expression with the functions of the language; None if Python can't read the text.

    >>> as_expression("x > 0 ? x : 0.1*x")
    'select(x > 0, x, 0.1*x)'
    >>> as_expression("(x > 1) && (x < 0)")
    'and(x > 1, 0 > x)'
    >>> as_expression("not x > 0")
    '0 >= x'
    """
    for pattern, word in _AS_PYTHON:
        text = pattern.sub(word, text)
    choice = re.fullmatch(r"([^?]+)\?([^?:]+):([^?:]+)", text)
    try:
        tree = _parse_python(f"({choice[2]}) if {choice[1]} else ({choice[3]})" if choice else text)
        written = ast.unparse(_Functions().visit(tree))
        return re.sub(r" (\*|//?) ", r"\1", written.replace(" ** ", "^"))
    except _Untranslated:
        return None


class _Functions(ast.NodeTransformer):
    """Write conditions and choices as calls, and comparisons with `>` and `>=`."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Nest calls of `and` or `or`."""
        name = "and" if isinstance(node.op, ast.And) else "or"
        return _nested(name, [self.visit(value) for value in node.values])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Reverse a comparison after `not`."""
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)
        match node.operand:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPPOSITE:
                return self.visit(ast.Compare(left, [_OPPOSITE[type(op)]], [right]))
            case operand:
                return _call("select", self.visit(operand), ast.Constant(0), ast.Constant(1))

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Write `a if c else b` as a call of `select`."""
        return _call("select", *map(self.visit, (node.test, node.body, node.orelse)))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Turn `<` and `<=` round, and join several comparisons."""
        sides = [self.visit(side) for side in (node.left, *node.comparators)]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return _nested("and", [_comparison(*pair) for pair in pairs])


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> ast.expr:
    match op:
        case ast.Gt() | ast.GtE():
            return ast.Compare(left, [op], [right])
        case ast.Lt():
            return ast.Compare(right, [ast.Gt()], [left])
        case ast.LtE():
            return ast.Compare(right, [ast.GtE()], [left])
        case ast.Eq():
            return _call("equal", left, right)
        case ast.NotEq():
            greater = (ast.Compare(a, [ast.Gt()], [b]) for a, b in ((left, right), (right, left)))
            return _call("or", *greater)
        case _:
            raise _Untranslated


def _nested(name: str, parts: list[ast.expr]) -> ast.expr:
    """A function of two operands over several."""
    joined = parts[-1]
    for part in reversed(parts[:-1]):
        joined = _call(name, part, joined)
    return joined


def _call(name: str, *operands: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name), list(operands), [])


def in_operator(text: str, place: int) -> bool:
    """Return whether the declaration around a place declares an operator."""
    begun = re.findall(r"^\w+", text[max(0, place - _ABOVE) : place], re.MULTILINE)
    return begun[-1:] == ["op"]


def expression_around(text: str, start: int, end: int) -> str:
    """The part of an expression around a sign at these offsets.

    It goes to a comma, to a bracket that is open, or to the `=` of the operator.
    """
    line = text[max(text.rfind("\n", 0, start) + 1, start - _NEAR) : start]
    line = re.split(r"(?<![=<>!])=(?!=)|\bwhere\b", line)[-1]
    behind = re.split(r"[#\n]|\bwhere\b", text[end : end + _NEAR], maxsplit=1)[0]
    before = _reach(line[::-1], ")]}", "([{")[::-1]
    return f"{before}{text[start:end]}{_reach(behind, '([{', ')]}')}".strip()


def _reach(text: str, opens: str, closes: str) -> str:
    """The part of a text up to a comma, or to a bracket that closes one outside of it."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char in opens) - (char in closes)
        if depth < 0 or (depth == 0 and char == ","):
            return text[:place]
    return text


def turn_comparison(span: Span) -> str:
    """The help for `<`, `<=` or `<-` between numbers, in the author's own symbols."""
    text = span.source.text
    if in_operator(text, span.start):
        meant = as_expression(expression_around(text, span.start, span.end))
        return f"turn the comparison round: `{meant or 'b > a`, `b >= a'}`"
    sign = ">=" if span.text in ("<=", "≤") else ">"
    left = re.search(r"[\w.]*$", text[max(0, span.start - _NEAR) : span.start].rstrip(" "))
    right = re.match(r" *([\w.]+)", text[span.end : span.end + _NEAR])
    value, other = left[0] if left else "", right[1] if right else "…"
    defined, used = f"op f(x, y) = y {sign} x", f"f<-{other}"
    if other[0].isdigit():
        defined, used = f"op f(x) = {other} {sign} x", "f"
    return f"an operator of yours compares: `{defined}`, and `{value} -> {used}`"


# ---- guards --------------------------------------------------------------------------------------


_GUARD_ENDS: Final = re.compile(r"->|[:#\n{}]|\bas\b|\bwhere\b")
_PART: Final = re.compile(r"(?:(\w+) ?={1,2} ?)?(\w+)")


def as_guard(text: str) -> tuple[str, str] | None:
    """Rewrite the text after `if` as a guard: the rule that it broke, and the guard; or None.

    >>> as_guard("norm = pre or norm = post -> tanh")[1]
    'if norm = pre | post'
    >>> as_guard('(norm == "pre") : y')[1]
    'if norm = pre'
    >>> as_guard("norm = pre and act = gelu : y")[1]
    'option norm_act = no | yes` and `if norm_act = yes'
    """
    written = _GUARD_ENDS.split(text, maxsplit=1)[0]
    plain = re.sub(r"\b(?:in|is)\b", "=", re.sub(r"[\"'()\[\]]", " ", written))
    parts = re.split(r"\|\|?|&&?|,|\bor\b|\band\b|\bif\b", " ".join(plain.split()))
    found = [_PART.fullmatch(part.strip()) for part in parts]
    pairs = [(part[1], part[2]) for part in found if part]
    if len(pairs) < len(found) or not pairs[0][0]:
        return None
    options = dict.fromkeys(option for option, _ in pairs if option)
    words = dict.fromkeys(word for _, word in pairs)
    if len(options) > 1:
        both = "_".join(options)
        reason = "a node has one guard, which names one option"
        return reason, f"option {both} = no | yes` and `if {both} = yes"
    reason = "a guard is an option and its word, without quotes and parentheses"
    if len(words) > 1:
        reason = "`|` goes between the words of a guard"
    return reason, f"if {pairs[0][0]} = {' | '.join(words)}"


# ---- signs and letters whose remark depends on their place: `x²`, `√x` -------------------------


_POWERS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_LOGIC: Final = ("&", "&&", "?", "!", "~", "¬", "∧", "∨", "≠")
_COMMANDS: Final = {
    **dict.fromkeys(("cdot", "times", "ast"), "a product is written with `*`"),
    **dict.fromkeys(("to", "rightarrow", "mapsto"), "dataflow is written `->`"),
    **dict.fromkeys(("odot", "circ"), "the elementwise product is written `⊙`, or `*`"),
    "oplus": "an elementwise sum is written `⊕`, or `+`",
    "infty": "write `inf`",
}


def remark(span: Span) -> str:
    """The remark about a sign where it is; nothing where only the sign itself says more."""
    text, sign = span.source.text, span.text
    operator = in_operator(text, span.start)
    front = text[max(0, span.start - _NEAR) : span.start].rpartition("\n")[2]
    behind = text[span.end : span.end + _NEAR].partition("\n")[0]
    if sign == "\\":
        return _explain_command(behind, operator=operator)
    if sign == "∞":
        return "write `inf`"
    if sign == "√":
        operand = re.match(r"\(?\s*([\w.]+)", behind)
        return f"write `sqrt({operand[1] if operand else '…'})`"
    if sign == "%":
        return "no function takes a remainder" if operator else ""
    if sign in _LOGIC:
        return _explain_logic(span, front, behind, operator=operator)
    name = re.search(r"(<[-=])?\s*(\w+)\s*\^?\s*$", front)
    if name and sign in ("ᵀ", "⊤"):
        return f"write `T({name[2]})`" if name[1] else f"write `{name[2]} -> T`"
    power = sign.translate(_POWERS)
    if name is None or not re.fullmatch(r"-?[0-9]+", power) or power == sign:
        return ""
    if operator or re.match(r"\s*(?:dim|mesh)\b", front):
        return f"write `{name[2]}^{power}`"
    used = f"({name[2]} -> power)" if name[1] else f"{name[2]} -> power"
    return f"define it: `op power(x) = x^{power}`, and write `{used}`"


def _explain_logic(span: Span, front: str, behind: str, *, operator: bool) -> str:
    """Suggest how to write a condition, in an operator or after `if`."""
    if not operator:
        guarded = re.search(r"\bif\b(?!.*(?:\bif\b|->|:))", front)
        guard = as_guard(f"{front[guarded.end() :]}{span.text}{behind}") if guarded else None
        return f"{guard[0]}: write `{guard[1]}`" if guard else ""
    meant = as_expression(expression_around(span.source.text, span.start, span.end))
    if meant is None and span.text == "?":
        return "a choice between two numbers is a function: `select(x > 0, x, 0)`"
    return f"write `{meant}`" if meant else ""


def _explain_command(behind: str, *, operator: bool) -> str:
    r"""Suggest what to write for a LaTeX command: a Greek letter, a root or a fraction."""
    name = re.match(r"[A-Za-z]+", behind)
    if name is None:
        return ""
    if name[0] in GREEK.values() or name[0] in SPELLED_OUT.values():
        return f"write `{name[0]}`: a letter has its name alone"
    parts = re.match(r"(sqrt|frac)\{([^{}]{1,100})\}(?:\{([^{}]{1,100})\})?", behind)
    if parts is None or not operator:
        return _COMMANDS.get(name[0], "")
    if parts[1] == "sqrt":
        return f"write `sqrt({parts[2]})`"
    above, below = (each if each.isalnum() else f"({each})" for each in (parts[2], parts[3] or "…"))
    return f"write `{above}/{below}`"
