"""Patterns replaced by fused operators, before the backward pass is derived; one module each.

Every module here has one `FUSION`. They are discovered, and tried in the order of names, after
attention, which the core has for ring attention. Emission with kernels asks for all of them. An
edge that is read twice or leaves its block stays.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.graph import Graph, IRProgram
from xg.passes.ring import attention
from xg.passes.ring.attention import Fusion, apply_fusion


@cache
def fusions() -> tuple[Fusion, ...]:
    """All fusions, in the order in which they are tried."""
    names = sorted(info.name for info in iter_modules(__path__))
    return (attention.FUSION, *(import_module(f"{__name__}.{name}").FUSION for name in names))


def fuse(program: IRProgram) -> IRProgram:
    """The program with fused forward graphs."""
    graphs = {key: _replace_patterns(graph) for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs, backwards={})


def _replace_patterns(graph: Graph) -> Graph:
    """A graph with every pattern replaced, each kind of fusion in turn."""
    for fusion in fusions():
        graph = apply_fusion(graph, fusion)
    return graph
