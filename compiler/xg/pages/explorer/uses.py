"""The blocks of a program as a page shows them: each once, where it is used first."""

from __future__ import annotations

from collections.abc import Iterator

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Backward, Call, Graph, Program, Step, Value
from xg.ir.instances import Symbols, inside


@dataclass(frozen=True, slots=True)
class BlockUse:
    """A block where it is first called: the place among all blocks, its graph, its sizes there.

    `path` is how the calls lead there: `layers.0.attn`; the entry has the empty path.
    """

    place: int
    graph: Graph
    backward: Backward
    symbols: Symbols
    path: str

    def steps(self) -> Iterator[tuple[str, Step]]:
        """Every step of both passes with its id."""
        for number, step in enumerate(self.graph.steps):
            yield f"{self.place}.f{number}", step
        for number, step in enumerate(self.backward.steps):
            yield f"{self.place}.b{number}", step

    def values(self) -> Iterator[Value]:
        """Every tensor of both passes, in the order in which a reader meets it."""
        yield from self.graph.inputs
        yield from self.graph.param_values()
        yield from (value for step in self.graph.steps for value in step.outputs)
        yield from self.backward.cotangents.values()
        yield from (value for step in self.backward.steps for value in step.outputs)


def block_uses(program: Program) -> list[BlockUse]:
    """The entry first, then what it calls, callers before callees."""
    found: dict[str, BlockUse] = {}
    waiting: list[tuple[Graph, Symbols, str]] = [(program.main, {}, "")]
    while waiting:
        graph, symbols, path = waiting.pop(0)
        if graph.key in found:
            continue
        backward = program.backwards[graph.key]
        found[graph.key] = BlockUse(len(found), graph, backward, symbols, path)
        for call in graph.steps:
            if isinstance(call, Call):
                callee = program.graphs[call.callee]
                below = call.path if call.count is None else f"{call.path}.0"
                inner = inside(call, graph, callee, symbols)
                waiting.append((callee, inner, f"{path}.{below}".lstrip(".")))
    return list(found.values())
