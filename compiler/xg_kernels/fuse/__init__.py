"""Patterns replaced by fused operators, before the backward pass is derived.

Emission with kernels asks for all of them, and for a step also for grouped heads. An edge that is
read twice or leaves its block stays.
"""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.graph import Graph, IRProgram
from xg.passes.ring.attention import apply_fusion
from xg_kernels.fuse.grouped_attention import group
from xg_kernels.fuse.patterns import fusions

__all__ = ["fuse", "group"]


def fuse(program: IRProgram) -> IRProgram:
    """The program with fused forward graphs."""
    graphs = {key: _replace_patterns(graph) for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs, backwards={})


def _replace_patterns(graph: Graph) -> Graph:
    """A graph with every pattern replaced, each kind of fusion in turn."""
    for fusion in fusions():
        graph = apply_fusion(graph, fusion)
    return graph
