"""The content of a graph without the identity of its values: equal contents are interchangeable."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import cast

from xg.ir.graph import Apply, Call, Graph, Value


def content(graph: Graph) -> Hashable:
    """All that is known of a typed graph but what its calls call, and the program's numbers.

    Its places in the file are part of it, so messages are the same too.
    """
    numbers: dict[Value, int] = {}
    for value in every_value(graph):
        numbers.setdefault(value, len(numbers))

    def numbered(values: tuple[Value, ...]) -> tuple[int, ...]:
        return tuple(numbers[value] for value in values)

    return (
        (graph.block_id, graph.title, graph.span),
        tuple((v.name, v.role, v.span, v.declared, graph.types.get(v)) for v in numbers),
        (numbered(graph.inputs), numbered(graph.outputs), numbered(graph.foreign)),
        (graph.output_names, graph.output_types),
        tuple((numbers[param.value], param.type, param.start) for param in graph.params),
        tuple((_step(step), numbered((*step.inputs, *step.outputs))) for step in graph.steps),
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
    """The value itself, or something equal to nothing else where it cannot be compared."""
    try:
        hash(value)
    except TypeError:
        return next(_unlike)
    return cast("Hashable", value)
