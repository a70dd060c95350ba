"""Programs of many ranks: where every value lies, what is sent, and the program of one rank.

    wish        asks plans and shapes where every value is to lie
    elaborate   inserts casts and collectives into the forward pass, one mesh axis after the other
    (differentiate as ever: on whole tensors every move is the identity, its transpose a move)
    check       types both passes once more and holds gradients to be dual
    localise    writes the program of one rank

Source: docs/parallel.md; the states are those of `xg.placement`.
"""

from __future__ import annotations

from dataclasses import replace

from xg.graph import Graph, Program
from xg.passes.shard.check import Unsound, check
from xg.passes.shard.elaborate import elaborate, refuse_left_over
from xg.passes.shard.localise import localise
from xg.passes.shard.wishes import wish
from xg.shares import check_parts

__all__ = ["Unsound", "place", "rank_program", "wish"]


def place(program: Program) -> Program:
    """The whole program with its moves, on every axis of its mesh; raises DiagnosticError."""
    graphs = {key: _knowing(graph, program) for key, graph in program.graphs.items()}
    program = replace(program, graphs=graphs, numbers={**program.numbers, **program.mesh})
    for axis in program.mesh:
        program = elaborate(program, axis)
    refuse_left_over(program)
    check_parts(program)
    return program


def rank_program(program: Program) -> Program:
    """The program of one rank, of a placed program that was differentiated; raises Unsound."""
    for axis in program.mesh:
        program = check(program, axis)
    for axis in program.mesh:
        program = localise(program, axis)
    return program


def _knowing(graph: Graph, program: Program) -> Graph:
    """A graph that knows the numbers of the mesh as it knows those of sizes."""
    defaults = {**graph.sizes.defaults, **program.mesh}
    return replace(graph, sizes=replace(graph.sizes, defaults=defaults, mesh=tuple(program.mesh)))
