"""The gradients that a block expects to be zero: `expect dW = 0`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from xg.diagnostics.diagnostic import Problem
from xg.ir.graph import LAST_ROUND, Call, Graph, MeantZero, Program, Value
from xg.passes.resolve.errors import NoGradientHere, OtherThanZero, Refused, ZeroTwice
from xg.passes.resolve.scope import BlockScope
from xg.syntax import ast
from xg.syntax.ast import walk


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
        if head in calls if deeper else scope.values.get(head) in _learned(scope):
            yield MeantZero(path, expect.place.value if expect.place else "", expect.span)


def _learned(scope: BlockScope) -> Container[Value | None]:
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


def wrong_paths(program: Program) -> Iterator[Problem]:
    """Find the lines whose path through calls does not lead to a parameter.

    The number of a round is not compared with their count, which may depend on sizes.
    """
    for graph in program.graphs.values():
        for each in graph.meant_zeros:
            if "." in each.path:
                yield from _wrong_path(program, graph, each)


def _wrong_path(program: Program, start: Graph, meant: MeantZero) -> Iterator[Problem]:
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
            f"{last} is no parameter of {graph.block}",
            (f"d{n}" for n, value in values.items() if not value.frozen),
        )
    elif values[last].frozen or not graph.types[values[last]].is_float:
        yield wrong(f"{last} {'is frozen' if values[last].frozen else 'holds integers'}")
