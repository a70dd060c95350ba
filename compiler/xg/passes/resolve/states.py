"""States of a block: what one round of a loop leaves to the next."""

from __future__ import annotations

from collections.abc import Iterator

from xg.ir.graph import Carry, Value
from xg.ir.scalar import Scalar, as_scalar
from xg.passes.resolve.errors import Refused
from xg.passes.resolve.loop_errors import NextOfState, StateStart
from xg.passes.resolve.scope import BlockScope
from xg.syntax import ast


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
            help = f"states are {', '.join(states)}" if states else f"declare it: state {name.name}"
            raise Refused(NextOfState(name.span, name.name, "is no state of this block", help))
        if name.name in nexts:
            raise Refused(NextOfState(name.span, name.name, "has a next already", "keep one"))
        nexts[name.name] = binding
    for past, (name, state) in zip(pasts, states.items(), strict=True):
        if name not in nexts:
            help = f"say what the next round finds: next {name} = …"
            raise Refused(NextOfState(state.name.span, name, "never changes", help))
        yield Carry(name, past, _next(scope, nexts[name], past), _start(scope, state))


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


def _start(scope: BlockScope, state: ast.State) -> Scalar:
    match state.init:
        case None | ast.Path(name="zeros"):
            return as_scalar(0.0)
        case ast.Path(name="ones"):
            return as_scalar(1.0)
        case ast.Path() as path:
            raise Refused(StateStart(path.span, state.name.name))
        case expr:
            return scope.reader.scalar(expr)
