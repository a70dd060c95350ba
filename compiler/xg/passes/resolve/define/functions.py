"""The functions that the body of a defined operator may call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.prim import Expr, as_float, binary, const, integer, reduce, sigmoid, unary, where
from xg.ir.scalar import FUNCTIONS as OF_NUMBERS
from xg.ir.scalar import Scalar, function
from xg.passes.resolve.define.errors import (
    BadExponent,
    MisplacedComparison,
    MissingAxis,
    UnknownFunction,
    Wrong,
    WrongArguments,
)
from xg.syntax import ast

LOGIC: Final = ("and", "or")
UNARY: Final = ("exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "stop")
BINARY: Final[Mapping[str, str]] = {"max": "maximum", "min": "minimum"}
REDUCTIONS: Final = ("sum", "mean", "max", "min")
PLAIN: Final = (*UNARY, "abs", "sigmoid", "float")  # of one argument
NAMES: Final = (
    *(*PLAIN, *BINARY, "select", "equal", *LOGIC),
    *("sum[D]", "mean[D]", "max[D]", "min[D]", "range[D]"),
)
FUNCTIONS: Final = frozenset((*PLAIN, *BINARY, *REDUCTIONS, *LOGIC, "select", "equal", "range"))

Places = Callable[[str], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class BodyValue:
    """A value inside a body: a number, or a tensor with the names of its axes."""

    value: Expr | Scalar
    axes: frozenset[str] = frozenset()


def apply(call: ast.Call, arguments: Sequence[BodyValue], places: Places) -> BodyValue:
    """The value of a call; raises Wrong."""
    name = call.operator.name
    if call.axes is not None:
        return _reduction(call, call.axes, arguments, places)
    match name, arguments:
        case "select", (condition, yes, no):
            return _select(call, condition, yes, no)
        case "sigmoid", (x,):
            return BodyValue(sigmoid(as_float(const(x.value))), x.axes)
        case "float", (x,):
            return BodyValue(as_float(const(x.value)), x.axes)
        case "abs", (x,):
            return elementwise("maximum", x, replace(x, value=-x.value))
        case "equal", (x, y):
            return elementwise("eq", x, y)
        case _, (x, *others) if name in LOGIC and others:
            return _logical(call, name, arguments)
        case _, (x,) if name in UNARY:
            return _unary(name, x)
        case _, (x, *others) if name in BINARY and others:
            for other in others:
                x = elementwise(BINARY[name], x, other)
            return x
        case _:
            raise Wrong(_misfit(call, name))


def _misfit(call: ast.Call, name: str) -> WrongArguments | UnknownFunction:
    if name == "select":
        return WrongArguments(call.span, "select(condition, where it holds, elsewhere)")
    if name in PLAIN:
        return WrongArguments(call.span, f"{name}(x)")
    if name in LOGIC:
        return WrongArguments(call.span, f"{name}(a > b, c > d)")
    if name == "equal":
        return WrongArguments(call.span, "equal(x, y)")
    if name in BINARY:
        return WrongArguments(call.span, f"{name}(x, y), or {name}[D](x) over an axis")
    if name in REDUCTIONS:
        return WrongArguments(call.span, f"{name}[D](x) with the axes to reduce")
    return UnknownFunction(call.operator.span, NAMES)


def _unary(name: str, x: BodyValue) -> BodyValue:
    if isinstance(x.value, Scalar) and name == "stop":
        return x
    if isinstance(x.value, Scalar) and name in OF_NUMBERS:
        return BodyValue(function(name, x.value))
    return BodyValue(unary(name, as_float(const(x.value))), x.axes)


def elementwise(prim: str, left: BodyValue, right: BodyValue) -> BodyValue:
    """A function of two: integers meet whole numbers as integers, and anything else as floats."""
    values, axes = (left.value, right.value), left.axes | right.axes
    if all(value.kind != "int" for value in values if isinstance(value, Expr)):
        return BodyValue(binary(prim, *values), axes)
    if prim != "div" and all(map(_is_whole, values)):
        operands = [value if isinstance(value, Expr) else integer(value) for value in values]
    else:
        operands = [as_float(value) if isinstance(value, Expr) else value for value in values]
    return BodyValue(binary(prim, *operands), axes)


def _is_whole(value: Expr | Scalar) -> bool:
    return value.kind == "int" if isinstance(value, Expr) else value.is_whole


def _logical(call: ast.Call, name: str, conditions: Sequence[BodyValue]) -> BodyValue:
    for condition, argument in zip(conditions, call.arguments, strict=True):
        if not isinstance(condition.value, Expr) or condition.value.kind != "bool":
            raise Wrong(MisplacedComparison(argument.value.span, wanted=True))
    first, *others = conditions
    for other in others:
        first = BodyValue(binary(name, first.value, other.value), first.axes | other.axes)
    return first


def _select(call: ast.Call, condition: BodyValue, yes: BodyValue, no: BodyValue) -> BodyValue:
    if not isinstance(condition.value, Expr) or condition.value.kind != "bool":
        raise Wrong(MisplacedComparison(call.arguments[0].value.span, wanted=True))
    axes = condition.axes | yes.axes | no.axes
    values = [part.value for part in (yes, no)]
    if {v.kind for v in values if isinstance(v, Expr)} != {"int"}:
        values = [as_float(v) if isinstance(v, Expr) else v for v in values]
    return BodyValue(where(condition.value, *values), axes)


def _reduction(
    call: ast.Call, brackets: ast.AxisMap, arguments: Sequence[BodyValue], places: Places
) -> BodyValue:
    name = call.operator.name
    if name not in REDUCTIONS or len(arguments) != 1 or brackets.target is not None:
        is_function = name in FUNCTIONS
        form = f"{name}[D](x)" if name in REDUCTIONS else f"{name} without brackets"
        span = call.operator.span
        raise Wrong(
            WrongArguments(call.span, form) if is_function else UnknownFunction(span, NAMES)
        )
    (x,) = arguments
    axes = [_axis(item, x) for item in brackets.source]
    reduced = tuple(place for axis in axes for place in places(axis))
    tensor = as_float(const(x.value))
    if name == "min":
        return BodyValue(-reduce("max", -tensor, reduced), x.axes - set(axes))
    return BodyValue(reduce(name, tensor, reduced), x.axes - set(axes))


def _axis(item: ast.AxisItem, x: BodyValue) -> str:
    name = item.name.name if isinstance(item, ast.Axis) and item.size is None else item.span.text
    if name not in x.axes:
        raise Wrong(MissingAxis(item.span, name, tuple(sorted(x.axes))))
    return name


def power(base: BodyValue, exponent: BodyValue, written: ast.Power) -> BodyValue:
    """``base ^ exponent``; the exponent must be a number."""
    if not isinstance(exponent.value, Scalar):
        raise Wrong(BadExponent(written.exponent.span))
    value = as_float(base.value) if isinstance(base.value, Expr) else base.value
    return BodyValue(value**exponent.value, base.axes)
