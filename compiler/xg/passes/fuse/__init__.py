"""Patterns replaced by fused operators, before the backward pass is derived.

Only emission with kernels asks for all of them, of steps also for the one of groups of heads, and a
plan for the one that goes round a ring. An
edge that is read twice or leaves its block stays.
"""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.graph import Graph, Program
from xg.passes.fuse.grouped_attention import group
from xg.passes.fuse.patterns import fusions
from xg.passes.fuse.replacing import replaced
from xg.passes.fuse.ring_attention import ring

__all__ = ["fuse", "group", "ring"]


def fuse(program: Program) -> Program:
    """The program with fused forward graphs."""
    graphs = {key: _fused(graph) for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs, backwards={})


def _fused(graph: Graph) -> Graph:
    """A graph with every pattern replaced, each kind of fusion in turn."""
    for fusion in fusions():
        graph = replaced(graph, fusion)
    return graph
