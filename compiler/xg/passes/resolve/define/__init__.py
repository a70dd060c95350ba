"""An operator that a file defines: ``op RMS(x [.., D]; g [D]) = x / sqrt(mean[D](x^2)) * g``.

Its expression becomes a body in primitives, as if it were one of the shipped operators: shapes,
gradient, figure box and code follow.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import count
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import ONE, Dim, number, symbol
from xg.ir.op import Op
from xg.ir.prim import Expr, const, integer, iota, operand, reshape, transpose, where
from xg.ir.scalar import Scalar, as_scalar, size
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Data, Length, Misuse, Number, Own, Tensor, Use
from xg.passes.resolve.define.errors import (
    BadSignature,
    FunctionAndOp,
    LengthAsTranspose,
    MisplacedComparison,
    NotUsed,
    UndefinedNumber,
    UnknownFunction,
    UnknownPart,
    WholeResult,
    Wrong,
    WrongArguments,
)
from xg.passes.resolve.define.signature import (
    FUNCTIONS,
    LOGIC,
    NAMES,
    REST,
    BodyValue,
    DefinedSignature,
    Lengths,
    Slot,
    apply,
    elementwise,
    power,
    read,
)
from xg.syntax import ast
from xg.syntax.ast import walk

# Help for calls in the body of a defined operator that are written as in other languages.


LONG: Final = 60  # characters that a line of help repeats
BITS: Final = 2
_KEPT: Final = ("keepdim", "keepdims")
_AXES: Final = ("axis", "axes", "dim", "dims")
_BY_NAME: Final = "axes go by names, and what has one less is repeated along it"


def refuse_habits(call: ast.Call, signature: DefinedSignature) -> None:
    """Raise Wrong for arguments with names, and for the `True` that keeps an axis."""
    for argument in call.arguments:
        name, written = argument.name.name if argument.name else "", argument.span.text
        function = call.operator.name
        help: tuple[str, ...] = ()
        if name in _KEPT or (call.axes is not None and written in ("True", "False")):
            help = (f"leave `{written}` out: {_BY_NAME}",)
        elif name in _AXES and call.axes is None:
            axis = next((axis for axis in signature.axes[::-1] if axis != REST), "")
            operand = signature.data[0].name if signature.data else "x"
            named = "" if axis else f", with `{operand} [.., D]` in the signature"
            given = next((each.span.text for each in call.arguments if each.name is None), "x")
            help = (f"an axis is named in brackets: `{function}[{axis or 'D'}]({given})`{named}",)
        if help or name:
            span = argument.span if help else call.span
            raise Wrong(WrongArguments(span, "arguments in order, without names", help))


def compared(call: ast.Call, signature: DefinedSignature, problem: Problem) -> Problem:
    """Add the corrected call to a missing comparison: `equal(i, 1)` for bits, else `x > 0`."""
    if not isinstance(problem, MisplacedComparison) or not problem.wanted:
        return problem
    written = problem.span.text
    slot = next((slot for slot in signature.slots if slot.name == written), None)
    bits = {slot.name for slot in signature.slots if slot.range == BITS}
    is_bit = (slot is None and any(f"- {name}" in written for name in bits)) or written in bits
    condition = f"equal({written}, 1)" if is_bit else f"{written} > 0"
    whole = ", ".join(
        condition if argument.value.span == problem.span else argument.span.text
        for argument in call.arguments
    )
    whole = f"{call.operator.name}({whole})"
    return replace(problem, written=whole if len(whole) <= LONG else condition)


# The body of a defined operator: from its expression to primitives, at each use.
#
# Every tensor has the signature's order of axes, with size 1 where it has no such axis (leading
# ones left out), so that broadcasting by name is NumPy's broadcasting and a reduction keeps its
# axis as 1 until the end.


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
                return self._look_up(expr)
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

    def _look_up(self, path: ast.Path) -> BodyValue:
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
            other = axis and axis != REST and f"op {self.signature.operator}(…; {axis})"
            help = (f"each use gives the length of another axis: {other}",)
            form = f"range[S] or range[S](START), {where}"
            raise Wrong(WrongArguments(call.span, form, help if other else ()))
        first = call.arguments[0].value if call.arguments else None
        start = self.number(first).value if first else as_scalar(0.0)
        if not (isinstance(start, Scalar) and start.is_integral):
            what = "a start made of sizes and whole numbers"
            raise Wrong(WrongArguments((first or call).span, what))
        self.read.add(axis)
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
    made: Lengths = {axis: (numbers[axis].as_dim(),) for axis in signature.made}
    lengths = {**signature.bind([expr.shape for expr in operands], str), **made}
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


def define(definition: ast.OpDef) -> Op:
    """The operator of a definition; raises DiagnosticError with what is wrong."""
    try:
        signature = read(definition)
        _refuse_unknown(definition)
        own = tuple(_own(own, signature) for own in definition.own)
        rehearsal = _rehearse(definition, signature)
    except Wrong as wrong:
        raise DiagnosticError.of(wrong.problem) from None
    _refuse_unused_names(definition, rehearsal)
    return _operator(definition, signature, own, rehearsal)


def refuse_hidden_ops(definitions: Sequence[ast.OpDef], ops: Container[str]) -> None:
    """Raise DiagnosticError for functions that expressions call, and that other ops are named like.

    An expression calls functions alone. `op exp(x) = exp(x)` makes a node of one, and hides none.
    """
    same = {each.name.name for each in definitions if _is_its_function(each.body, each)}
    first: dict[str, ast.Call] = {}
    for definition in definitions:
        for call in _calls(definition):
            name = call.operator.name
            if name in FUNCTIONS and name in ops and name not in (*same, definition.name.name):
                first.setdefault(name, call)
    if first:
        raise DiagnosticError.of(*(FunctionAndOp(call.operator.span) for call in first.values()))


def _is_its_function(body: ast.Expr, definition: ast.OpDef) -> bool:
    if not isinstance(body, ast.Call) or body.operator.name != definition.name.name:
        return False
    operands = [port.name.span.text for port in definition.data]
    return [argument.value.span.text for argument in body.arguments] == operands


def _calls(definition: ast.OpDef) -> list[ast.Call]:
    """The calls in the expressions of a definition, in the order of the text."""
    trees = (definition.body, *definition.bindings)
    calls = [part for tree in trees for part in walk(tree) if isinstance(part, ast.Call)]
    return sorted(calls, key=lambda call: call.span.start)


def _refuse_unknown(definition: ast.OpDef) -> None:
    """Raise DiagnosticError with every function that bodies do not know, not with the first."""
    calls = [call for call in _calls(definition) if call.operator.name not in FUNCTIONS]
    if calls:
        named = (*definition.data, *definition.own, *definition.bindings)
        values = {each.name.name for each in named}
        raise DiagnosticError.of(
            *(UnknownFunction(call.operator.span, NAMES, _product(call, values)) for call in calls)
        )


def _product(call: ast.Call, values: Container[str]) -> str:
    """The product that `x(1 + g)` is meant as, where x is a value."""
    name, arguments = call.operator, [argument.value.span.text for argument in call.arguments]
    if name.name not in values or call.axes is not None or len(arguments) != 1:
        return ""
    (factor,) = arguments
    return f"{name.span.text} * {factor if factor.isalnum() else f'({factor})'}"


def _operator(
    definition: ast.OpDef, signature: DefinedSignature, own: tuple[Own, ...], rehearsal: Trace
) -> Op:
    is_mask = rehearsal.is_comparison

    def numbers(attrs: Attrs) -> dict[str, Scalar]:
        """The own numbers, without the mask's range; a length is a number too."""
        values = {name: attrs[name] for name in signature.numbers}
        return {name: size(v) if isinstance(v, Dim) else v for name, v in values.items()}

    def forward(*operands: Expr, **attrs: Scalar | Dim) -> Expr:
        return finish(trace(definition, signature, operands, numbers(attrs)), signature)

    def configure(use: Use) -> Attrs:
        signature.check_ranges(use.types)
        signature.bind([type_.shape for type_ in use.types], use.spell)
        operands = _operands(signature, [type_.shape for type_ in use.types])
        try:
            trace(definition, signature, operands, numbers(use.own))
        except Wrong as wrong:  # numbers that do not work, such as a divisor 0
            raise Misuse(wrong.problem.diagnostic().message) from None
        return {**use.own, "range": number(2)} if is_mask else use.own

    return Op(
        glyph=signature.operator,
        name=signature.operator,
        family="nonlinear",
        data=tuple(
            Data(slot.name, slot.kind, axes=slot.axes, below=slot.range) for slot in signature.data
        ),
        own=own,
        outputs=(_output_name([slot.name for slot in signature.slots]),),
        forward=forward,
        configure=configure,
        keeps_shape=bool(signature.data)
        and rehearsal.result.axes == frozenset(signature.data[0].axes),
        meaning="defined in the file",
        formula=" ".join(definition.span.text.split()),
        gradient="derived from the expression",
        source=definition.span.source.name,
    )


def _output_name(taken: Sequence[str]) -> str:
    """``y``, unless that or its cotangent would be taken for an operand."""
    names = (f"y_{number}" if number else "y" for number in count())
    return next(name for name in names if name not in taken and "d" + name not in taken)


def _own(own: ast.Own, signature: DefinedSignature) -> Own:
    if own.shape is not None:
        return Tensor(own.name.name)
    if own.name.name in signature.made:
        return Length(own.name.name)
    if own.default is None:
        return Number(own.name.name)
    empty = DefinedSignature(signature.operator, (), (), ())
    value = Trace(empty, {}, {}).number(own.default).value
    if isinstance(value, Expr) or value.constant is None:
        raise Wrong(BadSignature(own.default.span, "a default is a number"))
    return Number(own.name.name, value.constant)


def _rehearse(definition: ast.OpDef, signature: DefinedSignature) -> Trace:
    """The body on operands of unknown sizes: every error in it shows here."""
    lengths = {axis: (symbol(axis),) for axis in signature.axes}
    shapes = [tuple(dim for a in slot.axes for dim in lengths[a]) for slot in signature.slots]
    numbers = {name: size(symbol(name)) for name in signature.numbers}
    rehearsal = trace(definition, signature, _operands(signature, shapes), numbers)
    for own in definition.own:
        if rehearsal.is_comparison and own.name.name == "range":
            what = "the range of a mask is 2: give this number another name"
            raise Wrong(BadSignature(own.span, what))
    if isinstance(rehearsal.result.value, Expr) and rehearsal.result.value.kind == "int":
        raise Wrong(WholeResult(definition.body.span))
    return rehearsal


def _operands(signature: DefinedSignature, shapes: Sequence[Shape]) -> list[Expr]:
    pairs = zip(signature.slots, shapes, strict=True)
    return [operand(slot.name, shape, slot.kind) for slot, shape in pairs]


def _refuse_unused_names(definition: ast.OpDef, rehearsal: Trace) -> None:
    named = (*definition.data, *definition.own, *definition.bindings)
    unused = [part for part in named if part.name.name not in rehearsal.read]
    if unused:
        operator = definition.name.name
        problems = (NotUsed(p.name.span, operator, p in definition.data) for p in unused)
        raise DiagnosticError.of(*problems)
