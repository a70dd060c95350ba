"""The body of a defined operator: from its expression to primitives, at each use.

Every tensor has the signature's order of axes, with size 1 where it has no such axis (leading ones
left out), so that broadcasting by name is NumPy's broadcasting and a reduction keeps its axis as 1
until the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import ONE
from xg.ir.prim import Expr, const, integer, iota, reshape, transpose, where
from xg.ir.scalar import Scalar, as_scalar, size
from xg.ir.tensor import Shape
from xg.passes.resolve.define.errors import (
    LengthAsTranspose,
    MisplacedComparison,
    UndefinedNumber,
    UnknownPart,
    Wrong,
    WrongArguments,
)
from xg.passes.resolve.define.functions import LOGIC, BodyValue, apply, elementwise, power
from xg.passes.resolve.define.habits import compared, refuse_habits
from xg.passes.resolve.define.signature import REST, DefinedSignature, Lengths, Slot
from xg.syntax import ast

SIGNS: Final[Mapping[str, str]] = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
INFINITY: Final = float("inf")
COMPARISONS: Final[Mapping[str, str]] = {">": "gt", ">=": "ge"}


@dataclass(slots=True)
class Trace:
    """One reading of a body: `known` parts by name, and the names that were `read`."""

    signature: DefinedSignature
    lengths: Lengths
    known: dict[str, BodyValue]
    later: set[str] = field(default_factory=set[str])
    read: set[str] = field(default_factory=set[str])
    result: BodyValue = field(default_factory=lambda: BodyValue(as_scalar(0.0)))

    @property
    def is_comparison(self) -> bool:
        """Whether the result is one of booleans."""
        return _is_comparison(self.result)

    def part(self, expr: ast.Expr) -> BodyValue:
        """The value of an expression, a number if nothing in it is a tensor; raises Wrong."""
        try:
            part = self._part(expr)
            constant = part.value.constant if isinstance(part.value, Scalar) else None
        except (ArithmeticError, ValueError):
            raise Wrong(UndefinedNumber(expr.span)) from None
        if constant is not None and abs(constant) == INFINITY:
            raise Wrong(UndefinedNumber(expr.span))
        return part

    def _part(self, expr: ast.Expr) -> BodyValue:
        match expr:
            case ast.Number(value=value):
                return BodyValue(as_scalar(value))
            case ast.Path():
                return self._named(expr)
            case ast.Call():
                return self._call(expr)
            case ast.Arithmetic():
                return self._arithmetic(expr)
            case ast.Negation():
                operand = self.number(expr.operand)
                return replace(operand, value=-operand.value)
            case ast.Power():
                base, exponent = self.number(expr.base), self.number(expr.exponent)
                turned = isinstance(base.value, Expr) and expr.exponent.span.text == "T"
                if turned and "T" in self.lengths and "T" not in self.known:
                    raise Wrong(LengthAsTranspose(expr.span, expr.base.span.text))
                return power(base, exponent, expr)
            case ast.Comparison():
                return elementwise(
                    COMPARISONS[expr.sign], self.number(expr.left), self.number(expr.right)
                )
            case _:
                raise Wrong(UnknownPart(expr.span, self.signature.operator, (), below=False))

    def number(self, expr: ast.Expr) -> BodyValue:
        """A value that is not a comparison."""
        part = self.part(expr)
        if _is_comparison(part):
            raise Wrong(MisplacedComparison(expr.span, wanted=False))
        return part

    def _named(self, path: ast.Path) -> BodyValue:
        name = path.name
        if name in self.known:
            self.read.add(name)
            return self.known[name]
        if name in self.lengths and name != REST:
            return BodyValue(size(self.lengths[name][0]))
        known, axes = tuple(self.known), tuple(axis for axis in self.lengths if axis != REST)
        below, operator = name in self.later, self.signature.operator
        raise Wrong(UnknownPart(path.span, operator, known, below=below, axes=axes))

    def _call(self, call: ast.Call) -> BodyValue:
        values = [argument.value for argument in call.arguments]
        name = call.operator.name
        refuse_habits(call, self.signature)
        if name == "range":
            return self._range(call)
        if name == "select" and values:
            arguments = [self.part(values[0]), *map(self._chosen, values[1:])]
        else:
            arguments = [(self.part if name in LOGIC else self.number)(value) for value in values]
        try:
            return apply(call, arguments, self._places)
        except Wrong as wrong:
            raise Wrong(compared(call, self.signature, wrong.problem)) from None

    def _chosen(self, expr: ast.Expr) -> BodyValue:
        """A number, or ``-inf``, with which masks hide scores."""
        match expr:
            case ast.Path(name="inf"):
                return BodyValue(as_scalar(INFINITY))
            case ast.Negation(operand=ast.Path(name="inf")):
                return BodyValue(as_scalar(-INFINITY))
            case _:
                return self.number(expr)

    def _range(self, call: ast.Call) -> BodyValue:
        """Positions along an axis of the signature, from 0 or a size on."""
        axes = call.axes
        item = axes.source[0] if axes and axes.target is None and len(axes.source) == 1 else None
        axis = item.name.name if isinstance(item, ast.Axis) and item.size is None else ""
        if axis not in self.lengths or axis == REST or len(call.arguments) > 1:
            where = "S an axis of an operand: op f(x [.., S]) = …"
            other = (
                axis and axis != REST and f"op {self.signature.operator}(…, i [{axis}] in {axis})"
            )
            help = (f"along {axis} positions are an operand: {other}, with range({axis})",)
            form = f"range[S] or range[S](START), {where}"
            raise Wrong(WrongArguments(call.span, form, help if other else ()))
        first = call.arguments[0].value if call.arguments else None
        start = self.number(first).value if first else as_scalar(0.0)
        if not (isinstance(start, Scalar) and start.is_whole):
            what = "a start made of sizes and whole numbers"
            raise Wrong(WrongArguments((first or call).span, what))
        (place,) = self._places(axis)
        length = self.lengths[axis][0]
        positions = iota(length, start.as_dim())
        return BodyValue(reshape(positions, (length, *(ONE,) * (-1 - place))), frozenset((axis,)))

    def _places(self, axis: str) -> tuple[int, ...]:
        """The position of an axis in every tensor that has it, counted from the end."""
        behind = self.signature.axes[self.signature.axes.index(axis) + 1 :]
        end = -sum(len(self.lengths[name]) for name in behind)
        return tuple(range(end - len(self.lengths[axis]), end))

    def _arithmetic(self, expr: ast.Arithmetic) -> BodyValue:
        total = self.number(expr.first)
        for operation in expr.rest:
            total = _combine(operation.sign, total, self.number(operation.operand))
        return total


def trace(
    definition: ast.OpDef,
    signature: DefinedSignature,
    operands: Sequence[Expr],
    numbers: Mapping[str, Scalar],
) -> Trace:
    """The body on these operands (in the order of a use); raises Wrong."""
    lengths = signature.bind([expr.shape for expr in operands], str)
    body_values = {
        slot.name: _arrange(expr, slot, signature, lengths)
        for slot, expr in zip(signature.slots, operands, strict=True)
    }
    body_values |= {name: BodyValue(numbers[name]) for name in signature.numbers}
    reading = Trace(
        signature, lengths, body_values, {part.name.name for part in definition.bindings}
    )
    for binding in definition.bindings:
        part = reading.part(binding.value)
        name = binding.name.name
        reading.known[name] = (
            replace(part, value=part.value.named(name)) if isinstance(part.value, Expr) else part
        )
    reading.result = reading.part(definition.body)
    return reading


def finish(reading: Trace, signature: DefinedSignature) -> Expr:
    """The result without the axes that were reduced."""
    part, lengths = reading.result, reading.lengths
    left = [lengths[axis] for axis in signature.axes if axis in part.axes]
    value = const(part.value)
    if value.kind == "bool":
        value = where(value, integer(1), integer(0))
    return reshape(value, tuple(dim for dims in left for dim in dims))


def _arrange(expr: Expr, slot: Slot, signature: DefinedSignature, lengths: Lengths) -> BodyValue:
    """An operand in the signature's order of axes."""
    ordered = [axis for axis in signature.axes if axis in slot.axes]
    places = _axis_places(slot.axes, lengths)
    moved = transpose(expr, [place for axis in ordered for place in places[axis]])
    first = signature.axes.index(ordered[0]) if ordered else len(signature.axes)
    shape: list[Shape] = [
        lengths[axis] if axis in slot.axes else (ONE,) * len(lengths[axis])
        for axis in signature.axes[first:]
    ]
    return BodyValue(
        reshape(moved, tuple(dim for dims in shape for dim in dims)), frozenset(slot.axes)
    )


def _axis_places(axes: Sequence[str], lengths: Lengths) -> dict[str, range]:
    places: dict[str, range] = {}
    start = 0
    for axis in axes:
        places[axis] = range(start, start + len(lengths[axis]))
        start += len(lengths[axis])
    return places


def _is_comparison(part: BodyValue) -> bool:
    return isinstance(part.value, Expr) and part.value.kind == "bool"


def _combine(sign: str, left: BodyValue, right: BodyValue) -> BodyValue:
    if isinstance(left.value, Expr) or isinstance(right.value, Expr):
        return elementwise(SIGNS[sign], left, right)
    match sign:
        case "+":
            return BodyValue(left.value + right.value)
        case "-":
            return BodyValue(left.value - right.value)
        case "*":
            return BodyValue(left.value * right.value)
        case _:
            return BodyValue(left.value / right.value)
