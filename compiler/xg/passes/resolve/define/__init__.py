"""An operator that a file defines: ``op RMS(x [.., D]; g [D]) = x / sqrt(mean[D](x^2)) * g``.

Its expression becomes a body in primitives, as if it were one of the shipped operators: shapes,
gradient, figure box and code follow.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import count

from xg.diagnostics.diagnostic import DiagnosticError
from xg.ir.dim import number, symbol
from xg.ir.op import Op
from xg.ir.prim import Expr, operand
from xg.ir.scalar import Scalar, size
from xg.ir.tensor import Shape
from xg.ir.use import Attrs, Data, Misuse, Number, Own, Tensor, Use
from xg.passes.resolve.define.defined_body import Trace, finish, trace
from xg.passes.resolve.define.errors import (
    BadSignature,
    FunctionAndOp,
    NotUsed,
    UnknownFunction,
    WholeResult,
    Wrong,
)
from xg.passes.resolve.define.functions import FUNCTIONS, NAMES
from xg.passes.resolve.define.signature import DefinedSignature, read
from xg.syntax import ast
from xg.syntax.ast import walk


def define(definition: ast.OpDef) -> Op:
    """The operator of a definition; raises DiagnosticError with what is wrong."""
    try:
        signature = read(definition)
        _refuse_unknown(definition)
        own = tuple(_own(own, signature) for own in definition.own)
        rehearsal = _rehearse(definition, signature)
    except Wrong as wrong:
        raise DiagnosticError.of(wrong.problem) from None
    _refuse_unused(definition, rehearsal)
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

    def forward(*operands: Expr, **attrs: Scalar) -> Expr:
        numbers = {name: attrs[name] for name in signature.numbers}  # without the mask's range
        return finish(trace(definition, signature, operands, numbers), signature)

    def configure(use: Use) -> Attrs:
        signature.check_ranges(use.types)
        signature.bind([type_.shape for type_ in use.types], use.spell)
        operands = _operands(signature, [type_.shape for type_ in use.types])
        try:
            trace(definition, signature, operands, use.own)
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


def _refuse_unused(definition: ast.OpDef, rehearsal: Trace) -> None:
    named = (*definition.data, *definition.own, *definition.bindings)
    unused = [part for part in named if part.name.name not in rehearsal.read]
    if unused:
        operator = definition.name.name
        problems = (NotUsed(p.name.span, operator, p in definition.data) for p in unused)
        raise DiagnosticError.of(*problems)
