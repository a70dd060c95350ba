"""The program of one device behind a parallel one: what plans and moves leave as it is."""

from __future__ import annotations

from dataclasses import replace

from xg import driver
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Call, Graph, Program, Value
from xg.passes.differentiate import differentiate


def single(program: driver.Program) -> driver.Program:
    """A compiled program on one device, with its backward pass; itself if it was for one."""
    if program.whole is None:
        return program
    return driver.Program(differentiate(alone(program.whole)), program.project)


def alone(program: Program) -> Program:
    """A typed program without plan and mesh; on one device a collective does nothing.

    Its values are those of the parallel program.
    """
    graphs = {key: _without_moves(graph) for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs, backwards={}, mesh={}, plan=None)


def _without_moves(graph: Graph) -> Graph:
    """The graph with the operand of every AR, AG, RS and A2A in the place of its result."""
    stands: dict[Value, Value] = {}
    steps: list[Apply | Call] = []
    for step in graph.steps:
        inputs = tuple(stands.get(value, value) for value in step.inputs)
        if isinstance(step, Apply) and step.op.family == FAMILY:
            stands[step.outputs[0]] = inputs[0]
        else:
            steps.append(replace(step, inputs=inputs))
    outputs = tuple(stands.get(value, value) for value in graph.outputs)
    return replace(graph, steps=tuple(steps), outputs=outputs, layouts={})
