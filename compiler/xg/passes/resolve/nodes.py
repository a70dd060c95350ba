"""Nodes: an operator or a call put behind its operands, once these are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xg.ir.graph import Apply, Call, Loop, Pending, Value
from xg.ir.op import Op
from xg.ir.tensor import Shape
from xg.ir.use import Tensor
from xg.passes.resolve.arguments import block_arguments, op_arguments
from xg.passes.resolve.brackets import refuse_brackets
from xg.passes.resolve.call_errors import CalledAgain, RowOfSeveral, UnnamedTwice
from xg.passes.resolve.errors import NotYet, Refused, WrongOperands
from xg.passes.resolve.instance import ResolvedCall
from xg.passes.resolve.loop_errors import OverOperator, OverRow, StateOutsideLoop
from xg.passes.resolve.misplaced import over_values
from xg.passes.resolve.scope import BlockScope
from xg.passes.resolve.states import given_start
from xg.passes.resolve.undeclared import Beside
from xg.passes.resolve.units import LocatedBlock
from xg.syntax import ast
from xg.syntax.spelling import greek_name


def _of_calls_alone(use: ast.NodeUse, op: Op) -> NotYet:
    """An operator that is repeated or named as a call is; `0.5 * tanh` is meant as a product."""
    what, name = ("repeated", "repeat") if use.repeat else ("named", "name")
    help = (f"put {op.glyph} into a block, and {name} the call of that",)
    if use.repeat and not use.repeat.span.text.isdigit():
        product = f"-> {op.glyph} -> scale({use.repeat.span.text})"
        help = (f"a product with a number is a node: `{product}`", *help)
    return NotYet(use.span, f"an operator that is {what}", help)


def apply_operator(
    scope: BlockScope,
    use: ast.NodeUse,
    op: Op,
    data: Sequence[Value],
    targets: tuple[Shape | None, ...],
    peer: Value | None,
) -> tuple[Value, ...]:
    """One use of an operator on its data operands; the values that leave it."""
    if use.repeat or use.instance:
        raise Refused(_of_calls_alone(use, op))
    required = len([d for d in op.data if not d.optional])
    if not op.variadic and not required <= len(data) <= len(op.data):
        takes = _takes(required, [operand.name for operand in op.data])
        help = _operand_help(use, op, len(data))
        raise Refused(WrongOperands(use.span, op.glyph, takes, len(data), help=help))
    if use.over:
        raise Refused(_over_operator(scope, use, op))
    refuse_brackets(use, op.glyph, op.brackets, names_axes=any(data.axes for data in op.data))
    tensors, own, absent = op_arguments(scope, use, op, data, targets)
    absent += tuple(d.name for d in op.data[len(data) :])
    count = len(op.outputs) or len(targets)
    outputs = scope.made(use.label, count, use.span, op.outputs)
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
            pending=Pending(scope.reader.axes(use.axes, op.brackets), targets, peer),
        )
    )
    return outputs


def first_call(
    scope: BlockScope, use: ast.NodeUse, located: LocatedBlock, data: Sequence[Value]
) -> tuple[Value, ...]:
    """A call of a block, which from now on can be called again by its name."""
    default = (
        use.operator.name if use.operator.name in scope.linked.options else located.block.name.name
    )
    name = use.instance.name if use.instance else default
    if name in scope.calls:
        named = use.instance is not None
        raise Refused(UnnamedTwice(use.span, name, scope.calls[name].span, named))
    starts, rest = _starts(scope, use, located.block)
    instance, sizes = block_arguments(rest, located, Beside(scope, use, data, ()))
    named, row = use.instance is not None, use.repeat is not None
    scope.calls[name] = ResolvedCall(instance, sizes, use.span, named, row)
    return _call(scope, use, name, data, starts)


def call_again(
    scope: BlockScope, use: ast.NodeUse, name: str, data: Sequence[Value]
) -> tuple[Value, ...]:
    """A call by the name of an earlier one, whose parameters and arguments it shares."""
    resolved_call = scope.calls[name]
    if resolved_call.row or use.repeat or use.arguments:
        what = "a row" if resolved_call.row else "repeated" if use.repeat else "given arguments"
        raise Refused(CalledAgain(use.span, name, what, resolved_call.span))
    return _call(scope, use, name, data, {})


def _starts(
    scope: BlockScope, use: ast.NodeUse, block: ast.Block
) -> tuple[dict[str, Value], ast.NodeUse]:
    """The states that a call gives its first round, ``GRU_cell(h=h_0)``, and the rest of it."""
    states = {state.name.name: state for state in block.states}
    starts: dict[str, Value] = {}
    rest: list[ast.Argument] = []
    for argument in use.arguments:
        name = argument.name.name if argument.name else ""
        if name not in states or name in starts:
            rest.append(argument)
        else:
            starts[name] = given_start(scope, states[name], argument.value)
    return starts, replace(use, arguments=tuple(rest)) if starts else use


def _loop(
    scope: BlockScope, use: ast.NodeUse, block: ast.Block, data: Sequence[Value]
) -> Loop | None:
    """A loop before any shape is inferred; None for a plain call."""
    if use.over is None:
        if block.states:
            state = block.states[0].name
            name, empty = block.name.name, not block.data
            raise Refused(StateOutsideLoop(use.span, name, state.name, state.span, empty))
        return None
    if use.repeat:
        raise Refused(OverRow(use.over.span, block.name.name))
    path = ast.Path(use.over.axis.span, (use.over.axis,))
    try:
        return Loop(scope.reader.dim(path), use.over.reversed)
    except Refused as refused:
        raise over_values(block, data, refused) from None


def _call(
    scope: BlockScope,
    use: ast.NodeUse,
    name: str,
    data: Sequence[Value],
    starts: Mapping[str, Value],
) -> tuple[Value, ...]:
    """One call under a name that is known; `starts` are the states that it gives."""
    called = scope.calls[name]
    block = called.instance.located.block
    refuse_brackets(use, block.name.name, "")
    if len(data) != len(block.data):
        raise Refused(_too_many_or_few(use, block, data))
    loop = _loop(scope, use, block, data)
    outputs = _results(scope, use, block)
    if use.repeat and len(outputs) != 1:
        raise Refused(RowOfSeveral(use.span, block.name.name, len(outputs)))
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
            loop=loop,
            starts=starts,
        )
    )
    return outputs[: _named(use, block)]


def _over_operator(scope: BlockScope, use: ast.NodeUse, op: Op) -> OverOperator:
    assert use.over is not None
    states = [greek_name(state.name.name) for state in scope.block.states]
    return OverOperator(use.over.span, op.glyph, use.over.axis.name, "".join(states[:1]))


def _too_many_or_few(use: ast.NodeUse, block: ast.Block, data: Sequence[Value]) -> WrongOperands:
    """The wrong number of operands of a call; one too many or few in a loop may be a state's."""
    found = len(data)
    takes = _takes(len(block.data), [port.name.name for port in block.data])
    help: tuple[str, ...] = ()
    if use.over and 0 < found < len(block.data):
        line = f"state {' '.join(block.data[found].span.text.split())}"
        help = (f"what goes from round to round is no input: `{line}`, and `next` sets it",)
    elif use.over and 0 < len(block.data) < found <= len(block.data) + len(block.states):
        help = (_as_starts(use, block, data),)
    name = block.name
    return WrongOperands(use.span, name.name, takes, found, name.span, help=help)


def _as_starts(use: ast.NodeUse, block: ast.Block, data: Sequence[Value]) -> str:
    """How a call gives states what arrives beside its operands."""
    own, names = len(block.data), [greek_name(value.name or "…") for value in data]
    states = [greek_name(state.name.name) for state in block.states]
    starts = (f"{state}={name}" for state, name in zip(states, names[own:], strict=False))
    given = ", ".join([*(argument.span.text for argument in use.arguments), *starts])
    assert use.over is not None
    called = f"{use.operator.span.text}({given}) {use.over.span.text}"
    return f"a state starts as the call says: `{', '.join(names[:own])} -> {called}`"


def _named(use: ast.NodeUse, block: ast.Block) -> int:
    """How many results a label names: the outputs, and behind them final states if it likes."""
    ports = len(use.label.ports) if use.label else 0
    most = len(block.outputs) + (len(block.states) if use.over else 0)
    return min(ports, most) if len(block.outputs) < ports else len(block.outputs)


def _results(scope: BlockScope, use: ast.NodeUse, block: ast.Block) -> tuple[Value, ...]:
    """Values for the outputs of a call; in a loop for the last states too, named or not."""
    count = _named(use, block)
    rest = len(block.outputs) + len(block.states) - count if use.over else 0
    unnamed = (Value(None, "edge", use.span) for _ in range(rest))
    names = tuple(port.name.name for port in (*block.outputs, *block.states))
    return (*scope.made(use.label, count, use.span, names[:count]), *unnamed)


def _takes(least: int, names: Sequence[str]) -> str:
    """``1 to 2 operands (a, m)``."""
    most = len(names)
    count = str(least) if least == most else f"{least} to {most}"
    listed = f" ({', '.join(names)})" if names else ""
    return f"{count} operand{'s' if most != 1 else ''}{listed}"


def _operand_help(use: ast.NodeUse, op: Op, found: int) -> tuple[str, ...]:
    """Where operands and parameters belong, if they were taken for each other."""
    own = [own.name for own in op.own if isinstance(own, Tensor)]
    if found > len(op.data) and own:
        return (f"its own parameters stand in parentheses: {op.glyph}({', '.join(own)})",)
    given = [argument.value for argument in use.arguments if argument.name is None]
    if found < len(op.data) and not own and given and isinstance(given[0], ast.Path):
        axes = use.axes.span.text if use.axes else ""
        return (f"an operand arrives by an arrow: {op.glyph}{axes}<-{given[0].span.text}",)
    names = [data.name for data in op.data]
    if found == 1 and len(given) == 1 and op.glyph in "⊕⊙":
        number = given[0].span.text
        if op.glyph == "⊙":
            return (f"a number multiplies by scale: `-> scale({number})`",)
        return (f"define it: `op f(x; c) = x + c`, and write `-> f({number})`",)
    if found == len(names) - len(given) and given:
        own = f"op {op.glyph}({', '.join(names[:found])}; {', '.join(names[found:])}) = …"
        return (f"what stands in parentheses is right of a semicolon: {own}",)
    if 0 < found < len(names) and not own:
        others = "".join(f"<-{name}" for name in names[found:])
        return (f"the others arrive by arrows: {op.glyph}{others}",)
    return ()
