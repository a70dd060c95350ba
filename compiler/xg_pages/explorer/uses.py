"""The blocks of a program as a page shows them: each once, where it is used first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Backward, Graph, Program, Step, Value
from xg.ir.parameters import CallSite, entry
from xg.ir.walk import Symbols, level_by_level


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

    def below(site: CallSite) -> Iterator[CallSite]:
        for call in site.graph.calls:
            inner = site.enter(call, program.graphs)
            yield inner if call.count is None else replace(inner, path=f"{inner.path}.0")

    sites = level_by_level([entry(program)], below, lambda site: site.graph.key)
    return [
        BlockUse(place, site.graph, program.backwards[site.graph.key], site.symbols, site.path)
        for place, site in enumerate(sites)
    ]
