"""The functions that the body of a defined operator may call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.prim import Expr, binary, const, reduce, unary, where
from xg.ir.scalar import FUNCTIONS as OF_NUMBERS
from xg.ir.scalar import Scalar, function
from xg.ir.special import sigmoid
from xg.passes.resolve.define.errors import (
    BadExponent,
    MisplacedComparison,
    MissingAxis,
    UnknownFunction,
    Wrong,
    WrongArguments,
)
from xg.syntax import ast

UNARY: Final = ("exp", "log", "sqrt", "tanh", "erf", "sin", "cos")
BINARY: Final[Mapping[str, str]] = {"max": "maximum", "min": "minimum"}
REDUCTIONS: Final = ("sum", "mean", "max", "min")
NAMES: Final = (*UNARY, "sigmoid", *BINARY, "select", "sum[D]", "mean[D]", "max[D]", "min[D]")

FUNCTIONS: Final = frozenset((*UNARY, *BINARY, *REDUCTIONS, "sigmoid", "select"))

Places = Callable[[str], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Part:
    """A value inside a body: a number, or a tensor with the names of its axes."""

    value: Expr | Scalar
    axes: frozenset[str] = frozenset()


def apply(call: ast.Call, arguments: Sequence[Part], places: Places) -> Part:
    """The value of a call; raises Wrong."""
    name = call.operator.name
    if any(argument.name for argument in call.arguments):
        raise Wrong(WrongArguments(call.span, "arguments in order, without names"))
    if call.axes is not None:
        return _reduction(call, call.axes, arguments, places)
    match name, arguments:
        case "select", (condition, yes, no):
            return _select(call, condition, yes, no)
        case "sigmoid", (x,):
            return Part(sigmoid(const(x.value)), x.axes)
        case _, (x,) if name in UNARY:
            return _unary(name, x)
        case _, (x, *others) if name in BINARY and others:
            for other in others:
                x = Part(binary(BINARY[name], x.value, other.value), x.axes | other.axes)
            return x
        case _:
            raise Wrong(_misfit(call, name))


def _misfit(call: ast.Call, name: str) -> WrongArguments | UnknownFunction:
    if name == "select":
        return WrongArguments(call.span, "select(condition, where it holds, elsewhere)")
    if name in UNARY or name == "sigmoid":
        return WrongArguments(call.span, f"{name}(x)")
    if name in BINARY:
        return WrongArguments(call.span, f"{name}(x, y), or {name}[D](x) over an axis")
    if name in REDUCTIONS:
        return WrongArguments(call.span, f"{name}[D](x) with the axes to reduce")
    return UnknownFunction(call.operator.span, NAMES)


def _unary(name: str, x: Part) -> Part:
    if isinstance(x.value, Scalar) and name in OF_NUMBERS:
        return Part(function(name, x.value))
    return Part(unary(name, const(x.value)), x.axes)


def _select(call: ast.Call, condition: Part, yes: Part, no: Part) -> Part:
    if not isinstance(condition.value, Expr) or condition.value.kind != "bool":
        raise Wrong(MisplacedComparison(call.arguments[0].value.span, wanted=True))
    axes = condition.axes | yes.axes | no.axes
    return Part(where(condition.value, yes.value, no.value), axes)


def _reduction(
    call: ast.Call, brackets: ast.AxisMap, arguments: Sequence[Part], places: Places
) -> Part:
    name = call.operator.name
    if name not in REDUCTIONS or len(arguments) != 1 or brackets.target is not None:
        known = name in (*REDUCTIONS, *UNARY, "sigmoid", "select")
        form = f"{name}[D](x)" if name in REDUCTIONS else f"{name} without brackets"
        span = call.operator.span
        raise Wrong(WrongArguments(call.span, form) if known else UnknownFunction(span, NAMES))
    (x,) = arguments
    axes = [_axis(item, x) for item in brackets.source]
    reduced = tuple(place for axis in axes for place in places(axis))
    tensor = const(x.value)
    if name == "min":
        return Part(-reduce("max", -tensor, reduced), x.axes - set(axes))
    return Part(reduce(name, tensor, reduced), x.axes - set(axes))


def _axis(item: ast.AxisItem, x: Part) -> str:
    name = item.name.name if isinstance(item, ast.Axis) and item.size is None else item.span.text
    if name not in x.axes:
        raise Wrong(MissingAxis(item.span, name, tuple(sorted(x.axes))))
    return name


def power(base: Part, exponent: Part, written: ast.Power) -> Part:
    """``base ^ exponent``; the exponent must be a number."""
    if not isinstance(exponent.value, Scalar):
        raise Wrong(BadExponent(written.exponent.span))
    return Part(base.value**exponent.value, base.axes)
