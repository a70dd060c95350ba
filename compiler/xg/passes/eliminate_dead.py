"""Remove steps that reach no output, and with them the parameters that nothing reads.

A choice of options leaves such steps behind: a table of learned positions that only another choice
adds. They were typed before, so their errors are found all the same.
"""

from __future__ import annotations

from dataclasses import replace

from xg.ir.content import prune
from xg.ir.graph import Apply, Call, Graph, Program
from xg.ir.walk import reached


def eliminate_dead(program: Program) -> Program:
    """The program without dead steps, and without the graphs that only these call.

    A call stays while a step reads a parameter of it. Where that step goes, the call may follow.
    """
    while True:
        lent = _lent(program)
        alive = {key: _alive(graph, lent) for key, graph in program.graphs.items()}
        same = all(alive[key] is graph for key, graph in program.graphs.items())
        program = replace(
            program, graphs={key: alive[key] for key in reached(alive, program.entry)}
        )
        if same:
            return program


def _lent(program: Program) -> set[tuple[str, str]]:
    """Graph and name of the parameters that a caller reads too."""
    lent: set[tuple[str, str]] = set()
    for graph in program.graphs.values():
        callees = {step.path: step.callee for step in graph.calls}
        for value in graph.foreign:
            path, _, name = str(value.name).partition(".")
            lent.add((callees[path], name))
    return lent


def _alive(graph: Graph, lent: set[tuple[str, str]]) -> Graph:
    """The graph with the steps that its outputs need."""
    needed = set(graph.outputs)
    paths = {str(value.name).partition(".")[0] for value in graph.foreign}
    steps: list[Apply | Call] = []
    for step in reversed(graph.steps):
        lends = isinstance(step, Call) and step.path in paths
        if lends or any(value in needed for value in step.outputs):
            needed.update(step.inputs)
            steps.append(step)
    if len(steps) == len(graph.steps):
        return graph
    alive = replace(
        graph,
        steps=tuple(reversed(steps)),
        params=tuple(
            param
            for param in graph.params
            if param.value in needed or (graph.key, str(param.value.name)) in lent
        ),
        foreign=tuple(value for value in graph.foreign if value in needed),
    )
    return prune(alive)
