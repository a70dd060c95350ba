"""Nodes: an operator or a call put behind its operands, once these are known."""

from __future__ import annotations

from collections.abc import Sequence

from xg.ir.graph import Apply, Call, Pending, Value
from xg.ir.op import Op
from xg.ir.tensor import Shape
from xg.ir.use import Tensor
from xg.passes.resolve.arguments import block_arguments, op_arguments
from xg.passes.resolve.brackets import refuse_brackets
from xg.passes.resolve.call_errors import CalledAgain, SeveralOutputs
from xg.passes.resolve.errors import NotYet, Refused, UnnamedTwice, WrongOperands
from xg.passes.resolve.instance import Called
from xg.passes.resolve.scope import Scope
from xg.passes.resolve.units import Located
from xg.syntax import ast


def apply_operator(
    scope: Scope,
    use: ast.NodeUse,
    op: Op,
    data: Sequence[Value],
    targets: tuple[Shape | None, ...],
    peer: Value | None,
) -> tuple[Value, ...]:
    """One use of an operator on its data operands; the values that leave it."""
    if use.repeat or use.instance:
        what = "repeated" if use.repeat else "named"
        raise Refused(NotYet(use.span, f"an operator that is {what}: put it into a block, which"))
    required = len([d for d in op.data if not d.optional])
    if not op.variadic and not required <= len(data) <= len(op.data):
        takes = _takes(required, [operand.name for operand in op.data])
        raise Refused(WrongOperands(use.span, op.glyph, takes, len(data), help=_own_help(op, data)))
    refuse_brackets(use, op.glyph, op.brackets)
    tensors, own, absent = op_arguments(scope, use, op)
    absent += tuple(d.name for d in op.data[len(data) :])
    count = len(op.outputs) or len(targets)
    outputs = scope.made(use.label, count, use.span)
    attrs = {**own, "absent": absent} if absent else dict(own)
    if op.variadic:
        attrs["count"] = len(data)
    scope.steps.append(
        Apply(
            op,
            (*data, *tensors),
            outputs,
            attrs,
            use.span,
            place=outputs[0].name or scope.place(op),
            pending=Pending(scope.reader.axes(use.axes), targets, peer),
        )
    )
    return outputs


def first_call(
    scope: Scope, use: ast.NodeUse, located: Located, data: Sequence[Value]
) -> tuple[Value, ...]:
    """A call of a block, which from now on can be called again by its name."""
    default = (
        use.operator.name if use.operator.name in scope.linked.options else located.block.name.name
    )
    name = use.instance.name if use.instance else default
    if name in scope.calls:
        raise Refused(UnnamedTwice(use.span, name, scope.calls[name].span))
    instance, sizes = block_arguments(scope, use, located)
    named, row = use.instance is not None, use.repeat is not None
    scope.calls[name] = Called(instance, sizes, use.span, named, row)
    return _call(scope, use, name, data)


def call_again(
    scope: Scope, use: ast.NodeUse, name: str, data: Sequence[Value]
) -> tuple[Value, ...]:
    """A call by the name of an earlier one, whose parameters and arguments it shares."""
    known = scope.calls[name]
    if known.row or use.repeat or use.arguments:
        what = "a row" if known.row else "repeated" if use.repeat else "given arguments"
        raise Refused(CalledAgain(use.span, name, what, known.span))
    return _call(scope, use, name, data)


def _call(scope: Scope, use: ast.NodeUse, name: str, data: Sequence[Value]) -> tuple[Value, ...]:
    """One call under a name that is known."""
    called = scope.calls[name]
    block = called.instance.located.block
    refuse_brackets(use, block.name.name, "")
    if len(data) != len(block.data):
        names = [port.name.name for port in block.data]
        takes = _takes(len(names), names)
        raise Refused(WrongOperands(use.span, block.name.name, takes, len(data), block.name.span))
    outputs = scope.made(use.label, len(block.outputs), use.span)
    if use.repeat and len(outputs) != 1:
        raise Refused(SeveralOutputs(use.span, block.name.name, len(outputs)))
    scope.steps.append(
        Call(
            callee=scope.request(called.instance),
            path=name,
            inputs=tuple(data),
            outputs=outputs,
            saved=Value(name, "saved", use.span),
            span=use.span,
            count=scope.reader.dim(use.repeat) if use.repeat else None,
            sizes=called.sizes,
        )
    )
    return outputs


def _takes(least: int, names: Sequence[str]) -> str:
    """``1 to 2 operands (a, m)``."""
    most = len(names)
    count = str(least) if least == most else f"{least} to {most}"
    listed = f" ({', '.join(names)})" if names else ""
    return f"{count} operand{'s' if most != 1 else ''}{listed}"


def _own_help(op: Op, data: Sequence[Value]) -> tuple[str, ...]:
    """Where parameters belong, if too many operands arrive at a node that takes some."""
    own = [own.name for own in op.own if isinstance(own, Tensor)]
    if len(data) <= len(op.data) or not own:
        return ()
    return (f"its own parameters stand in parentheses: {op.glyph}({', '.join(own)})",)
