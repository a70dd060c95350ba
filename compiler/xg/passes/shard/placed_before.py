"""Blocks placed before: the result for each, and the questions that it asked of its callees.

A graph is identified by its *core*: graphs of one core have the same values and steps, and differ
only in the callees of their calls, in the requests for other mesh axes, and in numbers. A block
that several plans place in the same way on a mesh axis is therefore placed once, and a caller of a
changed block only where the changed block gives another answer. Of numbers only the answers count
that they gave: which axes the ranks can share.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import Recent, calling
from xg.ir.graph import Apply, Call, Graph
from xg.ir.placement import AxisState
from xg.passes.shard.axis_placement import BlockPlacer
from xg.passes.shard.bodies import Bodies
from xg.passes.shard.calls import CallRequest, PlacedCall, Placing, behind, entering
from xg.passes.shard.divisions import Divisions
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
        return answer.seen == self.seen


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
        placed, answers = yield from _noted(placer().run())
        placed = replace(placed, core=self.new_core())
        entries.append(_remembered(placed, answers, kind.callees))
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


def _noted(
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


def _remembered(
    placed: PlacedCall, answers: Sequence[PlacedCall], callees: Sequence[str]
) -> _Before:
    places = {answer.graph.key: place for place, answer in enumerate(answers)}
    return _Before(
        questions=tuple(
            _Question(
                callee=callees.index(answer.request.key),
                inputs=answer.request.inputs,
                leaving=answer.request.leaving,
                seen=answer.seen,
            )
            for answer in answers
        ),
        links=tuple(places[step.callee] for step in placed.graph.steps if isinstance(step, Call)),
        placed=placed,
    )
