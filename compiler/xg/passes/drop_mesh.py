"""Programs of one device: the mesh forgotten, and what plans and collectives ask for with it."""

from __future__ import annotations

from dataclasses import replace

from xg.ir.collective import FAMILY
from xg.ir.content import prune
from xg.ir.graph import Apply, Graph, Program, Step, Value


def drop_mesh(program: Program) -> Program:
    """A program without plan and mesh, and without the collectives that its file writes.

    On one device a collective does nothing: its operand takes the place of its result. Values are
    those of the parallel program.
    """
    graphs = {key: _without_moves(graph) for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs, backwards={}, mesh={}, plan=None)


def _without_moves(graph: Graph) -> Graph:
    operands: dict[Value, Value] = {}
    steps: list[Step] = []
    for step in graph.steps:
        inputs = tuple(operands.get(value, value) for value in step.inputs)
        if isinstance(step, Apply) and step.op.family == FAMILY:
            operands[step.outputs[0]] = inputs[0]
        else:
            steps.append(replace(step, inputs=inputs))
    outputs = tuple(operands.get(value, value) for value in graph.outputs)
    aliases = tuple((name, operands.get(value, value)) for name, value in graph.aliases)
    whole = replace(graph, steps=tuple(steps), outputs=outputs, aliases=aliases)
    return prune(replace(whole, layouts={}, placement_requests={}))
