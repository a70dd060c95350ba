"""Propagate placements through whole programs on one mesh axis, each block placed once.

A graph is identified by its *core*: graphs of one core have the same values and steps, and differ
only in the callees of their calls, in the requests for other mesh axes, and in numbers. A block
that several plans place in the same way on a mesh axis is therefore placed once, and a caller of a
changed block only where the changed block gives another answer. Of numbers only the answers count
that they gave: which axes the ranks can share.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from itertools import chain, count

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import Recent, calling
from xg.ir.dim import symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram
from xg.ir.moves import collective
from xg.ir.placement import CONSTANT, INVARIANT, AxisState, zigzag_axes
from xg.ir.walk import Symbols, answers, sort_graphs
from xg.passes.shard.axis_placement import BlockPlacer
from xg.passes.shard.calls import CallRequest, PlacedCall, Placing, behind, entering, refuse_sends
from xg.passes.shard.errors import (
    refuse_again,
    refuse_chunks,
    refuse_move,
    refuse_statistics,
)
from xg.passes.shard.resharding import Bodies, Divisions, bound_by_calls
from xg.sharding.divisibility import PartsKey

Core = int


@dataclass(frozen=True, slots=True)
class _Question:
    """A question of a block to one of its callees, and the answer."""

    callee: int
    inputs: tuple[AxisState, ...]
    leaving: tuple[AxisState | None, ...]
    seen: tuple[object, ...]

    def matches(self, answer: PlacedCall) -> bool:
        """Whether another callee answers the same."""
        return answer.caller_view == self.seen


@dataclass(frozen=True, slots=True)
class _Before:
    """A block that was placed. `links` says of each call whose answer it became."""

    questions: tuple[_Question, ...]
    links: tuple[int, ...]
    placed: PlacedCall

    def again(
        self, graph: Graph, request: CallRequest, answers: Sequence[PlacedCall]
    ) -> PlacedCall:
        """The same for another graph of the same core, whose callees gave these answers."""
        before, moved = self.placed.graph, self.placed.moved
        callees = [answers[link].graph.key for link in self.links]
        requests = behind(moved, graph.placement_requests)
        now = replace(
            calling(before, before.key, callees),
            placement_requests=requests,
            sizes=graph.sizes,
            memory=graph.memory,
        )
        return replace(self.placed, request=request, graph=now)


@dataclass(slots=True)
class PlacedBlocks:
    """Blocks by their cores and what was asked of them; `bodies` answers for operators.

    `parts` and `local` are cores of which nothing is wrong: ranks share all sizes of these, and of
    those the program of a rank could be written, as of the operators in `steps`.
    """

    bodies: Bodies = field(default_factory=Bodies)
    kinds: Recent[Hashable, int] = field(default_factory=Recent[Hashable, int])
    before: Recent[Hashable, list[_Before]] = field(
        default_factory=Recent[Hashable, "list[_Before]"]
    )
    parts: Recent[PartsKey, bool] = field(default_factory=Recent[PartsKey, bool])
    local: Recent[Core, bool] = field(default_factory=Recent[Core, bool])
    steps: Recent[Hashable, Apply] = field(default_factory=Recent[Hashable, Apply])
    count: int = 0

    def new_core(self) -> Core:
        """A core that no graph has yet."""
        self.count += 1
        return self.count

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.bodies.next_round()
        self.kinds.next_round()
        self.before.next_round()
        self.parts.next_round()
        self.local.next_round()
        self.steps.next_round()

    def kind(self, core: Core, graph: Graph, graphs: Mapping[str, Graph], axis: str) -> Kind:
        """All but numbers by which a graph is placed on a mesh axis, and what it calls."""
        callees = [step.callee for step in graph.steps if isinstance(step, Call)]
        distinct = tuple(dict.fromkeys(callees))
        requested = frozenset(
            (value, requests[axis])
            for value, requests in graph.placement_requests.items()
            if axis in requests
        )
        asked = tuple(entering(graphs[callee], axis) for callee in distinct)
        key = core, axis, tuple(map(distinct.index, callees)), requested, asked
        number = self.kinds.get(key)
        return Kind(self.kinds.put(key, self.new_core()) if number is None else number, distinct)

    def placing(
        self,
        kind: Kind,
        graph: Graph,
        request: CallRequest,
        divisions: Divisions,
        placer: Callable[[], BlockPlacer],
    ) -> Placing:
        """Run a placer, unless the same was placed before."""
        key = kind.number, request.inputs, request.leaving, request.is_entry
        entries = self.before.get(key) or self.before.put(key, [])
        for before in entries:
            if not divisions.answer(before.placed.divided):
                continue
            answers = yield from _asked_again(before, kind.callees)
            if answers is not None:
                return before.again(graph, request, answers)
        placed, answers = yield from _run_and_record(placer().run())
        placed = replace(placed, core=self.new_core())
        entries.append(_build_record(placed, answers, kind.callees))
        return placed


@dataclass(frozen=True, slots=True)
class Kind:
    """Graphs that are placed the same way, and the callees of one of them."""

    number: int
    callees: tuple[str, ...]


def _asked_again(
    before: _Before, callees: Sequence[str]
) -> Generator[CallRequest, PlacedCall, list[PlacedCall] | None]:
    """The answers of these callees to the same questions; None as soon as one is another.

    A question follows from the answers before it, so none is asked that would not be asked anyway.
    """
    answers: list[PlacedCall] = []
    for question in before.questions:
        answer = yield CallRequest(callees[question.callee], question.inputs, question.leaving)
        if not question.matches(answer):
            return None
        answers.append(answer)
    return answers


def _run_and_record(
    placing: Placing,
) -> Generator[CallRequest, PlacedCall, tuple[PlacedCall, list[PlacedCall]]]:
    """The result of a placer, with every answer that it was given."""
    answers: list[PlacedCall] = []
    try:
        call_request = next(placing)
        while True:
            answers.append((yield call_request))
            call_request = placing.send(answers[-1])
    except StopIteration as finished:
        return finished.value, answers


def _build_record(
    placed: PlacedCall, answers: Sequence[PlacedCall], callees: Sequence[str]
) -> _Before:
    places = {answer.graph.key: place for place, answer in enumerate(answers)}
    return _Before(
        questions=tuple(
            _Question(
                callee=callees.index(answer.request.key),
                inputs=answer.request.inputs,
                leaving=answer.request.leaving,
                seen=answer.caller_view,
            )
            for answer in answers
        ),
        links=tuple(places[step.callee] for step in placed.graph.steps if isinstance(step, Call)),
        placed=placed,
    )


# Whole programs on one mesh axis: every graph in every combination of states it is called in.


def _entering(graph: Graph, axis: str) -> tuple[AxisState, ...]:
    """Return the states of the entry's inputs: as the plan says, or else replicated."""
    states: list[AxisState] = []
    for value in graph.inputs:
        request = graph.placement_requests.get(value, {}).get(axis)
        whole = INVARIANT if graph.types[value].is_float else CONSTANT
        states.append(request.rest if request and request.rest.kind == "S" else whole)
    return tuple(states)


def refuse_left_over(program: IRProgram) -> None:
    """Raise DiagnosticError for collectives that cut nothing, or gather running statistics.

    And for parameters in two chunks, for what rounds of a loop send, and for inputs of rounds that
    are to be made again.
    """
    problems: list[Problem] = []
    for graph in program.graphs.values():
        problems += refuse_statistics(graph)
    for graph in program.graphs.values() if zigzag_axes(program.plan) else ():
        problems += refuse_chunks(graph, zigzag_axes(program.plan))
    problems += [
        refuse_move(step.outputs[0], INVARIANT, None, graph, step.attrs["over"], step.span, record)
        for graph in program.graphs.values()
        for step in graph.steps
        if isinstance(step, Apply) and "source" not in step.attrs
        if (record := collective(step.op))
    ]
    problems += refuse_sends(program)
    problems += refuse_again(program, is_compiled=False)
    if problems:
        raise DiagnosticError.of(*dict.fromkeys(problems))


class SeenByCallers(Exception):
    """A graph in the place of another that its callers have to be placed again for."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The key of a graph, the key of its replacement, and the replacement's symbols."""

    before: str
    now: str
    symbols: Symbols


@dataclass(slots=True)
class Elaboration:
    """The moves of one mesh axis in every graph, in every combination of states.

    Programs that share graphs share the results: a graph is identified by its key, so one key must
    mean one graph in all of them. `names` maps every new key to the one it was made from. A graph
    with a core (in `cores`) takes the result of an earlier one with the same core; `made` has the
    cores of the results.
    """

    axis: str
    blocks: PlacedBlocks
    source: dict[str, Graph] = field(default_factory=dict[str, Graph])
    done: dict[CallRequest, PlacedCall] = field(default_factory=dict[CallRequest, PlacedCall])
    graphs: dict[str, Graph] = field(default_factory=dict[str, Graph])
    names: dict[str, str] = field(default_factory=dict[str, str])
    cores: dict[str, Core] = field(default_factory=dict[str, Core])
    made: dict[str, Core] = field(default_factory=dict[str, Core])
    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    bound: dict[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])
    divisions: dict[tuple[int, frozenset[str]], Divisions] = field(
        default_factory=dict["tuple[int, frozenset[str]]", Divisions]
    )
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])

    def of(self, program: IRProgram, cores: Mapping[str, Core] | None = None) -> IRProgram:
        """The program with the moves of the axis, callees first; raises DiagnosticError."""
        self.source.update(program.graphs)
        self.cores.update(cores or {})
        self._note_sizes(program, {})
        mains = (program.graphs[key] for key in program.entries)
        entry, *others = (self._answer(self._entry(main)).graph.key for main in mains)
        graphs = sort_graphs(self.graphs, entry, *others)
        return replace(program, graphs=graphs, entry=entry, others=tuple(others))

    def replacing(
        self, program: IRProgram, cores: Mapping[str, Core], replaced: Iterable[Replaced]
    ) -> tuple[IRProgram, list[Replaced]]:
        """Place graphs as callers have asked for the graphs that they replace.

        Raises SeenByCallers where an answer is another. The program has only these graphs and what
        they call; so has the result, with what has replaced what there.
        """
        self.source.update(program.graphs)
        self.cores.update(cores)
        replaced = list(replaced)
        outside = {each.now: _bound(each.symbols) for each in replaced}
        self._note_sizes(program, outside)
        found: list[Replaced] = []
        for each in replaced:
            if each.before not in self.source:
                continue  # asked for on the mesh axis before, and then in another way
            asked = [key for key in self.done if key.key == each.before]
            if not asked:
                raise SeenByCallers  # nothing is known of what they ask
            for request in asked:
                before, now = self.done[request], self._answer(self._instead(request, each))
                same = now.caller_view == before.caller_view
                if not (same or request.is_entry):
                    raise SeenByCallers
                found.append(Replaced(before.graph.key, now.graph.key, each.symbols))
        if not found:
            raise SeenByCallers
        entry, *others = (each.now for each in found)
        graphs = sort_graphs(self.graphs, entry, *others)
        return replace(program, graphs=graphs, entry=entry, others=tuple(others)), found

    def _instead(self, request: CallRequest, replaced: Replaced) -> CallRequest:
        """The question to a graph in the place of another."""
        before, now = self.source[replaced.before], self.source[replaced.now]
        if request.is_entry:
            return self._entry(now)
        if entering(before, self.axis) != entering(now, self.axis):
            raise SeenByCallers
        return replace(request, key=now.key)

    def _entry(self, main: Graph) -> CallRequest:
        leaving = (None,) * len(main.outputs)
        return CallRequest(main.key, _entering(main, self.axis), leaving, is_entry=True)

    def _answer(self, request: CallRequest) -> PlacedCall:
        return answers(request, self._work, self.done)[request]

    def _work(self, request: CallRequest) -> Placing:
        """Place a requested graph, unless the same was placed before, under a key of its own."""
        graph = self.source[request.key]

        def fresh() -> BlockPlacer:
            return self._fresh(graph, request)

        if request.key in self.cores:
            kind, divisions = self._kind(graph), self._divisions(graph)
            placed = yield from self.blocks.placing(kind, graph, request, divisions, fresh)
        else:
            placed = yield from fresh().run()
        return self._assign_key(placed)

    def _fresh(self, graph: Graph, request: CallRequest) -> BlockPlacer:
        return BlockPlacer(
            graph=graph,
            graphs=self.source,
            request=request,
            axis=self.axis,
            divisions=self._divisions(graph),
            bodies=self.blocks.bodies,
        )

    def _note_sizes(self, program: IRProgram, outside: Mapping[str, frozenset[str]]) -> None:
        """Note a program's numbers, and the symbols of its graphs that calls bind."""
        self.numbers = program.numbers
        for key, names in bound_by_calls(program, outside).items():
            self.bound[key] = self.bound.get(key, frozenset[str]()) | names

    def _divisions(self, graph: Graph) -> Divisions:
        bound = self.bound[graph.key]
        key = id(graph.sizes), bound
        if key not in self.divisions:
            self.divisions[key] = Divisions(self.axis, graph.sizes, self.numbers, bound)
        return self.divisions[key]

    def _kind(self, graph: Graph) -> Kind:
        if graph.key not in self.kinds:
            core = self.cores[graph.key]
            self.kinds[graph.key] = self.blocks.kind(core, graph, self.source, self.axis)
        return self.kinds[graph.key]

    def _assign_key(self, placed: PlacedCall) -> PlacedCall:
        """Store a placed graph under a key of its own, for now a number."""
        key = f"{len(self.done)}"
        graph = self.graphs[key] = replace(placed.graph, key=key)
        self.names[key] = placed.request.key
        if placed.core is not None:
            self.made[key] = placed.core
        return replace(placed, graph=graph)


def _bound(symbols: Symbols) -> frozenset[str]:
    """The symbols of a graph that are another size in the entry."""
    return frozenset(name for name, size in symbols.items() if size != symbol(name))


def named(program: IRProgram, elaborations: Sequence[Elaboration]) -> IRProgram:
    """Give the graphs readable keys, from the graphs that they were made from."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for key in program.graphs:
        base = key
        for elaboration in reversed(elaborations):
            base = elaboration.names[base]
        numbered = (f"{base} ({number})" for number in count(2))
        names[key] = next(name for name in chain([base], numbered) if name not in taken)
        taken.add(names[key])
    graphs = {
        names[key]: calling(graph, names[key], [names[call.callee] for call in graph.calls])
        for key, graph in program.graphs.items()
    }
    return replace(program, graphs=graphs, entry=names[program.entry])
