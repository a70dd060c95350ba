"""Translate formulas, conditions, guards and signs of other languages into the notation.

Imported only when a file has an error.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from xg.diagnostics.diagnostic import Span
from xg.syntax.spelling import FOREIGN, GREEK, SPELLED_OUT, native

READ_AT_MOST: Final = 200  # characters: a help of more is not read, and a tree of more is deep
_SPELLED: Final = str.maketrans(SPELLED_OUT)
_SOURCES: Final = {
    **dict.fromkeys(("randn", "normal"), "normal[{}](1)"),
    "rand": "uniform[{}](0, 1)", "zeros": "fill[{}](0)", "ones": "fill[{}](1)",
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
_FUNCTIONS: Final = ("exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "abs", "max", "min")


class _NoChain(Exception):
    """A formula that is not made of steps with tensors alone."""


Axes = Mapping[str, int]  # how many axes names have, where that is known
Shapes = Mapping[str, str]  # the axes of names as a text writes them


def as_chain(text: str, axes: Axes | None = None) -> str | None:
    """Return the chain that computes a formula, without a name for its result, or None.

    An operand with fewer axes than what it is added to is repeated.

    >>> as_chain("relu(x @ W.T + b)")
    'x -> •<=T(W) -> ⊕<-b -> ReLU'
    >>> as_chain("x @ W + b", {"b": 1})
    'x -> •<=W -> ⊕<-BC(b)'
    """
    try:
        return _chain(_parse_python(text), axes or {})
    except _NoChain:
        return None


def as_operator(text: str, shapes: Shapes | None = None) -> tuple[str, str] | None:
    """An operator of one's own that computes a formula of numbers, and the chain with it.

    A sum or a mean without axes is over all that its first name has by `shapes`, or over
    the last one where these are unknown.

    >>> as_operator("x**2 - y")
    ('op f(x, y) = x^2 - y', 'x -> f<-y')
    >>> as_operator("-mean(p*log(p))", {"p": "B, D"})
    ('op f(p [B, D]) = -mean[B, D](p * log(p))', 'p -> f')
    >>> as_operator("mean(x)/a", {"x": "B, S", "a": ""})
    ('op f(x [B, S], a []) = mean[B, S](x) / a', 'x -> f<-a')
    """
    try:
        tree = _parse_python(text)
    except _NoChain:
        return None
    names = dict.fromkeys(_names(tree))
    if not names or None in names:
        return None
    first, *others = (str(name) for name in names)
    written = ast.unparse(tree).replace(" ** ", "^")
    used = "".join(f"<-{name}" for name in others)
    heads = [first, *others]
    scalars = {name for name in heads if (shapes or {}).get(name) == ""}
    if _REDUCED.search(written):
        known = [_named_axes((shapes or {}).get(name, "")) or ".., D" for name in heads]
        written = _REDUCED.sub(rf"\1[{known[0].removeprefix('.., ')}](", written)
    else:
        known = [".."] * len(heads) if scalars and len(scalars) < len(heads) else []
    axes = [("" if name in scalars else each) for name, each in zip(heads, known, strict=False)]
    heads = [f"{name} [{each}]" for name, each in zip(heads, axes, strict=False)] or heads
    defined = f"op f({', '.join(heads)}) = {written}", f"{first} -> f{used}"
    return defined[0].translate(_SPELLED), defined[1].translate(_SPELLED)


def _parse_python(text: str) -> ast.expr:
    if len(text) > READ_AT_MOST:
        raise _NoChain
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python, about strings and signs in the text
            plain = _TRANSPOSED.sub(".T", text.strip())
            return ast.parse(plain.translate(_SIGNS), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _NoChain from None


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
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            for each in args:
                yield from _names(each)
        case ast.Call(func=ast.Name(id="sum" | "mean"), args=[each], keywords=[]):
            yield from _names(each)
        case _:
            yield None


_REDUCED: Final = re.compile(r"\b(sum|mean)\(")


def _named_axes(shape: str) -> str:
    """The axes of a shape that an operator's signature may say: names, each once; else ""."""
    axes = [axis.strip() for axis in shape.split(",")]
    apart = len(set(axes)) == len(axes) and all(map(str.isidentifier, axes))
    return ", ".join(axes) if apart else ""


_LISTED: Final = re.compile(r"(\w+)\s*(\[[^\]\n]{0,200}\]|,)?")


def axes_written(text: str) -> Axes:
    """How many axes each name has whose shape a text gives: `x, z [B, D]`.

    >>> axes_written("param x, z [B, D], s []")
    {'x': 2, 'z': 2, 's': 0}
    """
    shapes = shapes_written(text)
    return {name: shape.count(",") + bool(shape.strip()) for name, shape in shapes.items()}


def shapes_written(text: str) -> Shapes:
    """Return the axes of each name whose shape a text gives, spelled like in the text."""
    shapes: dict[str, str] = {}
    names: list[str] = []
    for found in _LISTED.finditer(text):
        name, behind = found[1], found[2] or ""
        names.append(name)
        if behind == ",":
            continue
        if behind:
            shapes |= dict.fromkeys(names, behind[1:-1])
        names = []
    return shapes


def _axes(node: ast.AST, axes: Axes) -> int | None:
    """How many axes a tensor has, a product of matrices two at least; None if that is unknown."""
    match node:
        case ast.Name(id=name):
            return axes.get(name)
        case ast.BinOp(left=left, op=ast.MatMult()):
            return _axes(left, axes) or 2
        case ast.BinOp(left=left, right=right):
            known = [count for count in (_axes(left, axes), _axes(right, axes)) if count]
            return max(known, default=None)
        case ast.Attribute(value=value, attr="T") | ast.Call(args=[value, *_]):
            return _axes(value, axes)
        case _:
            return None


def _is_fewer(one: ast.AST, other: ast.AST, axes: Axes) -> bool:
    """Whether a name has fewer axes than what it is combined with."""
    fewer, more = _axes(one, axes), _axes(other, axes)
    return isinstance(one, ast.Name) and None not in (fewer, more) and (fewer or 0) < (more or 0)


def _chain(node: ast.AST, axes: Axes) -> str:
    """A tensor as a chain, or as its name."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _INFIX:
            sign, mixes = _INFIX[type(op)], isinstance(op, ast.Add | ast.Mult)
            if mixes and _is_fewer(left, right, axes):
                left, right = right, left
            operand = _operand(right, axes)
            repeated = mixes and _is_fewer(right, left, axes)
            return f"{_chain(left, axes)} -> {sign}{f'BC({operand})' if repeated else operand}"
        case ast.Attribute(value=value, attr="T"):
            return f"{_chain(value, axes)} -> T"
        case ast.Call(func=function, args=sizes) if _function_name(function) in _SOURCES:
            return _SOURCES[_function_name(function)].format(", ".join(map(ast.unparse, sizes)))
        case ast.Subscript(value=ast.Name(id=name), slice=sizes) if name in _SOURCES:
            return _SOURCES[name].format(ast.unparse(sizes).strip("()"))
        case ast.Call(func=function, args=[first, *rest], keywords=keywords):
            if all(map(_is_last_axis, keywords)):
                return f"{_chain(first, axes)} -> {_step(_function_name(function), rest, axes)}"
        case _:
            pass
    raise _NoChain


def _step(name: str, rest: list[ast.expr], axes: Axes) -> str:
    """A node: its numbers in parentheses, its other operands attached."""
    if sign := _CALLED.get(name):
        if len(rest) != 1:
            raise _NoChain
        return f"{sign}{_operand(rest[0], axes)}"
    numbers = [each for each in rest if isinstance(each, ast.Constant)]
    own = f"({', '.join(map(ast.unparse, numbers))})" if numbers else ""
    attached = (f"<-{_operand(each, axes)}" for each in rest if each not in numbers)
    return f"{OPERATORS.get(name.lower(), name)}{own}{''.join(attached)}"


def _operand(node: ast.expr, axes: Axes) -> str:
    """An operand: a name, a transpose of one, or a chain in parentheses."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr="T"):
            return f"T({name})"
        case _:
            chain = _chain(node, axes)
            return f"({chain})" if "->" in chain else chain


def _function_name(function: ast.expr) -> str:
    """The function that is called: `torch.relu` is `relu`."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            raise _NoChain


def _is_last_axis(keyword: ast.keyword) -> bool:
    return keyword.arg in ("dim", "axis") and ast.unparse(keyword.value) == "-1"


# Conditions and choices as Python and C write them, as the functions that an expression has.
#
# Imported only when a file has an error.


_LINE: Final = 200  # characters at each side of a sign that are looked at, at most
_ABOVE: Final = 4_000  # characters above a sign that are looked at for a declaration
_OPEN, _CLOSE = "([{", ")]}"
_ASSIGNS: Final = re.compile(r"(?<![=<>!])=(?!=)")
_AS_PYTHON: Final = (
    (re.compile(r"&&?|∧"), " and "),
    (re.compile(r"\|\|?|∨"), " or "),
    (re.compile(r"!(?!=)|~|¬"), " not "),
    (re.compile(r"\^"), "**"),
    (re.compile("≤"), "<="),
    (re.compile("≥"), ">="),
    (re.compile("≠"), "!="),
)
_TURNED: Final[dict[type[ast.cmpop], str]] = {
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Lt: ">",
    ast.LtE: ">=",
}
_OPPOSITE: Final[dict[type[ast.cmpop], str]] = {
    ast.Gt: ">=", ast.GtE: ">", ast.Lt: ">=", ast.LtE: ">"
}  # fmt: skip


class _NoExpression(Exception):
    """A text that Python does not read either."""


def as_expression(text: str) -> str | None:
    """An expression with the functions of the language; None where it is read by no rule of these.

    >>> as_expression("x > 0 ? x : 0.1*x")
    'select(x > 0, x, 0.1*x)'
    >>> as_expression("(x > 1) && (0 > x)")
    'and(x > 1, 0 > x)'
    >>> as_expression("not x > 0")
    '0 >= x'
    """
    if len(text) > _LINE or ("not " in text and re.search(r"[&|~!]", text)):
        return None
    try:
        plain = _chosen(text)
        for pattern, word in _AS_PYTHON:
            plain = pattern.sub(word, plain)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python, about numbers and signs in the text
            tree = ast.parse(plain.strip(), mode="eval").body
        written = _Writer(plain.strip()).written(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, _NoExpression):
        return None
    return re.sub(r"\s*\*\*\s*", "^", written)


def _chosen(text: str) -> str:
    """A text with `A ? B : C` as Python has it, `B if A else C`."""
    mark = next(_outside(text, "?"), None)
    if mark is None:
        return text
    colon = next((place for place in _outside(text, ":") if place > mark), None)
    if colon is None:
        raise _NoExpression
    condition, first = text[:mark].strip(), text[mark + 1 : colon].strip()
    return f"({first}) if ({condition}) else ({_chosen(text[colon + 1 :].strip())})"


def _outside(text: str, sign: str) -> Iterator[int]:
    """The places of a sign outside of brackets."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char in _OPEN) - (char in _CLOSE)
        if char == sign and depth == 0:
            yield place


class _Writer:
    """Writes a tree of Python with the author's own text where nothing is changed."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()

    def written(self, node: ast.expr) -> str:
        """A part of the tree."""
        match node:
            case ast.BoolOp(op=op, values=values):
                name = "and" if isinstance(op, ast.And) else "or"
                return _nest_calls(name, [self.written(value) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._negate(operand)
            case ast.IfExp(test=test, body=body, orelse=other):
                return f"select({', '.join(map(self.written, (test, body, other)))})"
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [self.written(each) for each in (left, *others)]
                pairs = zip(sides, ops, sides[1:], strict=False)
                return _nest_calls("and", [_spell_comparison(*pair) for pair in pairs])
            case _:
                return self._as_it_is(node)

    def _negate(self, node: ast.expr) -> str:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPPOSITE:
                first, second = self.written(left), self.written(right)
                if isinstance(op, ast.Gt | ast.GtE):
                    first, second = second, first
                return f"{first} {_OPPOSITE[type(op)]} {second}"
            case _:
                return f"select({self.written(node)}, 0, 1)"

    def _as_it_is(self, node: ast.expr) -> str:
        """The author's text, but for the conditions in it."""
        begin, end = node.col_offset, node.end_col_offset or 0
        done, pieces = begin, list[str]()
        for inner in _conditions(node):
            start, stop = inner.col_offset, inner.end_col_offset or 0
            written = self.written(inner)
            if "(" in written and self._in_own_parentheses(start, stop):
                start, stop = start - 1, stop + 1
            pieces += [self._data[done:start].decode(), written]
            done = stop
        return "".join([*pieces, self._data[done:end].decode()])

    def _in_own_parentheses(self, start: int, stop: int) -> bool:
        """Whether parentheses around a part belong to it, and to no call."""
        around = self._data[start - 1 : start] + self._data[stop : stop + 1]
        before = self._data[: max(0, start - 1)].decode(errors="replace")[-1:]
        return around == b"()" and not re.match(r"[\w\])]", before)


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    """The outermost conditions and choices inside a part, in their order."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.BoolOp() | ast.Compare() | ast.IfExp() | ast.UnaryOp(op=ast.Not()):
                yield child
            case _:
                yield from _conditions(child)


def _spell_comparison(left: str, op: ast.cmpop, right: str) -> str:
    match op:
        case ast.Gt() | ast.GtE():
            return f"{left} {_TURNED[type(op)]} {right}"
        case ast.Lt() | ast.LtE():
            return f"{right} {_TURNED[type(op)]} {left}"
        case ast.Eq():
            return f"equal({left}, {right})"
        case ast.NotEq():
            return f"or({left} > {right}, {right} > {left})"
        case _:
            raise _NoExpression


def _nest_calls(name: str, parts: list[str]) -> str:
    """A function of two operands over several."""
    joined = parts[-1]
    for part in reversed(parts[:-1]):
        joined = f"{name}({part}, {joined})"
    return joined


# ---- the place of a sign -------------------------------------------------------------------------


def in_operator(text: str, place: int) -> bool:
    """Return whether the declaration around a place declares an operator."""
    begun = re.findall(r"^\w+", text[max(0, place - _ABOVE) : place], re.MULTILINE)
    return begun[-1:] == ["op"]


def expression_around(text: str, start: int, end: int) -> str:
    """The part of an expression around a sign at these offsets.

    It goes to a comma, to a bracket that is open, or to the `=` of the operator.
    """
    line = text[max(text.rfind("\n", 0, start) + 1, start - _LINE) : start]
    depth, begin = 0, 0
    assigned = [found.start() for found in _ASSIGNS.finditer(line)]
    for place in range(len(line) - 1, -1, -1):
        depth += (line[place] in _CLOSE) - (line[place] in _OPEN)
        if depth < 0 or (depth == 0 and (line[place] == "," or place in assigned)):
            begin = place + 1
            break
    behind = re.split(r"[#\n]|\bwhere\b", text[end : end + _LINE], maxsplit=1)[0]
    depth, last = 0, len(behind)
    for place, char in enumerate(behind):
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth < 0 or (depth == 0 and char == ","):
            last = place
            break
    return f"{line[begin:]}{text[start:end]}{behind[:last]}".strip()


# Guards of nodes as other languages have them, in the words of the language.
#
# Imported only when a file has an error.


ENDS: Final = re.compile(r"->|[:#\n{}]|\bas\b|\bwhere\b")
_JOINED: Final = re.compile(r"(\|\|?|&&?|,|\bor\b|\band\b|\bif\b)")
_PART: Final = re.compile(r"(?:(\w+) ?={1,2} ?)?(\w+)")
_ONE: Final = "a node has one guard, which names one option"
_ALONE: Final = "a guard is an option and its word, without quotes and parentheses"
_WORDS: Final = "`|` goes between the words of a guard"


class Guard(NamedTuple):
    """A guard as it is written here, and the rule that another one broke."""

    reason: str
    meant: str


def guard_behind(text: str) -> Guard | None:
    """Rewrite the text after `if` as a guard of the language, or return None.

    >>> guard_behind("norm = pre or norm = post -> tanh").meant
    'if norm = pre | post'
    >>> guard_behind('(norm == "pre") : y').meant
    'if norm = pre'
    >>> guard_behind("norm = pre and act = gelu : y").meant
    'option norm_act = no | yes` and `if norm_act = yes'
    """
    written = ENDS.split(text, maxsplit=1)[0]
    plain = re.sub(r"\b(?:in|is)\b", "=", re.sub(r"[\"'()\[\]]", " ", written))
    parts = _JOINED.split(" ".join(plain.split()))
    found = [_PART.fullmatch(part.strip()) for part in parts[::2]]
    pairs = [(part[1], part[2]) for part in found if part]
    if len(pairs) < len(found) or not pairs[0][0]:
        return None
    options = dict.fromkeys(option for option, _ in pairs if option)
    words = dict.fromkeys(word for _, word in pairs)
    first = next(iter(options))
    if len(options) == 1:
        reason = _WORDS if len(words) > 1 and len(found) > 1 else _ALONE
        return Guard(reason, f"if {first} = {' | '.join(words)}")
    both = "_".join(options)
    return Guard(_ONE, f"option {both} = no | yes` and `if {both} = yes")


# Remarks about signs and letters of other languages that depend on their place: `x²`, `√x`.
#
# Imported only when a file has an error.


_NEAR: Final = 200  # characters at either side of a sign that are looked at, at most
_LOGIC: Final = ("&", "&&", "?", "!", "~", "¬", "∧", "∨", "≠")
_TRANSPOSE_SIGNS: Final = ("ᵀ", "⊤", "'")
_POWERS: Final = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True))
_ATOM: Final = r"[\w.]+(?:\([^()\n]{0,100}\))?"
_COMMANDS: Final = {
    **dict.fromkeys(("cdot", "times", "ast"), "a product is written with `*`"),
    **dict.fromkeys(("to", "rightarrow", "mapsto"), "dataflow is written `->`"),
    **dict.fromkeys(("odot", "circ"), "the elementwise product is written `⊙`, or `*`"),
    "oplus": "an elementwise sum is written `⊕`, or `+`",
    "infty": "write `inf`",
}


def remark(span: Span) -> str:
    """The remark about a sign where it is; nothing where only the sign itself says more."""
    text = span.source.text
    operator = in_operator(text, span.start)
    front = text[max(0, span.start - _NEAR) : span.start].rpartition("\n")[2]
    behind = text[span.end : span.end + _NEAR].partition("\n")[0]
    if span.text == "\\":
        return _command(behind, operator=operator)
    if span.text == "%":
        return "no function takes a remainder" if operator else ""
    if span.text == "∞":
        return "write `inf`"
    if span.text == "√":
        operand = re.match(rf"\(?\s*({_ATOM})", behind)
        return f"write `sqrt({operand[1] if operand else '…'})`" if operator else ""
    if span.text in _TRANSPOSE_SIGNS:
        return _transpose_hint(span.text, front, operator=operator)
    if span.text in _LOGIC:
        return _logic(span, front, behind, operator=operator)
    return _power(span.text, front, operator=operator)


def _logic(span: Span, front: str, behind: str, *, operator: bool) -> str:
    """Suggest how to write a condition, in an operator or after `if`."""
    if not operator:
        guarded = re.search(r"\bif\b(?!.*(?:\bif\b|->|:))", front)
        guard = guard_behind(f"{front[guarded.end() :]}{span.text}{behind}") if guarded else None
        return f"{guard.reason}: write `{guard.meant}`" if guard else ""
    meant = as_expression(expression_around(span.source.text, span.start, span.end))
    if meant is None and span.text == "?":
        return "a choice between two numbers is a function: `select(x > 0, x, 0)`"
    return f"write `{meant}`" if meant else ""


def _transpose_hint(sign: str, front: str, *, operator: bool) -> str:
    """`Wᵀ`, `W^⊤` and `W'` in a chain."""
    matrix = re.search(r"(<[-=]|^)\s*(\w+)\s*\^?\s*$", front)
    if operator or matrix is None or "[" in front:
        return ""
    if sign == "'" and not re.search(r"(?:@|•)\s*<=[^<]*$", front):
        return ""  # it is the prime of a name
    return f"write `T({matrix[2]})`" if matrix[1] else f"write `{matrix[2]} -> T`"


def _power(letters: str, front: str, *, operator: bool) -> str:
    """`x²`."""
    base = re.search(r"(\w+)$", front)
    if base is None or not set(letters) <= _POWERS.keys():
        return ""
    power = "".join(_POWERS[letter] for letter in letters)
    if operator or re.match(r"\s*(?:dim|mesh)\b", front):
        return f"write `{base[1]}^{power}`"
    begun = re.search(r"(<[-=]|^|->|,)\s*\w+$", front)
    if begun is None or "[" in front:
        return ""
    used = f"{base[1]} -> power"
    used = f"({used})" if begun[1][:1] == "<" else used
    return f"define it: `op power(x) = x^{power}`, and write `{used}`"


def _command(behind: str, *, operator: bool) -> str:
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
