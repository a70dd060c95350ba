"""Walk over graphs and what they call, without recursion, however deeply calls are nested."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from xg.diagnostics.limits import Beyond, ExpandedOperators
from xg.ir.dim import Dim, number
from xg.ir.graph import Call, Graph, IRProgram

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
