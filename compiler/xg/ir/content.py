"""The content of a graph without the identity of its values: equal contents are interchangeable."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import cast

from xg.ir.graph import Apply, Call, Graph, Value


def content(graph: Graph, names: Mapping[str, str]) -> Hashable:
    """All that is known of a typed graph, with the keys of its callees replaced by `names`.

    Its places in the file are part of it, so messages are the same too.
    """
    numbers: dict[Value, int] = {}
    for value in _values(graph):
        numbers.setdefault(value, len(numbers))

    def numbered(values: tuple[Value, ...]) -> tuple[int, ...]:
        return tuple(numbers[value] for value in values)

    return (
        (graph.block, graph.title, graph.span),
        tuple((v.name, v.role, v.span, v.declared, graph.types.get(v)) for v in numbers),
        (numbered(graph.inputs), numbered(graph.outputs), numbered(graph.foreign)),
        (graph.output_names, graph.output_types),
        tuple((numbers[param.value], param.type, param.start) for param in graph.params),
        tuple(
            (_step(step, names), numbered((*step.inputs, *step.outputs))) for step in graph.steps
        ),
        tuple((name, numbers[value]) for name, value in graph.aliases),
        tuple((numbers[value], tuple(cuts.items())) for value, cuts in graph.layouts.items()),
        tuple((numbers[value], type_) for value, type_, _ in graph.claims),
        tuple((state.name, numbers[state.past], numbers[state.next]) for state in graph.states),
        _frozen(graph.sizes.definitions),
        _frozen(graph.sizes.defaults),
        (graph.sizes.mesh, graph.sizes.local, graph.mentions),
    )


def renamed(graph: Graph, key: str, names: Mapping[str, str]) -> Graph:
    """The graph under a key of its own, calling its callees by `names`."""
    steps = tuple(
        replace(step, callee=names[step.callee]) if isinstance(step, Call) else step
        for step in graph.steps
    )
    return replace(graph, key=key, steps=steps)


def _values(graph: Graph) -> Iterator[Value]:
    """Every value of a graph, in an order that its text determines."""
    yield from graph.inputs
    yield from graph.param_values()
    for step in graph.steps:
        yield from step.inputs
        yield from step.outputs
    yield from graph.outputs
    yield from (value for _, value in graph.aliases)
    yield from graph.layouts
    yield from (value for value, _, _ in graph.claims)
    yield from (value for state in graph.states for value in (state.past, state.next))


def _step(step: Apply | Call, names: Mapping[str, str]) -> Hashable:
    if isinstance(step, Call):
        return names[step.callee], step.path, step.span, step.count, _frozen(step.sizes)
    return id(step.op), step.place, step.span, _frozen(step.attrs), len(step.outputs)


def _frozen(items: Mapping[str, object]) -> Hashable:
    return tuple((key, _hashable(value)) for key, value in items.items())


_unlike = count()


def _hashable(value: object) -> Hashable:
    """The value itself, or something equal to nothing else where it cannot be compared."""
    try:
        hash(value)
    except TypeError:
        return next(_unlike)
    return cast("Hashable", value)
