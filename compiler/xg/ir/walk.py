"""Walk over graphs and what they call, and list parameters, states and losses by their paths.

No walk is recursive, however deeply calls are nested.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard, TypeVar

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.limits import Beyond, Executions, ExpandedOperators, ListedRounds
from xg.ir.dim import Dim, Scalar, number
from xg.ir.errors import UnboundSize
from xg.ir.graph import Apply, Call, Graph, IRProgram, Param, Step, Value, ports
from xg.ir.moves import collective
from xg.ir.placement import FAMILY
from xg.ir.tensor import TensorType

Node = TypeVar("Node")
Request = TypeVar("Request", bound=Hashable)
Answer = TypeVar("Answer")


class Circular(Exception):
    """A node that is below itself; `ring` leads from it to the last node before it."""

    def __init__(self, ring: list[Any]) -> None:
        self.ring = ring


def callers_first(start: Node, below: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """Walk over every use of a node, each before those below it, which follow in order.

    The nodes below are asked for one by one, because they may not all fit into memory.
    """
    stack = [iter((start,))]
    while stack:
        for node in stack[-1]:
            yield node
            stack.append(iter(below(node)))
            break
        else:
            stack.pop()


def level_by_level(
    starts: Iterable[Node],
    below: Callable[[Node], Iterable[Node]],
    key: Callable[[Node], Hashable] | None = None,
) -> Iterator[Node]:
    """Every node before those further down; with `key`, only the first of equal keys."""
    waiting, seen = deque(starts), set[Hashable]()
    while waiting:
        node = waiting.popleft()
        if key is not None:
            identity = key(node)
            if identity in seen:
                continue
            seen.add(identity)
        yield node
        waiting.extend(below(node))


def callees_first(
    starts: Sequence[Node],
    below: Callable[[Node], Iterable[Node]],
    key: Callable[[Node], Hashable] | None = None,
) -> list[Node]:
    """Every node once, by its key, after those below it; raises Circular."""
    done: dict[Hashable, Node] = {}
    trail: dict[Hashable, Node] = {}
    stack = [(start, False) for start in reversed(starts)]
    while stack:
        node, is_ready = stack.pop()
        identity = node if key is None else key(node)
        if is_ready:
            done[identity] = trail.pop(identity)
            continue
        if identity in done:
            continue
        if identity in trail:
            raise Circular(list(trail.values())[list(trail).index(identity) :])
        trail[identity] = node
        stack.append((node, True))
        stack.extend((each, False) for each in reversed(list(below(node))))
    return list(done.values())


def answers(
    start: Request,
    work: Callable[[Request], Generator[Request, Answer, Answer]],
    done: dict[Request, Answer],
) -> dict[Request, Answer]:
    """The answers to a request and all that it asks, callees first, added to those in `done`.

    The work on a request yields the requests that it depends on, and is sent their answers.
    """
    if start in done:
        return done
    stack = [(start, work(start))]
    answer: Answer | None = None
    while stack:
        request, working = stack[-1]
        try:
            asked = working.send(answer) if answer is not None else next(working)
        except StopIteration as finished:
            answer = done[request] = finished.value
            stack.pop()
            continue
        answer = done.get(asked)
        if answer is None:
            stack.append((asked, work(asked)))
    return done


def sort_graphs(graphs: Mapping[str, Graph], *entries: str) -> dict[str, Graph]:
    """Sort the graphs that entries reach, callees first; raises Circular with their keys."""
    keys = callees_first(entries, lambda key: (call.callee for call in graphs[key].calls))
    return {key: graphs[key] for key in keys}


def reachable_keys(graphs: Mapping[str, Graph], entry: str) -> list[str]:
    """Return the keys of the entry and all that it calls, in the order of `graphs`."""
    keys = {entry}
    for key in reversed(list(graphs)):  # callers before their callees
        if key in keys:
            keys.update(call.callee for call in graphs[key].calls)
    return [key for key in graphs if key in keys]


def having(program: IRProgram, has: Callable[[Graph], bool]) -> frozenset[str]:
    """The keys of the graphs that have something, or that call one which has."""
    keys: set[str] = set()
    for key, graph in program.graphs.items():  # callees come first
        if any(call.callee in keys for call in graph.calls) or has(graph):
            keys.add(key)
    return frozenset(keys)


# The uses of a program's graphs, each with its symbols in the sizes of the entry block.


Symbols = Mapping[str, Dim]


def instances(
    program: IRProgram, starts: Sequence[tuple[str, Symbols]] | None = None
) -> Iterator[tuple[Graph, Symbols]]:
    """Every graph under every binding of its symbols, callers first; by default from the entries.

    There are no more of them than operators when all calls are expanded, which have a limit.
    """

    def below(instance: tuple[Graph, Symbols]) -> Iterator[tuple[Graph, Symbols]]:
        graph, symbols = instance
        for call in graph.calls:
            callee = program.graphs[call.callee]
            yield callee, inside(call, graph, callee, symbols)

    entries: Sequence[tuple[str, Symbols]] = [(key, {}) for key in program.entries]
    begun = entries if starts is None else starts
    graphs = [(program.graphs[key], symbols) for key, symbols in begun]
    return level_by_level(graphs, below, lambda each: (each[0].key, frozenset(each[1].items())))


def inside(call: Call, caller: Graph, callee: Graph, symbols: Symbols) -> dict[str, Dim]:
    """A callee's symbols in the sizes of the entry, given the caller's.

    The call binds the sizes that it gives and those of its operands; a number that the callee
    declares for itself overrides the program's. Symbols that stay open are the program's.
    """
    own = callee.sizes.defaults
    local = {name: number(own[name]) for name in callee.sizes.local if name in own}
    try:
        bound = {name: dim.substitute(symbols) for name, dim in call.sizes.items()}
    except Beyond as beyond:
        raise Beyond(beyond.limit.at(call.span)) from None
    return {**symbols, **local, **bound}


def too_many_operators(graphs: Mapping[str, Graph]) -> Iterator[ExpandedOperators]:
    """The first call with which the expanded operators pass their limit; `graphs`: callees first.

    Counted without expanding anything: a call counts what its callee does, at least one.
    """
    counts: dict[str, int] = {}
    for key, graph in graphs.items():
        count = 0
        for step in graph.steps:
            count += max(1, counts[step.callee]) if isinstance(step, Call) else 1
            if count > ExpandedOperators.maximum:
                yield ExpandedOperators(step.span, count)
                return
        counts[key] = count


# List the parameters and states of a program, what moves without a gradient, and losses.


# Parameters that training moves without a gradient: running statistics.


@dataclass(frozen=True, slots=True)
class Moving:
    """A parameter, the cached value that it approaches in each step, and by which share."""

    param: Value
    target: Value
    share: Scalar


def moving(graph: Graph) -> Iterator[Moving]:
    """The parameters that steps of a graph itself move, in order."""
    for step, operands, params in _statistics(graph):
        caches = {value.name: value for value in step.outputs if value.role == "cache"}
        for own, cache in step.op.moves.items():
            if own in operands and operands[own] in params:
                param = params[operands[own]]
                yield Moving(param, caches[cache], step.attrs["momentum"])


def gathered_params(graph: Graph) -> Iterator[tuple[Value, Apply]]:
    """Yield parameters that a step would move if its operands were not gathered or sent first."""
    makers = {step.outputs[0]: step for step in graph.steps if isinstance(step, Apply)}
    params = set(graph.param_values())
    for step, operands, same in _statistics(graph):
        for value in (operands[own] for own in step.op.moves if own in operands):
            made = value
            while made in makers and makers[made].op.family == FAMILY:
                made = makers[made].inputs[0]
            if made in params and value not in same:
                yield made, step


def moves(program: IRProgram) -> frozenset[str]:
    """The graphs that move parameters, or call one that does."""
    return having(program, lambda graph: any(moving(graph)))


def _statistics(graph: Graph) -> Iterator[tuple[Apply, dict[str, Value], dict[Value, Value]]]:
    """Steps with running statistics, their operands by name, and the parameters of values.

    A cast gives the same numbers on every rank.
    """
    params = {value: value for value in graph.param_values()}
    for step in graph.steps:
        if not isinstance(step, Apply):
            continue
        record = collective(step.op)
        if record and record.is_free and step.inputs[0] in params:
            params[step.outputs[0]] = params[step.inputs[0]]
        if step.op.moves:
            names = step.op.operand_names(step.attrs)
            yield step, dict(zip(names, step.inputs, strict=True)), params


Calls = Callable[[Graph], Iterable[Call]]
PREPARED: Final = "prepared"  # the glyph of a step that computes from parameters alone


@dataclass(frozen=True, slots=True)
class CallSite:
    """A graph where it is called: the path of its call, and its symbols in the entry's sizes."""

    graph: Graph
    path: str
    symbols: Mapping[str, Dim]

    def enter(self, call: Call, graphs: Mapping[str, Graph]) -> CallSite:
        """The site of one of its calls; of a row of calls, without the number of the round."""
        callee = graphs[call.callee]
        symbols = inside(call, self.graph, callee, self.symbols)
        return CallSite(callee, join(self.path, call.path), symbols)


def entry(program: IRProgram) -> CallSite:
    """The site that no call leads to."""
    return CallSite(program.main, "", {})


def param_specs(program: IRProgram) -> Iterator[tuple[str, Param, Graph, Mapping[str, Dim]]]:
    """List every parameter with its path, in file order, each round of a repeat by itself."""
    for site in _sites(program, Graph.named_calls, lambda graph: len(graph.params)):
        for param in site.graph.params:
            yield join(site.path, str(param.value.name)), param, site.graph, site.symbols


def has_params(program: IRProgram) -> bool:
    """Tell whether a program has a parameter, without a walk over the rounds of its repeats."""
    return any(_counts(program, Graph.named_calls, lambda graph: len(graph.params)))


def param_patterns(program: IRProgram) -> frozenset[str]:
    """Return the paths of the parameters, with one path for all rounds of a repeat."""

    def below(site: CallSite) -> Iterator[CallSite]:
        return (site.enter(call, program.graphs) for call in site.graph.named_calls())

    sites = callers_first(entry(program), below)
    return frozenset(join(s.path, str(p.value.name)) for s in sites for p in s.graph.params)


def frozen_paths(program: IRProgram) -> frozenset[str]:
    """Return the paths of the parameters that get no gradient."""
    specs = param_specs(program)
    return frozenset(path for path, param, *_ in specs if param.value.frozen)


def how_many_params(program: IRProgram) -> str:
    """Count the parameters; ? if the number of rounds of a repeat is not given yet."""
    try:
        return str(sum(_counts(program, Graph.named_calls, lambda graph: len(graph.params))))
    except DiagnosticError:
        return "?"


def moving_paths(program: IRProgram) -> Counter[str]:
    """Count the steps that move each running statistic, in every call that shares it."""
    sites = _sites(program, lambda graph: graph.calls, lambda graph: len(list(moving(graph))))
    return Counter(join(s.path, str(each.param.name)) for s in sites for each in moving(s.graph))


def sites_with(program: IRProgram, count: Callable[[Graph], int]) -> Iterator[CallSite]:
    """List every place of the graphs that have something to `count`, callers first."""
    return _sites(program, Graph.named_calls, count)


def state_shapes(program: IRProgram) -> Iterator[tuple[str, TensorType]]:
    """List every state with its path, in the sizes of the entry, each round by itself."""
    for site in _sites(program, lambda graph: graph.calls, lambda graph: len(graph.states)):
        for state in site.graph.states:
            type_ = site.graph.sizes.expand_type(site.graph.types[state.past])
            yield join(site.path, state.name), type_.substitute(site.symbols)


def refuse_endless(program: IRProgram) -> None:
    """Raise DiagnosticError if one run would call blocks more often than anybody can wait for."""
    try:
        found = sum(_counts(program, lambda graph: graph.calls, lambda _: 1)) - 1  # the entry
    except DiagnosticError:
        return  # the number of rounds is not known before there are arrays
    Executions.check(found, program.main.span)


def _sites(program: IRProgram, calls: Calls, count: Callable[[Graph], int]) -> Iterator[CallSite]:
    """List every place of the graphs that have something to `count`, callers first.

    Each round of a repeat is a place of its own, so their number is checked before the walk.
    """
    for found in _counts(program, calls, count):
        ListedRounds.check(found, program.main.span)
    return (site for site, _ in _walk(program, calls, count, each_round=True))


def _counts(program: IRProgram, calls: Calls, count: Callable[[Graph], int]) -> Iterator[int]:
    """Count something at each place of a graph, in all rounds of the repeats around it."""
    for site, rounds in _walk(program, calls, count, each_round=False):
        yield rounds * count(site.graph)


def _walk(
    program: IRProgram, calls: Calls, count: Callable[[Graph], int], *, each_round: bool
) -> Iterator[tuple[CallSite, int]]:
    """Walk over the places of graphs that have something to `count`, themselves or in a call.

    Each place comes with the number of its rounds, which is one with `each_round`.
    """
    numbers = program.main.sizes.bind(program.numbers)
    present = having(program, lambda graph: count(graph) > 0)

    def below(place: tuple[CallSite, int]) -> Iterator[tuple[CallSite, int]]:
        site, rounds = place
        for call in calls(site.graph):
            if call.callee not in present:
                continue
            inner = site.enter(call, program.graphs)
            if call.count is None:
                yield inner, rounds
                continue
            number = _rounds(call, call.count.substitute(site.symbols), numbers)
            if not each_round:
                yield inner, rounds * number
                continue
            for each in range(call.first, call.first + number):
                yield replace(inner, path=f"{inner.path}.{each}"), 1

    return callers_first((entry(program), 1), below)


def _rounds(call: Call, count: Dim, numbers: Mapping[str, int]) -> int:
    """Evaluate the number of rounds of a repeat; raises DiagnosticError if a size is open."""
    for name in count.symbols():
        if name not in numbers:
            raise DiagnosticError.of(UnboundSize(call.span, name, "called so often"))
    return count.evaluate(numbers)


def join(path: str, name: str) -> str:
    """Join a path and a name below it; the top has the empty path."""
    return f"{path}.{name}" if path else name


# Losses of a block: the output that training minimizes, and the targets that do not count.


def scalars(graph: Graph) -> tuple[str, ...]:
    """The outputs that are single floats."""
    return tuple(
        name
        for name, value in zip(graph.output_names, graph.outputs, strict=True)
        if graph.types[value].is_float and not graph.types[value].shape
    )


def loss_of(graph: Graph) -> str | None:
    """The output `loss`, or the only single number; None where neither is there."""
    names = scalars(graph)
    return names[0] if len(names) == 1 else next((name for name in names if name == "loss"), None)


def is_loss(step: Step) -> TypeGuard[Apply]:
    """Whether a step compares its first operand with targets."""
    return isinstance(step, Apply) and step.op.family == "loss"


def ignored(program: IRProgram, value: Value) -> int | None:
    """Return the id outside the range of an input that a loss takes for "no target here".

    The loss may be in a block that is called, and its targets may be a part of the input.
    """
    for step, _ in readers(program, value):
        number = step.attrs.get("ignore")
        if isinstance(number, Scalar):
            return int(number.evaluate({}))
    return None


def readers(program: IRProgram, value: Value) -> Iterator[tuple[Apply, str]]:
    """Yield each operator that reads an input, or integers taken from it, and as which operand."""
    places = {(program.entry, value): None}
    queue = list(places)
    for key, held in queue:  # grows on the way
        graph = program.graphs[key]
        for step in graph.steps:
            if held not in step.inputs:
                continue
            if isinstance(step, Apply):
                yield step, step.op.operand_names(step.attrs)[step.inputs.index(held)]
            further = list(_handed_on(program, graph, step, held))
            queue += [place for place in further if place not in places]
            places.update(dict.fromkeys(further))


def _handed_on(
    program: IRProgram, graph: Graph, step: Step, value: Value
) -> Iterator[tuple[str, Value]]:
    """Yield where integers reappear after a step: in a called block, or an operator's results."""
    if isinstance(step, Call):
        callee = program.callee(step)
        inside = ports(step, callee)[0]
        pairs = zip(step.inputs, inside, strict=False)
        yield from ((callee.key, port) for given, (port, _) in pairs if given is value)
    else:
        kept = [v for v in step.outputs if graph.types[v].range == graph.types[value].range]
        yield from ((graph.key, v) for v in kept)
