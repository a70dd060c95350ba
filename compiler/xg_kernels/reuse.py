"""Values that the step that reads them may write into, recorded for kernels that work in place."""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.graph import Program
from xg.ir.verify import Reuse


def reuse(program: Program) -> Program:
    """The program whose graphs name these values; it runs after every pass that adds a reader."""
    graphs = {
        key: replace(graph, reusable=Reuse.of(program, graph).values())
        for key, graph in program.graphs.items()
    }
    backwards = {
        key: replace(backward, forward=graphs[key], reusable=Reuse.of(program, backward).values())
        for key, backward in program.backwards.items()
    }
    return replace(program, graphs=graphs, backwards=backwards)
