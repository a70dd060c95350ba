"""Losses of a block: the output that training minimizes, and the targets that do not count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from xg.ir.graph import Apply, Call, Graph, Program, Step, Value, ports
from xg.ir.scalar import Scalar


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


def ignored(program: Program, value: Value) -> int | None:
    """The id outside the range of an input that a loss takes for "no target here".

    The loss may be in a block that is called, and its targets may be a part of the input.
    """
    places = {(program.entry, value): None}
    queue = list(places)
    for key, held in queue:  # grows on the way
        graph = program.graphs[key]
        for step in graph.steps:
            if held not in step.inputs:
                continue
            number = None if isinstance(step, Call) else step.attrs.get("ignore")
            if isinstance(number, Scalar):
                return int(number.evaluate({}))
            further = list(_handed_on(program, graph, step, held))
            queue += [place for place in further if place not in places]
            places.update(dict.fromkeys(further))
    return None


def _handed_on(
    program: Program, graph: Graph, step: Step, value: Value
) -> Iterator[tuple[str, Value]]:
    """Where integers are found again behind a step: in a block, or moved by an operator."""
    if isinstance(step, Call):
        callee = program.callee(step)
        inside = ports(step, callee)[0]
        pairs = zip(step.inputs, inside, strict=False)
        yield from ((callee.key, port) for given, (port, _) in pairs if given is value)
    else:
        kept = [v for v in step.outputs if graph.types[v].range == graph.types[value].range]
        yield from ((graph.key, v) for v in kept)
