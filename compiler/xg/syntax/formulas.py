"""A formula as Python writes it, `relu(x @ W + b)`, as a chain.

Imported only when a file has an error.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Final

from xg.syntax.foreign import FOREIGN, SPELLED_OUT, native

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
    """The chain that computes a formula, without a name for its result; None if it is none.

    An operand with fewer axes than what it is added to is repeated.

    >>> as_chain("relu(x @ W.T + b)")
    'x -> •<=T(W) -> ⊕<-b -> ReLU'
    >>> as_chain("x @ W + b", {"b": 1})
    'x -> •<=W -> ⊕<-BC(b)'
    """
    try:
        return _chain(_parsed(text), axes or {})
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
        tree = _parsed(text)
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


def _parsed(text: str) -> ast.expr:
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
    """The axes of each name whose shape a text gives, as they are written there."""
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
        case ast.Call(func=function, args=sizes) if _called(function) in _SOURCES:
            return _SOURCES[_called(function)].format(", ".join(map(ast.unparse, sizes)))
        case ast.Subscript(value=ast.Name(id=name), slice=sizes) if name in _SOURCES:
            return _SOURCES[name].format(ast.unparse(sizes).strip("()"))
        case ast.Call(func=function, args=[first, *rest], keywords=keywords):
            if all(map(_is_last_axis, keywords)):
                return f"{_chain(first, axes)} -> {_step(_called(function), rest, axes)}"
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


def _called(function: ast.expr) -> str:
    """The function that is called: `torch.relu` is `relu`."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            raise _NoChain


def _is_last_axis(keyword: ast.keyword) -> bool:
    return keyword.arg in ("dim", "axis") and ast.unparse(keyword.value) == "-1"
