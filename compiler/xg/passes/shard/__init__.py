"""Programs of many ranks: where every value lies, what is sent, and the program of one rank.

    wish        asks plans and shapes where every value is to lie
    elaborate   inserts casts and collectives into the forward pass, one mesh axis after the other
    (differentiate as ever: on whole tensors every move is the identity, its transpose a move)
    check       types both passes once more and holds gradients to be dual
    localise    writes the program of one rank

Source: docs/parallel.md; the states are those of `xg.ir.placement`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xg.ir.graph import Apply, Call, Graph, Program
from xg.passes.shard.annotate import wish
from xg.passes.shard.block import TornApart
from xg.passes.shard.check import Unsound
from xg.passes.shard.check import check as check_axis
from xg.passes.shard.elaborate import elaborate, refuse_left_over
from xg.passes.shard.localise import localise
from xg.sharding.divisibility import check_parts

__all__ = ["Unsound", "check", "place", "rank_program", "wish"]


def place(program: Program) -> Program:
    """The whole program with its moves, on every axis of its mesh; raises DiagnosticError."""
    graphs = {key: _knowing(graph, program) for key, graph in program.graphs.items()}
    whole = replace(program, graphs=graphs, numbers={**program.numbers, **program.mesh})
    while True:
        try:
            program = _elaborated(whole)
            break
        except TornApart as torn:
            whole = _taken_apart(whole, torn.parts)
    refuse_left_over(program)
    check_parts(program)
    return program


def _elaborated(program: Program) -> Program:
    for axis in program.mesh:
        program = elaborate(program, axis)
    return program


def _taken_apart(program: Program, parts: tuple[Apply, ...]) -> Program:
    """The program with the steps that a fused one stands for in its place."""

    def steps(graph: Graph) -> Iterator[Apply | Call]:
        for step in graph.steps:
            fused = isinstance(step, Apply) and step.parts == parts
            yield from parts if fused else (step,)

    graphs = {key: replace(g, steps=tuple(steps(g))) for key, g in program.graphs.items()}
    return replace(program, graphs=graphs)


def check(program: Program) -> Program:
    """A placed program that was differentiated, its backward placed as well; raises Unsound."""
    for axis in program.mesh:
        program = check_axis(program, axis)
    return program


def rank_program(program: Program) -> Program:
    """The program of one rank, of a placed program that was checked."""
    for axis in program.mesh:
        program = localise(program, axis)
    return program


def _knowing(graph: Graph, program: Program) -> Graph:
    """A graph that knows the numbers of the mesh as it knows those of sizes."""
    defaults = {**graph.sizes.defaults, **program.mesh}
    return replace(graph, sizes=replace(graph.sizes, defaults=defaults, mesh=tuple(program.mesh)))
