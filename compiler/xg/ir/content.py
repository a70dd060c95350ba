"""List and prune the values of a graph, and compare graphs by content, not by identity."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Generic, TypeVar, cast

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.graph import Apply, Backward, Call, Graph, Step, Value
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
