"""An operator that a file defines: ``op RMS(x [.., D]; g [D]) = x / sqrt(mean[D](x^2)) * g``.

Its expression becomes a body in primitives, as if it were one of the shipped operators: shapes,
gradient, figure box and code follow.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError, Problem, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import ONE, Dim, Scalar, as_scalar, number, size, symbol
from xg.ir.op import Op
from xg.ir.prim import (
    Expr,
    as_float,
    broadcast,
    const,
    integer,
    iota,
    operand,
    reshape,
    transpose,
    where,
)
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Data, Length, Misuse, Number, Own, Tensor, Use
from xg.passes.resolve.define.errors import (
    BadSignature,
    FunctionAndOp,
    LengthAsTranspose,
    LongFormula,
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
_BY_NAME: Final = "axes have names, and an operand without one is repeated along it"


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
            help = (f"name the axis in brackets: `{function}[{axis or 'D'}]({given})`{named}",)
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


@dataclass(frozen=True, slots=True, eq=False)
class OpFormula:
    """A definition, and the ops that its expression may call, by their names in its file.

    `count` is the number of functions and calls when all calls are written out.
    """

    definition: ast.OpDef
    signature: DefinedSignature
    callees: Mapping[str, OpFormula]
    count: int


NO_CALLEES: Final[Mapping[str, OpFormula]] = {}
LONGEST: Final = 2000


@dataclass(slots=True)
class Trace:
    """One reading of a body: `known` parts by name, and the names that were `read`."""

    signature: DefinedSignature
    lengths: Lengths
    known: dict[str, BodyValue]
    callees: Mapping[str, OpFormula] = field(default_factory=dict[str, OpFormula])
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
                return BodyValue(-operand.value, operand.axes)
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
        if name not in FUNCTIONS and name in self.callees:
            return self._inline(call, self.callees[name])
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

    def _inline(self, call: ast.Call, callee: OpFormula) -> BodyValue:
        """The value of a call of another op: its formula, with the axes that the operands have."""
        signature = callee.signature
        written = _match(call, callee)
        given = {name: self.number(written[name]) for name in written}
        slots = [(slot, given[slot.name], written[slot.name].span) for slot in signature.slots]
        _check_ranges(signature, slots)
        tokens: dict[str, tuple[str, ...]] = {}
        for slot, value, span in slots:
            order = (
                self._order(value.axes) if slot.axes == (REST,) else self._places_of(value, span)
            )
            for axis, axes in _bind(slot, order, span):
                earlier = tokens.setdefault(axis, axes)
                if axis == REST:
                    tokens[axis] = self._order({*earlier, *axes})
                elif earlier != axes:
                    form = f"one axis as {axis} of {signature.operator}"
                    found = f"these are {earlier[0]} and {axes[0]}"
                    raise Wrong(WrongArguments(span, form, (found,)))
        for slot, _, span in slots:
            named = (axis for axis in slot.axes if axis != REST and REST in slot.axes)
            for axis in named:  # it would have one axis of the caller twice
                if tokens[axis][0] in tokens[REST]:
                    form = f"an axis as {axis} of {signature.operator} that no operand has as .."
                    raise Wrong(WrongArguments(span, form, (f"this is {tokens[axis][0]}",)))
        lengths = {axis: self._sizes(axes) for axis, axes in tokens.items()}
        values = {
            slot.name: _arrange(self._operand(slot, value, tokens, span), slot, signature, lengths)
            for slot, value, span in slots
        }
        values |= _own_numbers(callee, given, call)
        reading = _read(callee, lengths, values)
        if isinstance(reading.result.value, Scalar):
            return reading.result
        axes = tuple(a for axis in signature.order(reading.result.axes) for a in tokens[axis])
        if len(set(axes)) < len(axes):
            what = f"a result of {signature.operator} whose axes have different names"
            raise Wrong(WrongArguments(call.span, what))
        result = Slot(signature.operator, axes)
        return _arrange(_shaped(reading, signature), result, self.signature, self.lengths)

    def _places_of(self, value: BodyValue, span: Span) -> tuple[str, ...]:
        """The axes of a value in the order of the operands that have them; raises Wrong."""
        made = tuple(axis for axis in self.signature.made if axis in value.axes)
        axes = value.axes.difference(made)
        orders = {
            tuple(axis for axis in slot.axes if axis in axes)
            for slot in self.signature.slots
            if axes.issubset(slot.axes)
        }
        if len(axes) > 1 and len(orders) != 1:
            found = ", ".join(self._order(value.axes))
            help = (
                f"[{found}] is not the order of axes in any operand: make it a node of a chain",
            )
            raise Wrong(WrongArguments(span, "axes whose last ones are known", help))
        return (*(orders.pop() if len(axes) > 1 else axes), *made)

    def _order(self, axes: Container[str]) -> tuple[str, ...]:
        return tuple(axis for axis in self.signature.axes if axis in axes)

    def _sizes(self, axes: Sequence[str]) -> Shape:
        return tuple(dim for axis in axes for dim in self.lengths[axis])

    def _operand(
        self, slot: Slot, value: BodyValue, tokens: Mapping[str, tuple[str, ...]], span: Span
    ) -> Expr:
        """An operand of another op with only its own axes, repeated along the axes of `..`."""
        expr = const(value.value)
        if slot.kind == "int" and expr.kind != "int":
            raise Wrong(WrongArguments(span, f"integers as {slot.name}"))
        expr = as_float(expr) if slot.kind == "float" else expr
        named = tuple(a for axis in slot.axes if axis != REST for a in tokens[axis])
        axes = (*tokens[REST], *named) if REST in slot.axes else named
        own = self._order(value.axes)
        places = _axis_places(own, self.lengths)
        order = [place for axis in axes if axis in own for place in places[axis]]
        turned = transpose(reshape(expr, self._sizes(own)), order)
        kept = [dim if axis in own else ONE for axis in axes for dim in self.lengths[axis]]
        return broadcast(reshape(turned, tuple(kept)), self._sizes(axes))

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


def trace(formula: OpFormula, operands: Sequence[Expr], numbers: Mapping[str, Scalar]) -> Trace:
    """The body on these operands (in the order of a use); raises Wrong."""
    signature = formula.signature
    made: Lengths = {axis: (numbers[axis].as_dim(),) for axis in signature.made}
    lengths = {**signature.bind([expr.shape for expr in operands], str), **made}
    body_values = {
        slot.name: _arrange(expr, slot, signature, lengths)
        for slot, expr in zip(signature.slots, operands, strict=True)
    }
    body_values |= {name: BodyValue(numbers[name]) for name in signature.numbers}
    return _read(formula, lengths, body_values)


def _read(formula: OpFormula, lengths: Lengths, values: dict[str, BodyValue]) -> Trace:
    definition = formula.definition
    later = {part.name.name for part in definition.bindings}
    reading = Trace(formula.signature, lengths, values, formula.callees, later)
    for binding in definition.bindings:
        part = reading.part(binding.value)
        name = binding.name.name
        reading.known[name] = (
            replace(part, value=part.value.named(name)) if isinstance(part.value, Expr) else part
        )
    reading.result = reading.part(definition.body)
    return reading


def finish(reading: Trace, signature: DefinedSignature) -> Expr:
    """The result without the axes that were reduced; comparisons as integers."""
    value = _shaped(reading, signature)
    return where(value, integer(1), integer(0)) if value.kind == "bool" else value


def _shaped(reading: Trace, signature: DefinedSignature) -> Expr:
    """The result without the axes that were reduced, in the order that the file declares."""
    part, lengths = reading.result, reading.lengths
    axes = [axis for axis in signature.axes if axis in part.axes]
    value = reshape(const(part.value), tuple(dim for axis in axes for dim in lengths[axis]))
    places = _axis_places(axes, lengths)
    return transpose(value, [i for axis in signature.order(axes) for i in places[axis]])


def _match(call: ast.Call, callee: OpFormula) -> dict[str, ast.Expr]:
    """The arguments of a call of an op by the names in its signature; raises Wrong."""
    definition, operator = callee.definition, callee.signature.operator
    own = [each.name.name for each in definition.own]
    names = [*(port.name.name for port in definition.data), *own]
    form = f"{operator}({', '.join(names)})"
    help = ()
    if call.axes is not None:
        help = ("an op takes the last axes of its operands, as its signature names them",)
    if callee.signature.made:
        help = (f"{operator} makes an axis: it is a node of a chain, -> {operator}",)
    matched: dict[str, ast.Expr] = {}
    for argument in call.arguments:
        free = (name for name in names if name not in matched)
        name = argument.name.name if argument.name else next(free, "")
        if name not in names or name in matched or (argument.name and name not in own):
            raise Wrong(WrongArguments(argument.span, form))
        matched[name] = argument.value
    defaults = {each.name.name for each in definition.own if each.default is not None}
    if help or {*names} - {*matched} - defaults:
        raise Wrong(WrongArguments(call.span, form, help))
    return matched


def _check_ranges(
    signature: DefinedSignature, operands: Sequence[tuple[Slot, BodyValue, Span]]
) -> None:
    """Raise Wrong for integers of another range than a called op takes, as its uses do."""
    ranges: dict[str, str | int] = {}
    for slot, value, span in operands:
        expected, found = slot.range, value.range
        if isinstance(expected, str):
            expected = found if found is None else ranges.setdefault(expected, found)
        is_integer = isinstance(value.value, Expr) and value.value.kind == "int"
        if slot.range is not None and is_integer and found != expected:
            form = f"integers in {expected} as {slot.name} of {signature.operator}"
            is_operand = found is not None
            what = f"these are in {found}" if is_operand else "these are computed, without a range"
            raise Wrong(WrongArguments(span, form, (what,)))


def _bind(slot: Slot, axes: tuple[str, ...], span: Span) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The axes of an operand by the names of a signature: the last ones, and the rest as `..`."""
    named = [axis for axis in slot.axes if axis != REST]
    rest = len(axes) - len(named)
    if rest < 0 or (rest > 0 and REST not in slot.axes) or REST in axes[rest:]:
        found = f"this has [{', '.join(axes)}]"
        raise Wrong(WrongArguments(span, str(slot), (found,)))
    if REST in slot.axes:
        yield REST, axes[:rest]
    yield from ((name, (axis,)) for name, axis in zip(named, axes[rest:], strict=True))


def _own_numbers(
    callee: OpFormula, given: Mapping[str, BodyValue], call: ast.Call
) -> dict[str, BodyValue]:
    """The own numbers of a callee: those that the call gives, and defaults."""
    numbers: dict[str, BodyValue] = {}
    for own in callee.definition.own:
        name = own.name.name
        if name in callee.signature.numbers:
            default = _own(own, callee.signature)
            if name in given:
                numbers[name] = given[name]
            elif isinstance(default, Number) and default.default is not None:
                numbers[name] = BodyValue(as_scalar(default.default))
            if isinstance(numbers[name].value, Expr):
                form = f"a number as {name} of {callee.signature.operator}"
                raise Wrong(WrongArguments(call.span, form))
    return numbers


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
    arranged = reshape(moved, tuple(dim for dims in shape for dim in dims))
    return BodyValue(arranged, frozenset(slot.axes), slot.range)


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
    """The operator of a definition that calls no other; raises DiagnosticError."""
    return define_formula(definition, NO_CALLEES)[0]


def define_formula(definition: ast.OpDef, ops: Mapping[str, OpFormula]) -> tuple[Op, OpFormula]:
    """The operator of a definition whose expression may call others, and its formula.

    Raises DiagnosticError with what is wrong.
    """
    try:
        called = {name: ops[name] for name in called_ops(definition, ops)}
        calls = [call.operator.name for call in _calls(definition)]
        size = 1 + sum(called[name].count if name in called else 1 for name in calls)
        if size > LONGEST:
            raise Wrong(LongFormula(definition.name.span, definition.name.name, size, LONGEST))
        formula = OpFormula(definition, read(definition), called, size)
        _refuse_unknown(definition, called)
        own = tuple(_own(own, formula.signature) for own in definition.own)
        rehearsal = _rehearse(formula)
    except Wrong as wrong:
        raise DiagnosticError.of(wrong.problem) from None
    _refuse_unused_names(definition, rehearsal)
    return _operator(formula, own, rehearsal), formula


def called_ops(definition: ast.OpDef, ops: Container[str]) -> tuple[str, ...]:
    """The names of the ops that an expression calls; a function hides an op of its name."""
    names = (call.operator.name for call in _calls(definition))
    return tuple(dict.fromkeys(n for n in names if n in ops and n not in FUNCTIONS))


def refuse_hidden_ops(definitions: Sequence[ast.OpDef], ops: Container[str]) -> None:
    """Raise DiagnosticError for functions that expressions call, and that other ops are named like.

    An expression takes the function. `op exp(x) = exp(x)` makes a node of one, and hides none.
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


def _refuse_unknown(definition: ast.OpDef, ops: Container[str]) -> None:
    """Raise DiagnosticError with every function that bodies do not know, not with the first."""
    known = [call for call in _calls(definition) if call.operator.name not in FUNCTIONS]
    calls = [call for call in known if call.operator.name not in ops]
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


def _operator(formula: OpFormula, own: tuple[Own, ...], rehearsal: Trace) -> Op:
    definition, signature = formula.definition, formula.signature
    is_mask = rehearsal.is_comparison

    def numbers(attrs: Attrs) -> dict[str, Scalar]:
        """The own numbers, without the mask's range; a length is a number too."""
        values = {name: attrs[name] for name in signature.numbers}
        return {name: size(v) if isinstance(v, Dim) else v for name, v in values.items()}

    def forward(*operands: Expr, **attrs: Scalar | Dim) -> Expr:
        return finish(trace(formula, operands, numbers(attrs)), signature)

    def configure(use: Use) -> Attrs:
        signature.check_ranges(use.types)
        signature.bind([type_.shape for type_ in use.types], use.spell)
        operands = _operands(signature, [type_.shape for type_ in use.types])
        try:
            trace(formula, operands, numbers(use.own))
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
        and signature.order(rehearsal.result.axes) == signature.data[0].axes,
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


def _rehearse(formula: OpFormula) -> Trace:
    """The body on operands of unknown sizes: every error in it shows here."""
    definition, signature = formula.definition, formula.signature
    lengths = {axis: (symbol(axis),) for axis in signature.axes}
    shapes = [tuple(dim for a in slot.axes for dim in lengths[a]) for slot in signature.slots]
    numbers = {name: size(symbol(name)) for name in signature.numbers}
    rehearsal = trace(formula, _operands(signature, shapes), numbers)
    _refuse_other_result(formula, rehearsal)
    for own in definition.own:
        if rehearsal.is_comparison and own.name.name == "range":
            what = "the range of a mask is 2: give this number another name"
            raise Wrong(BadSignature(own.span, what))
    if isinstance(rehearsal.result.value, Expr) and rehearsal.result.value.kind == "int":
        raise Wrong(WholeResult(definition.body.span))
    return rehearsal


def _refuse_other_result(formula: OpFormula, rehearsal: Trace) -> None:
    """Refuse a declared result that has other axes than the expression."""
    signature, declared = formula.signature, formula.definition.result
    found = rehearsal.result.axes
    if declared is not None and (signature.result is None or frozenset(signature.result) != found):
        axes = ", ".join(axis for axis in signature.axes if axis in found)
        what = f"the result of {signature.operator} has the axes [{axes}]"
        raise Wrong(BadSignature(declared.span, what, ("a declaration gives these an order",)))


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
