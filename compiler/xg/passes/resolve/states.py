"""States of a block: what one round of a loop leaves to the next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from xg.ir.graph import Carry, Value
from xg.ir.scalar import Scalar, as_scalar
from xg.passes.resolve.errors import Refused
from xg.passes.resolve.loop_errors import NextOfState, StateStart
from xg.passes.resolve.scope import BlockScope
from xg.syntax import ast
from xg.syntax.spelling import greek_name

OPEN: Final = frozenset({"BC", "R"})  # without brackets these need the shape on a label


def declare_state(scope: BlockScope, state: ast.State) -> Value:
    """A state as it is at the beginning of a round: a further input of the block."""
    value = Value(state.name.name, "input", state.span, scope.reader.type(state.shape, state.range))
    scope.bind(state.name, value)
    scope.lay(value, state.shape)
    return value


def carries(scope: BlockScope, pasts: list[Value]) -> Iterator[Carry]:
    """Every state with what `next` sets it to; raises Refused where there is no such line."""
    nexts: dict[str, ast.Binding] = {}
    states = {state.name.name: state for state in scope.block.states}
    for binding in scope.block.nexts:
        name = binding.name
        if name.name not in states:
            help = _no_state(scope.block, name.name, [*states])
            raise Refused(NextOfState(name.span, name.name, "is no state of this block", help))
        if name.name in nexts:
            raise Refused(NextOfState(name.span, name.name, "has a next already", "keep one"))
        nexts[name.name] = binding
    for past, (name, state) in zip(pasts, states.items(), strict=True):
        if name not in nexts:
            help = f"say what the next round finds: next {name} = …"
            raise Refused(NextOfState(state.name.span, name, "never changes", help))
        yield Carry(name, past, _next(scope, nexts[name], past), _start(scope, state, past))


def _no_state(block: ast.Block, name: str, states: Sequence[str]) -> str:
    """How something that `next` sets becomes a state."""
    port = next((port for port in block.data if port.name.name == name), None)
    if port is not None:
        line = f"state {' '.join(port.span.text.split())}"
        start = f"a call gives its start: {block.name.name}({greek_name(name)}=…) over …"
        return f"write it as a line of the block instead of an input, `{line}`; {start}"
    return f"states are {', '.join(states)}" if states else f"declare it: state {name}"


def given_start(scope: BlockScope, state: ast.State, expr: ast.Expr) -> Value:
    """The edge that a call gives a state; raises Refused with how any other start is written."""
    name, written = state.name.name, expr.span.text
    of_numbers = re.match(r"(zeros|ones)\b", written)
    if isinstance(expr, ast.Path) and (not of_numbers or written in scope.values):
        return scope.path(expr)
    if of_numbers or isinstance(expr, ast.Number | ast.Negation):
        start = of_numbers[1] if of_numbers else written
        line = f"state {greek_name(name)} {state.shape.span.text} = {start}"
        told = f"a number stands where the state is declared: {line}"
        raise Refused(StateStart(expr.span, name, told))
    edge = next(each for i in count() if (each := f"{name}_{i}") not in scope.values)
    name, edge = greek_name(name), greek_name(edge)
    is_call = isinstance(expr, ast.Call)
    is_open = is_call and expr.operator.name in OPEN and expr.axes is None
    line, shape = written if is_call else "…", f" {state.shape.span.text}" if is_open else ""
    above = f"write `{line} : {edge}{shape}` in a line above"
    told = f"an edge is given: {above}, and `{name}={edge}` here"
    raise Refused(StateStart(expr.span, name, told))


def _next(scope: BlockScope, binding: ast.Binding, past: Value) -> Value:
    """The edge that a round leaves, of the type of the state."""
    value = binding.value
    if not isinstance(value, ast.Path):
        help = f"give the edge a name, and write: next {binding.name.name} = NAME"
        name = binding.name.name
        raise Refused(NextOfState(value.span, name, "is set to an expression", help))
    edge = scope.path(value)
    assert past.declared is not None
    scope.claims.append((edge, past.declared, value.span))
    return edge


def _start(scope: BlockScope, state: ast.State, past: Value) -> Scalar:
    """The number that a state begins as; of integers a whole one from 0 on."""
    start = _number(scope, state)
    if past.declared is not None and past.declared.range is not None and state.init is not None:
        number = start.constant
        if number is None or number < 0 or not number.is_integer():
            name = greek_name(state.name.name)
            declared = f"state {name} {state.shape.span.text} in {past.declared.range} = 0"
            told = f"its integers start as a whole number, 0 or more: {declared}"
            raise Refused(StateStart(state.init.span, state.name.name, told))
    return start


def _number(scope: BlockScope, state: ast.State) -> Scalar:
    match state.init:
        case None | ast.Path(name="zeros"):
            return as_scalar(0.0)
        case ast.Path(name="ones"):
            return as_scalar(1.0)
        case ast.Path() as path:
            raise Refused(StateStart(path.span, state.name.name))
        case expr:
            return scope.reader.scalar(expr)
