"""Read the lines of a block beside its chains: states, gradients of zero, notes."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count
from typing import Final

from xg.diagnostics.diagnostic import Problem
from xg.ir.dim import Scalar, as_scalar
from xg.ir.graph import LAST_ROUND, Call, Carry, Graph, IRProgram, MeantZero, Remark, Value
from xg.ir.op import Op
from xg.passes.resolve.errors import (
    MarkedTwice,
    NextOfState,
    NoGradientHere,
    OtherThanZero,
    Refused,
    StateStart,
    UnknownMark,
    ZeroTwice,
)
from xg.passes.resolve.scope import BlockScope
from xg.syntax import ast
from xg.syntax.ast import walk
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
            raise Refused(NextOfState(name.span, name.name, "is not a state of this block", help))
        if name.name in nexts:
            raise Refused(NextOfState(name.span, name.name, "has a next already", "keep one"))
        nexts[name.name] = binding
    for past, (name, state) in zip(pasts, states.items(), strict=True):
        if name not in nexts:
            help = f"set its value for the next round: next {name} = …"
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
        told = f"set a number where the state is declared: {line}"
        raise Refused(StateStart(expr.span, name, told))
    edge = next(each for i in count() if (each := f"{name}_{i}") not in scope.values)
    name, edge = greek_name(name), greek_name(edge)
    is_call = isinstance(expr, ast.Call)
    is_open = is_call and expr.operator.name in OPEN and expr.axes is None
    line, shape = written if is_call else "…", f" {state.shape.span.text}" if is_open else ""
    above = f"write `{line} : {edge}{shape}` in a line above"
    told = f"pass an edge: {above}, and `{name}={edge}` here"
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


# The gradients that a block expects to be zero: `expect dW = 0`.


def meant_zeros(scope: BlockScope) -> Iterator[MeantZero]:
    """Read every line of a block that expects a gradient to be zero.

    A parameter or a call that this choice of options leaves out has no gradient, so its line says
    nothing. Raises Refused for a line that claims anything else, and for a name that no choice has.
    """
    first: dict[str, ast.Expect] = {}
    for expect in scope.block.expects:
        path = _path(scope, expect)
        if path in first:
            raise Refused(ZeroTwice(expect.span, expect.target.name, first[path].span))
        first[path] = expect
        head, *deeper = path.split(".")
        calls = {step.path for step in scope.steps if isinstance(step, Call)}
        if head in calls if deeper else scope.values.get(head) in _inputs_and_params(scope):
            yield MeantZero(path, expect.place.value if expect.place else "", expect.span)


def _inputs_and_params(scope: BlockScope) -> Container[Value | None]:
    """The inputs, and the parameters that this choice of options reads."""
    inputs = {scope.values[port.name.name] for port in scope.block.data}
    return inputs | {*scope.read}


def _path(scope: BlockScope, expect: ast.Expect) -> str:
    """The path of the value whose gradient a line is about; raises Refused."""
    name, span = expect.target.name, expect.target.span
    if not _is_zero(expect):
        raise Refused(OtherThanZero(expect.span, name))
    *calls, last = (segment.name for segment in expect.target.segments)
    block, of = scope.block, last.removeprefix("d")
    own = {port.name.name: port for port in (*block.data, *block.params)}
    learned = [n for n, each in own.items() if each.frozen is None and each.range is None]
    known = tuple(f"d{each}" for each in learned)
    if last == of or (not calls and of not in own):
        because = f"nothing is called {of}"
        if last in own or last == of:
            because = f"{last} is a value, d{last} its gradient"
        elif of in scope.values:
            because = f"{of} is neither an input nor a parameter"
        raise Refused(NoGradientHere(span, name, block.name.name, because, known))
    if calls and calls[0] not in _calls(block):
        because = f"no call is named {calls[0]}"
        raise Refused(NoGradientHere(span, name, block.name.name, because, known))
    if not calls and (own[of].frozen or own[of].range is not None):
        because = f"{of} {'is frozen' if own[of].frozen else 'holds integers'}"
        raise Refused(NoGradientHere(span, name, block.name.name, because, ()))
    return ".".join((*calls, of))


def _is_zero(expect: ast.Expect) -> bool:
    """Whether a line claims a bare 0."""
    number = isinstance(expect.value, ast.Number) and expect.value.value == 0
    return number and expect.tolerance is None and expect.wrong is None


def _calls(block: ast.Block) -> set[str]:
    """The names that calls of a block have in some choice of options."""
    trees = (tree for chain in block.chains for tree in walk(chain))
    uses = (tree for tree in trees if isinstance(tree, ast.NodeUse | ast.Call))
    own = ((use.instance if isinstance(use, ast.NodeUse) else None, use) for use in uses)
    return {named.name if named else use.operator.name for named, use in own}


def wrong_paths(program: IRProgram) -> Iterator[Problem]:
    """Find the lines whose path through calls does not lead to a parameter.

    The number of a round is not compared with their count, which may depend on sizes.
    """
    for graph in program.graphs.values():
        for each in graph.meant_zeros:
            if "." in each.path:
                yield from _wrong_path(program, graph, each)


def _wrong_path(program: IRProgram, start: Graph, meant: MeantZero) -> Iterator[Problem]:
    *calls, last = meant.path.split(".")
    name = ".".join((*calls, f"d{last}"))

    def wrong(because: str, known: Iterable[str] = ()) -> Problem:
        return NoGradientHere(meant.span, name, start.block, because, tuple(known))

    graph = start
    while calls:
        head = calls.pop(0)
        call = next((each for each in graph.named_calls() if each.path == head), None)
        if call is None:
            yield wrong(f"{graph.block} has no call named {head}")
            return
        graph = program.graphs[call.callee]
        if call.count is not None:
            if not calls or not (calls[0].isdecimal() or calls[0] == LAST_ROUND):
                yield wrong(
                    f"{head} has rounds, write {head}.0.d{last} or {head}.{LAST_ROUND}.d{last}"
                )
                return
            del calls[0]
    values = {str(param.value.name): param.value for param in graph.params}
    if last not in values:
        yield wrong(
            f"{last} is not a parameter of {graph.block}",
            (f"d{n}" for n, value in values.items() if not value.frozen),
        )
    elif values[last].frozen or not graph.types[values[last]].is_float:
        yield wrong(f"{last} {'is frozen' if values[last].frozen else 'holds integers'}")


# The lines of a block that are for its figures alone: `highlight` and `note`.


def remarks(scope: BlockScope) -> Iterator[Remark]:
    """Every place that a block marks.

    Raises Refused for a name that no choice of options has, and for what is said twice.
    """
    if not scope.block.remarks:
        return
    chains = [tree for chain in scope.block.chains for tree in walk(chain)]
    made = {port.name.name for tree in chains if isinstance(tree, ast.Label) for port in tree.ports}
    given = {port.name.name for port in (*scope.block.data, *scope.block.params)}
    given |= {state.name.name for state in scope.block.states}
    calls = {
        name
        for tree in chains
        if isinstance(tree, ast.NodeUse | ast.Call)
        for name in _call(scope, tree)
    }
    told: set[Remark] = set()
    for remark in scope.block.remarks:
        text = remark.text.value if remark.text else ""
        for target in remark.targets:
            name, known = target.name.name, made if target.is_node else made | given | calls
            if name not in known:
                raise Refused(_unknown(scope, target, tuple(sorted(known))))
            marked = Remark(name, target.is_node, text, remark.highlights)
            if marked in told:
                raise Refused(MarkedTwice(target.name.span, name))
            told.add(marked)
            yield marked


def _call(scope: BlockScope, use: ast.NodeUse | ast.Call) -> Iterator[str]:
    """The name of a call, if the node is one."""
    if isinstance(use, ast.NodeUse) and use.instance is not None:
        yield use.instance.name
    elif use.operator.name in scope.linked.options or not _is_op(scope, use.operator):
        yield use.operator.name


def _is_op(scope: BlockScope, name: ast.Name) -> bool:
    return isinstance(scope.operator(name), Op)


def _unknown(scope: BlockScope, target: ast.Marked, known: tuple[str, ...]) -> UnknownMark:
    """Return the problem of a name that cannot be marked here."""
    name = target.name.name
    if _is_op(scope, target.name):
        help = f"{name} is an operator: name the node by its result, -> NAME"
    elif target.is_node and name in scope.values:
        help = f"no node makes {name}: leave the arrow out to mark its edge"
    else:
        help = ""
    what = "is made by a node" if target.is_node else "is an edge or a call"
    return UnknownMark(target.name.span, name, what, known, help)
