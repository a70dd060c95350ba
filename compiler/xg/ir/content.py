"""List and prune the values of a graph, and compare graphs by content, not by identity.

A plan sees less than the content: `PlanViews` compares what it sees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Generic, TypeVar, cast

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body, topological
from xg.ir.dim import Scalar
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Step, Value
from xg.ir.op import Op
from xg.ir.tensor import TensorType

# Entries of values that a pass removed from a graph are removed from the graph's tables.


Entry = TypeVar("Entry")
G = TypeVar("G", bound=Graph)


def entering(graph: Graph) -> Iterator[Value]:
    """Every value that is there before the first step."""
    yield from graph.inputs
    yield from graph.param_values()
    yield from (state.past for state in graph.states)
    if isinstance(graph, Backward):
        yield from graph.saved


def made(step: Step) -> tuple[Value, ...]:
    """Return the values that a step makes, with what a call keeps for its backward pass."""
    if isinstance(step, Call) and step.origin is None:
        return (*step.outputs, step.saved)
    return step.outputs


def values(graph: Graph) -> Iterator[Value]:
    """Every value of a graph, in the order in which they come into being."""
    yield from entering(graph)
    for step in graph.steps:
        yield from made(step)


def needed_steps(
    steps: Sequence[Step], outputs: Iterable[Value], keeps: Callable[[Step], bool] | None = None
) -> tuple[set[Value], tuple[Step, ...]]:
    """Find the values that outputs depend on, and the steps that make them, in order.

    A step that it `keeps` stays too, with all that it reads.
    """
    needed = set(outputs)
    found: list[Step] = []
    for step in reversed(steps):
        if (keeps and keeps(step)) or not needed.isdisjoint(step.outputs):
            needed.update(step.inputs)
            found.append(step)
    return needed, tuple(reversed(found))


def prune(graph: G) -> G:
    """The graph with only its own values in its tables."""
    present = frozenset(values(graph))
    tables = (graph.types, graph.layouts, graph.placement_requests, graph.placements)
    others = (*(value for _, value in graph.aliases), *graph.reusable)
    if present.issuperset(others) and all(present.issuperset(table) for table in tables):
        return graph

    def kept(table: Mapping[Value, Entry]) -> dict[Value, Entry]:
        return {value: entry for value, entry in table.items() if value in present}

    return replace(
        graph,
        types=kept(graph.types),
        layouts=kept(graph.layouts),
        placement_requests=kept(graph.placement_requests),
        placements=kept(graph.placements),
        aliases=tuple((name, value) for name, value in graph.aliases if value in present),
        reusable=tuple(value for value in graph.reusable if value in present),
    )


def content(graph: Graph) -> Hashable:
    """All that is known of a typed graph but what its calls call, and the program's numbers.

    Its places in the file are part of it, so messages are the same too.
    """
    numbers: dict[Value, int] = {}
    for value in every_value(graph):
        numbers.setdefault(value, len(numbers))

    def numbers_of(values: tuple[Value, ...]) -> tuple[int, ...]:
        return tuple(numbers[value] for value in values)

    return (
        (graph.block_id, graph.title, graph.span),
        tuple((v.name, v.role, v.span, v.declared, graph.types.get(v)) for v in numbers),
        (numbers_of(graph.inputs), numbers_of(graph.outputs), numbers_of(graph.foreign)),
        (graph.output_names, graph.output_types),
        tuple((numbers[param.value], param.type, param.start) for param in graph.params),
        tuple((_step(step), numbers_of((*step.inputs, *step.outputs))) for step in graph.steps),
        tuple((name, numbers[value]) for name, value in graph.aliases),
        tuple((numbers[value], tuple(cuts.items())) for value, cuts in graph.layouts.items()),
        tuple((state.name, numbers[state.past], numbers[state.next]) for state in graph.states),
        (graph.sizes.structure(), graph.mentions, graph.remarks, graph.meant_zeros),
    )


def calling(graph: Graph, key: str, callees: Sequence[str]) -> Graph:
    """The graph under another key, its calls one after the other calling these."""
    keys = iter(callees)
    steps = tuple(
        replace(step, callee=next(keys)) if isinstance(step, Call) else step for step in graph.steps
    )
    return replace(graph, key=key, steps=steps)


def every_value(graph: Graph) -> Iterator[Value]:
    """Every value of a graph, in an order that its text determines."""
    yield from graph.inputs
    yield from graph.param_values()
    for step in graph.steps:
        yield from step.inputs
        yield from step.outputs
    yield from graph.outputs
    yield from (value for _, value in graph.aliases)
    yield from graph.layouts
    yield from (value for state in graph.states for value in (state.past, state.next))


def _step(step: Apply | Call) -> Hashable:
    if isinstance(step, Call):
        return step.path, step.span, step.count, step.first, frozen(step.sizes)
    return id(step.op), step.place, step.span, frozen(step.attrs), len(step.outputs)


def frozen(items: Mapping[str, object]) -> Hashable:
    """The entries of a table; tables whose values cannot be compared are equal to no other."""
    return tuple((key, hashable(value)) for key, value in items.items())


_unlike = count()


def hashable(value: object) -> Hashable:
    """Return a hashable value itself, and a fresh number for any other value."""
    try:
        hash(value)
    except TypeError:
        return next(_unlike)
    return cast("Hashable", value)


# Types of the values inside fused steps.


def with_parts(
    types: Mapping[Value, TensorType], parts: Iterable[Apply]
) -> dict[Value, TensorType]:
    """Types of values, with those inside a fused step if they have its operands."""
    known = dict(types)
    for step in parts:
        if all(value in known for value in step.inputs):
            body = step.body(known)
            for value, expression in zip(step.outputs, body.outputs, strict=True):
                known.setdefault(value, TensorType(expression.shape))
    return known


# A table of answers that forgets those that were not asked for in the last rounds.


Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")

ROUNDS = 8  # of work in which an answer may go unasked until it is forgotten


@dataclass(slots=True)
class Recent(Generic[Key, Answer]):
    """Answers by key. `entries` holds with each the round in which it was asked for last.

    A key that is the `id` of an object needs an answer that keeps the object alive.
    """

    entries: dict[Key, list[object]] = field(default_factory=dict[Key, "list[object]"])
    now: int = 0

    def get(self, key: Key) -> Answer | None:
        """The answer for a key, if there is one."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        entry[0] = self.now
        return entry[1]  # pyright: ignore[reportReturnType]

    def put(self, key: Key, answer: Answer) -> Answer:
        """Keep an answer, and return it."""
        self.entries[key] = [self.now, answer]
        return answer

    def next_round(self) -> None:
        """Begin a round of work; what was not asked for in the last ones is forgotten."""
        self.now += 1
        oldest = self.now - ROUNDS
        stale = [key for key, (round_, _) in self.entries.items() if round_ < oldest]  # pyright: ignore[reportOperatorIssue]
        for key in stale:
            del self.entries[key]

    def __len__(self) -> int:
        """How many answers there are."""
        return len(self.entries)


# All that a plan sees of a program: of programs that look the same, all pass a check or none.
#
# A plan does not see where the file says something, the names of edges that it does not mention,
# and numbers such as a probability: they change no shape and no operator. So most edits of a block
# leave it as it was for every plan.


View = int  # equal ones stand for what looks the same
Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class GraphView:
    """All that every plan sees of a graph, and the names of its edges, which some plans mention."""

    graph: Graph
    view: View
    names: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class PlanViews:
    """Views of graphs and programs, each found once.

    A view is a number that is never given again. Tables by the `id` of an object keep it alive.
    """

    graphs: Recent[int, GraphView] = field(default_factory=Recent[int, GraphView])
    steps: Recent[Hashable, tuple[Op, View]] = field(
        default_factory=Recent["Hashable", "tuple[Op, View]"]
    )
    known: Recent[Hashable, tuple[View, object]] = field(
        default_factory=Recent["Hashable", "tuple[View, object]"]
    )
    programs: dict[tuple[int, Names], View] = field(default_factory=dict[tuple[int, Names], View])
    views: dict[int, tuple[dict[str, GraphView], Names]] = field(
        default_factory=dict[int, "tuple[dict[str, GraphView], Names]"]
    )
    numbers: Iterator[int] = field(default_factory=count)

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.graphs.next_round()
        self.steps.next_round()
        self.known.next_round()
        self.programs.clear()
        self.views.clear()

    def of(self, program: IRProgram, mentioned: Names) -> View:
        """All that a plan that mentions these names sees of a program.

        Its numbers are not part of that. The program has to live until the next round.
        """
        views, edges = self._views(program)
        names = edges & mentioned
        known = self.programs.get((id(program), names))
        if known is not None:
            return known
        numbers: dict[str, View] = {}
        for key, each in views.items():  # callees first
            inside = tuple(numbers[call.callee] for call in each.graph.calls)
            named = tuple(pair for pair in each.names if pair[0] in names)
            numbers[key] = self._number((each.view, named, inside))
        self.programs[id(program), names] = numbers[program.entry]
        return numbers[program.entry]

    def _views(self, program: IRProgram) -> tuple[dict[str, GraphView], Names]:
        known = self.views.get(id(program))
        if known is None:
            views = {key: self._graph(graph) for key, graph in program.graphs.items()}
            names = frozenset(name for each in views.values() for name, _ in each.names)
            known = self.views[id(program)] = views, names
        return known

    def _graph(self, graph: Graph) -> GraphView:
        known = self.graphs.get(id(graph))
        if known is None:
            values: dict[Value, int] = {}
            for value in every_value(graph):
                values.setdefault(value, len(values))
            view = self._number(self._content(graph, values))
            names = ((name, values[value]) for name, value in graph.names() if _is_edge(value))
            known = self.graphs.put(id(graph), GraphView(graph, view, tuple(names)))
        return known

    def _content(self, graph: Graph, values: Mapping[Value, int]) -> Hashable:
        """All of a typed graph that can matter to a plan, but the names of edges and the callees.

        Rare parts are in it by identity, so that it equals nothing else.
        """

        def numbers_of(some: tuple[Value, ...]) -> tuple[int, ...]:
            return tuple(values[value] for value in some)

        return (
            (graph.block_id, graph.output_names, graph.output_types, graph.sizes.structure()),
            tuple(
                (v.role, v.frozen, v.name is None if _is_edge(v) else v.name, graph.types.get(v))
                for v in values
            ),
            (numbers_of(graph.inputs), numbers_of(graph.outputs), numbers_of(graph.foreign)),
            tuple((values[param.value], param.type) for param in graph.params),
            tuple(
                (self._step(step, graph), numbers_of((*step.inputs, *step.outputs)))
                for step in graph.steps
            ),
            tuple(values[value] for _, value in graph.aliases),
            tuple((values[value], tuple(cuts.items())) for value, cuts in graph.layouts.items()),
            (graph.claims, graph.states, graph.carries, frozen(graph.memory)),
        )

    def _step(self, step: Apply | Call, graph: Graph) -> Hashable:
        if isinstance(step, Call):
            sizes, starts = frozen(step.sizes), frozen(step.starts)
            return step.path, step.count, step.first, step.loop, sizes, starts
        types = tuple(graph.types[value] for value in step.inputs)
        key = id(step.op), frozen(step.attrs), types
        known = self.steps.get(key)
        if known is None:
            attrs = tuple((name, _form(value)) for name, value in step.attrs.items())
            said = id(step.op), attrs, types, _form_of_body(step.body(graph.types))
            known = self.steps.put(key, (step.op, self._number(said, step.op)))
        return known[1], len(step.outputs), step.parts

    def _number(self, said: Hashable, alive: object = None) -> View:
        known = self.known.get(said)
        if known is None:
            known = self.known.put(said, (next(self.numbers), alive))
        return known[0]


def _is_edge(value: Value) -> bool:
    """Whether the name of a value is of no use but to be mentioned: other roles are found by it."""
    return value.role == "edge"


def _form_of_body(body: Body) -> Hashable:
    """The primitives of a body, without the numbers in them."""
    order = topological((*body.operands, *body.outputs))
    places = {id(expr): place for place, expr in enumerate(order)}
    return (
        tuple(
            (
                expr.prim,
                expr.shape,
                expr.kind,
                tuple((name, _form(value)) for name, value in expr.attrs),
                tuple(places[id(arg)] for arg in expr.args),
            )
            for expr in order
        ),
        tuple(places[id(expr)] for expr in body.outputs),
        body.caches,
    )


def _form(value: object) -> Hashable:
    """An attribute without the numbers in it that are not whole, such as 0.1 and 1/sqrt(D)."""
    if isinstance(value, Scalar):
        return _form_of_number(value)
    if isinstance(value, tuple):
        return tuple(map(_form, cast("tuple[object, ...]", value)))
    return hashable(value)


def _form_of_number(value: Scalar) -> Hashable:
    """A whole number, a size and infinity themselves: a mask may depend on them."""
    if value.is_integral or value.op == "size":
        return value
    if value.op == "number":
        return "number" if _is_finite(value) else value
    return value.op, tuple(
        "number" if _is_finite(each) else _form_of_number(each) for each in value.args
    )


def _is_finite(value: Scalar) -> bool:
    return value.op == "number" and isinstance(value.value, float) and math.isfinite(value.value)
