"""All that a plan sees of a program: of programs that look the same, all pass a check or none.

A plan does not see where the file says something, the names of edges that it does not mention, and
numbers such as a probability: they change no shape and no operator. So most edits of a block leave
it as it was for every plan.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from itertools import count
from typing import cast

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body, topological
from xg.ir.content import Recent, every_value, frozen, hashable
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg.ir.op import Op
from xg.ir.scalar import Scalar

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
