"""Resolve a node: an operator or a call, with its operands, arguments and brackets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xg.diagnostics.diagnostic import Problem
from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import Dim, Scalar, as_scalar, symbol
from xg.ir.graph import Apply, Call, Loop, Pending, Value
from xg.ir.op import Brackets, Op
from xg.ir.tensor import Shape
from xg.ir.use import Length, MeshAxis, Number, Own, Tensor, Word
from xg.ops.grad import gradient
from xg.passes.resolve import hints
from xg.passes.resolve.errors import (
    BadArgument,
    BadBrackets,
    CalledAgain,
    NotYet,
    OverOperator,
    OverRow,
    Refused,
    RowOfSeveral,
    StateOutsideLoop,
    UnknownValue,
    UnknownWord,
    UnnamedTwice,
    Wrong,
    WrongOperands,
)
from xg.passes.resolve.hints import (
    Beside,
    made_elsewhere,
    number_of_values,
    over_values,
    refuse_padding,
    suggest_own_param,
)
from xg.passes.resolve.scope import BlockInstance, BlockScope, ResolvedCall
from xg.passes.resolve.statements import given_start
from xg.passes.resolve.units import LocatedBlock
from xg.syntax import ast
from xg.syntax.spelling import greek_name

# Brackets behind a node: refused where the node would not read them.


def refuse_brackets(
    use: ast.NodeUse, node: str, takes: Brackets, *, names_axes: bool = False
) -> None:
    """Refuse brackets, or entries in them, that a node does not take.

    With `names_axes` it is an operator of the file that says its axes itself.
    """
    axes = use.axes
    if axes is None:
        return
    kind: Wrong = "axes" if axes.target is None else "map"
    if kind not in takes:
        raise Refused(BadBrackets(axes.span, node, kind, "own" if names_axes else takes))
    if axes.target is None:
        single = ast.Axis | ast.UnitAxis | ast.PlaceAxis
        _refuse(node, (i for i in axes.source if not isinstance(i, single)), "list")
        if takes != "axes":
            _refuse(node, _place_axes(axes.source), "counted")
        if takes == "axes":
            _refuse(node, _sized_axes(axes.source), "size")
        for axis in _sized_axes(axes.source):
            _refuse_twice(node, axis, axes.source, "same name")
    else:
        _refuse(node, _place_axes((*axes.source, *axes.target)), "counted")
        old = {axis.name.name for axis in _axes(axes.source)}
        for axis in _sized_axes(axes.target):
            if axis.name.name in old:
                group = _group_with(axes.source, axis)
                raise Refused(BadBrackets(axis.span, node, "again", group))
            _refuse_twice(node, axis, axes.target, "twice")


def _refuse_twice(node: str, axis: ast.Axis, items: tuple[ast.AxisItem, ...], why: Wrong) -> None:
    """Refuse a new axis whose name another one of these has, too."""
    if [other.name.name for other in _axes(items)].count(axis.name.name) > 1:
        raise Refused(BadBrackets(axis.span, node, why, axis.name.name))


def _refuse(node: str, items: Iterator[ast.AxisItem], why: Wrong) -> None:
    for item in items:
        raise Refused(BadBrackets(item.span, node, why, ""))


def _place_axes(items: tuple[ast.AxisItem, ...]) -> Iterator[ast.AxisItem]:
    for item in items:
        parts = item.axes if isinstance(item, ast.AxisGroup) else (item,)
        yield from (part for part in parts if isinstance(part, ast.PlaceAxis))


def _axes(items: tuple[ast.AxisItem, ...]) -> Iterator[ast.Axis]:
    for item in items:
        parts = item.axes if isinstance(item, ast.AxisGroup) else (item,)
        yield from (part for part in parts if isinstance(part, ast.Axis))


def _group_with(items: tuple[ast.AxisItem, ...], axis: ast.Axis) -> str:
    """How to say the size of an axis in the group that it is in; "" if it is in none."""
    name = axis.name.name
    for item in items:
        if isinstance(item, ast.AxisGroup) and name in [part.name.name for part in _axes((item,))]:
            parts = (part.span.text for part in item.axes)
            sized = ", ".join(axis.span.text if part == name else part for part in parts)
            return f"write the size of a part left of the arrow: ({sized})"
    return ""


def _sized_axes(items: tuple[ast.AxisItem, ...]) -> Iterator[ast.Axis]:
    return (axis for axis in _axes(items) if axis.size is not None)


# Arguments in parentheses: an operator's signature or a block's says what each one is.


def op_arguments(
    scope: BlockScope,
    use: ast.NodeUse,
    op: Op,
    data: Sequence[Value],
    targets: tuple[Shape | None, ...],
) -> tuple[tuple[Value, ...], dict[str, Any], tuple[str, ...]]:
    """Own tensors as values, other own arguments by name, and the names of absent tensors."""
    refuse_padding(scope, use, op)
    place = Beside(scope, use, data, targets)
    expressions = _own_arguments(place, op)
    tensors: list[Value] = []
    absent: list[str] = []
    others: dict[str, Any] = {}
    unknown: list[Problem] = []
    for own in op.own:
        argument = expressions.get(own.name)
        _refuse_option(place, [each for each in op.own if isinstance(each, Word)], own, argument)
        if isinstance(own, Tensor):
            if argument is not None:
                try:
                    tensors.append(_tensor(place, op, own, argument))
                except Refused as refused:
                    if not any(isinstance(each, UnknownValue) for each in refused.problems):
                        raise
                    unknown += suggest_own_param(place, own, refused).problems
            elif own.optional:
                absent.append(own.name)
            else:
                raise Refused(
                    BadArgument(use.span, f"{use.operator.name} needs {own.name} in parentheses")
                )
        else:
            others[own.name] = _own(place, op, own, argument)
    if unknown:
        raise Refused(*unknown)
    return tuple(tensors), others, tuple(absent)


def _own_arguments(place: Beside, op: Op) -> dict[str, ast.Expr]:
    """The own arguments of a use by their names."""
    use = place.use
    words = {word: own.name for own in op.own if isinstance(own, Word) for word in own.choices}

    def elsewhere(argument: ast.Argument) -> str:
        return hints.to_operator(place, op, argument)

    def named(argument: ast.Argument) -> str:
        return hints.other_argument(place, op, argument)

    if any(argument.value.span.text == "None" for argument in use.arguments):
        hints.refuse_none(place)
    return _match_arguments(use, [own.name for own in op.own], words, elsewhere, named)


def _match_arguments(
    use: ast.NodeUse,
    names: Sequence[str],
    words: Mapping[str, str],
    elsewhere: Callable[[ast.Argument], str],
    named: Callable[[ast.Argument], str],
) -> dict[str, ast.Expr]:
    """Arguments by the name of their parameter.

    A word belongs to the argument that lists it; any other without a name takes the first free
    place. `elsewhere` says where one belongs that no parameter takes, `named` what one of another
    name is here.
    """
    matched: dict[str, ast.Expr] = {}
    node = use.operator.name
    takes = f"{', '.join(names) or 'nothing'} in parentheses"
    for argument in use.arguments:
        if argument.name is not None:
            name = argument.name.name
        else:
            free = (name for name in names if name not in matched)
            name = words.get(argument.value.span.text) or next(free, None)
        if name is None:
            help = tuple(filter(None, (elsewhere(argument),)))
            raise Refused(BadArgument(argument.span, f"{node} takes {takes}", help))
        if name not in names or name in matched:
            wrong = f"is given {name} twice" if name in matched else f"takes {takes}, not {name}"
            help = () if name in matched else tuple(filter(None, (named(argument),)))
            raise Refused(BadArgument(argument.span, f"{node} {wrong}", help))
        matched[name] = argument.value
    return matched


def _refuse_option(place: Beside, words: Sequence[Word], own: Own, expr: ast.Expr | None) -> None:
    """Refuse an option in the place of a number or a tensor."""
    if isinstance(expr, ast.Path) and place.scope.option(expr.span.text):
        hints.refuse_option(place, words, own, expr)


def _tensor(place: Beside, op: Op, own: Tensor, expr: ast.Expr) -> Value:
    value = place.scope.path(expr) if isinstance(expr, ast.Path) else None
    if value is not None and value.role == "param":
        return value
    use, help = place.use, hints.instead_of_tensor(place, op, own, expr)
    if value is None:
        what = f"{own.name} of {use.operator.name} is a parameter"
        raise Refused(BadArgument(expr.span, what, help))
    written = expr.span.text
    what = f"{written} comes from another node: it cannot go in parentheses"
    help = help or tuple(filter(None, (made_elsewhere(use, op, own, value, written),)))
    raise Refused(BadArgument(expr.span, what, help, value.span))


def _own(place: Beside, op: Op, own: Own, expr: ast.Expr | None) -> Scalar | Dim | str | None:
    scope, use = place.scope, place.use
    match own:
        case Number():
            if expr is not None:
                return _number(place, op, expr)
            if own.default is not None or own.optional:
                return None if own.default is None else as_scalar(own.default)
        case Word():
            return _word(scope, own, expr) if expr is not None else own.choices[0]
        case Length():
            if expr is not None:
                return _length(place, op, expr)
            if own.optional:
                return None
        case MeshAxis():
            if expr is not None:
                return _mesh_axis(scope, expr)
            raise Refused(_axis_missing(scope, use))
        case Tensor():
            pass
    needed = [each.name for each in op.own if isinstance(each, Length) and not each.optional]
    help = (f"all that it needs: {op.glyph}({', '.join(needed)})",) if len(needed) > 1 else ()
    message = f"{use.operator.name} needs {own.name} in parentheses"
    raise Refused(BadArgument(use.span, message, help))


def _length(place: Beside, op: Op, expr: ast.Expr) -> Dim:
    try:
        return place.scope.reader.dim(expr)
    except Refused as refused:
        raise number_of_values(place, op, expr, refused) from None


def _number(place: Beside, op: Op, expr: ast.Expr) -> Scalar:
    try:
        return place.scope.reader.scalar(expr)
    except Refused as refused:
        raise number_of_values(place, op, expr, refused) from None


def _mesh_axis(scope: BlockScope, expr: ast.Expr) -> str:
    if not isinstance(expr, ast.Path) or expr.name not in scope.linked.mesh:
        from xg.passes.resolve.plan_errors import UnknownMesh  # few files have plans

        raise Refused(UnknownMesh(expr.span, expr.span.text, tuple(scope.linked.mesh)))
    return expr.name


def _axis_missing(scope: BlockScope, use: ast.NodeUse) -> BadArgument:
    node = use.operator.name
    axis = next(iter(scope.linked.mesh), "N_T")
    help = f"name the mesh axis: {node}({axis})"
    return BadArgument(use.span, f"{node} needs an axis of the mesh in parentheses", (help,))


def _word(scope: BlockScope, own: Word, expr: ast.Expr) -> str:
    word = expr.name if isinstance(expr, ast.Path) else expr.span.text
    option = scope.option(word)
    if option is not None and word not in own.choices:
        word = option[1]
    if word not in own.choices:
        raise Refused(UnknownWord(expr.span, own.name, word, own.choices))
    return word


def block_arguments(
    use: ast.NodeUse, located: LocatedBlock, called: Beside
) -> tuple[BlockInstance, dict[str, Dim]]:
    """The instance that a call asks for, and the symbols that the call gives it.

    `called` is the call with its operands, and with the starts of states that `use` is without.
    Sizes at a call are the caller's, even where the callee has the same names.
    """
    scope, block = called.scope, located.block
    formals = {own.name.name: own for own in block.own}
    sizes, rest = _sizes(scope, use, located)
    trimmed = ast.NodeUse(use.span, use.operator, None, rest, (), None, None, None, None, None)
    listed = {word.name: name for name, own in formals.items() for word in own.words}

    def elsewhere(argument: ast.Argument) -> str:
        return hints.to_block(called, located, argument)

    expressions = _match_arguments(trimmed, tuple(formals), listed, elsewhere, elsewhere)
    choosing = [Word(name, tuple(w.name for w in own.words)) for name, own in formals.items()]
    words: dict[str, str] = {}
    numbers: dict[str, Scalar] = {}
    for name, own in formals.items():
        if own.words:
            word, expr = next(each for each in choosing if each.name == name), expressions.get(name)
            words[name] = _word(scope, word, expr) if expr else word.choices[0]
        elif name in expressions:
            _refuse_option(called, choosing, Number(name), expressions[name])
            number = scope.reader.scalar(expressions[name])
            numbers[name], apart = _renamed_apart(number, name, located, scope)
            sizes |= apart
        elif own.default is not None:
            numbers[name] = scope.linked.reader().scalar(own.default)
        else:
            raise Refused(BadArgument(use.span, f"{block.name.name} needs {name} in parentheses"))
    return BlockInstance(located, tuple(words.items()), tuple(numbers.items())), sizes


def _sizes(
    scope: BlockScope, use: ast.NodeUse, located: LocatedBlock
) -> tuple[dict[str, Dim], tuple[ast.Argument, ...]]:
    """The sizes that a call gives, and its other arguments."""
    formals = {own.name.name for own in located.block.own}
    declared = scope.linked.dims | {decl.name.name for decl in located.block.dims}
    sizes: dict[str, Dim] = {}
    rest: list[ast.Argument] = []
    for argument in use.arguments:
        name = argument.name.name if argument.name else ""
        if name in formals or name not in declared:
            rest.append(argument)
            continue
        block = located.block.name.name
        if name in sizes:
            raise Refused(BadArgument(argument.span, f"{block} has {name} twice"))
        mentioned = scope.linked.mentioned_dims(located)
        if name not in mentioned:
            takes = ", ".join(mentioned)
            help = (f"its dims are {takes}",) if takes else ()
            raise Refused(BadArgument(argument.span, f"{block} has no dim {name}", help))
        sizes[name] = scope.reader.dim(argument.value)
    return sizes, tuple(rest)


def _renamed_apart(
    number: Scalar, name: str, located: LocatedBlock, scope: BlockScope
) -> tuple[Scalar, dict[str, Dim]]:
    """A number in sizes that are the callee's own, and what these are to the caller."""
    taken = {*scope.linked.dims, *(decl.name.name for decl in located.block.dims)}
    symbols = dict.fromkeys(symbol for dim in number.dims() for symbol in dim.symbols())
    fresh: dict[str, Dim] = {}
    for each in symbols:
        other = f"{name}_{each}"
        while other in taken or other in fresh:
            other += "_"
        fresh[other] = symbol(each)
    renamed = dict(zip(symbols, map(symbol, fresh), strict=True))
    return number.substitute(renamed), fresh


def _operator_as_call(use: ast.NodeUse, op: Op) -> NotYet:
    """An operator that is repeated or named as a call is; `0.5 * tanh` is meant as a product."""
    what, name = ("repeated", "repeat") if use.repeat else ("named", "name")
    help = (f"put {op.glyph} into a block, and {name} the call of that block",)
    if use.repeat and not use.repeat.span.text.isdigit():
        product = f"-> {op.glyph} -> scale({use.repeat.span.text})"
        help = (f"to multiply by a number, write `{product}`", *help)
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
        raise Refused(_operator_as_call(use, op))
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


def apply_gradient(
    scope: BlockScope, use: ast.NodeUse, op: Op, data: Sequence[Value]
) -> tuple[Value, ...]:
    """Take the gradient of a loss with respect to the bracketed values; return one for each."""
    if use.repeat or use.instance:
        raise Refused(_operator_as_call(use, op))
    if use.over:
        raise Refused(_over_operator(scope, use, op))
    axes = use.axes
    named = [item for item in axes.source if isinstance(item, ast.Axis)] if axes else []
    if axes is None or axes.target is not None or len(named) < len(axes.source):
        span = axes.span if axes else use.span
        help = ("name them: `grad[x](loss) : dx`",)
        raise Refused(BadArgument(span, "grad needs the values to differentiate by", help))
    if len(data) != 1 or use.arguments:
        help = ("pass the loss by an arrow or in parentheses: `grad[x](loss)`",)
        found = len(data) + len(use.arguments)
        raise Refused(WrongOperands(use.span, op.glyph, _takes(1, ["loss"]), found, help=help))
    variables = [scope.path(ast.Path(item.span, (item.name,))) for item in named]
    outputs = scope.made(use.label, len(named), use.span, [f"d{item.name.name}" for item in named])
    place = outputs[0].name or scope.place(op)
    inputs = (*data, *variables)
    scope.steps.append(Apply(gradient(len(named)), inputs, outputs, {}, use.span, place=place))
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
    return outputs[: _result_count(use, block)]


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
        help = (f"a value that goes from round to round is a state: `{line}`, and `next` sets it",)
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
    return f"set the start of a state in the call: `{', '.join(names[:own])} -> {called}`"


def _result_count(use: ast.NodeUse, block: ast.Block) -> int:
    """Count the results that a label names: all outputs, then any final states that it lists."""
    ports = len(use.label.ports) if use.label else 0
    most = len(block.outputs) + (len(block.states) if use.over else 0)
    return min(ports, most) if len(block.outputs) < ports else len(block.outputs)


def _results(scope: BlockScope, use: ast.NodeUse, block: ast.Block) -> tuple[Value, ...]:
    """Values for the outputs of a call; in a loop for the last states too, named or not."""
    count = _result_count(use, block)
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
        return (f"its own parameters go in parentheses: {op.glyph}({', '.join(own)})",)
    given = [argument.value for argument in use.arguments if argument.name is None]
    if found < len(op.data) and not own and given and isinstance(given[0], ast.Path):
        axes = use.axes.span.text if use.axes else ""
        return (f"pass an operand by an arrow: {op.glyph}{axes}<-{given[0].span.text}",)
    names = [data.name for data in op.data]
    if found == 1 and len(given) == 1 and op.glyph in "⊕⊙":
        number = given[0].span.text
        if op.glyph == "⊙":
            return (f"to multiply by a number, write `-> scale({number})`",)
        return (f"define it: `op f(x; c) = x + c`, and write `-> f({number})`",)
    if found == len(names) - len(given) and given:
        own = f"op {op.glyph}({', '.join(names[:found])}; {', '.join(names[found:])}) = …"
        return (f"arguments in parentheses are declared after a semicolon: {own}",)
    if 0 < found < len(names) and not own:
        others = "".join(f"<-{name}" for name in names[found:])
        return (f"pass the others by arrows: {op.glyph}{others}",)
    return ()
