"""Graphs that were typed before: equal graphs, whose callees look the same, have equal types."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.content import Recent
from xg.ir.graph import Graph
from xg.ir.tensor import TensorType

Freed = frozenset[str]


@dataclass(frozen=True, slots=True)
class Signature:
    """The facts about a callee that a call needs."""

    block: str
    sizes: Hashable
    inputs: tuple[tuple[str | None, TensorType | None], ...]
    outputs: tuple[TensorType, ...]
    params: tuple[tuple[str | None, TensorType], ...]


@dataclass(frozen=True, slots=True)
class Typed:
    """An untyped graph with the signatures of its callees, and what was made of it."""

    source: Graph
    freed: Freed
    callees: tuple[Signature, ...]
    graph: Graph
    asked: tuple[tuple[str, Freed], ...]


@dataclass(slots=True)
class TypedGraphs:
    """Typed graphs by the untyped ones; none of them has errors."""

    known: Recent[int, list[Typed]] = field(default_factory=Recent[int, "list[Typed]"])
    signatures: Recent[int, tuple[Graph, Signature]] = field(
        default_factory=Recent[int, "tuple[Graph, Signature]"]
    )

    def find(self, source: Graph, freed: Freed, graphs: Mapping[str, Graph]) -> Typed | None:
        """The same graph as it was typed before, if it was."""
        for typed in self.known.get(id(source)) or ():
            if typed.freed == freed and typed.callees == self._callees(source, graphs):
                return typed
        return None

    def keep(
        self,
        source: Graph,
        freed: Freed,
        graphs: Mapping[str, Graph],
        graph: Graph,
        asked: list[tuple[str, Freed]],
    ) -> None:
        """Remember a graph that was typed without errors."""
        entries = self.known.get(id(source)) or self.known.put(id(source), [])
        callees = self._callees(source, graphs)
        entries.append(Typed(source, freed, callees, graph, tuple(asked)))

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.known.next_round()
        self.signatures.next_round()

    def _callees(self, source: Graph, graphs: Mapping[str, Graph]) -> tuple[Signature, ...]:
        calls = source.calls
        return tuple(self._signature(graphs[call.callee]) for call in calls)

    def _signature(self, graph: Graph) -> Signature:
        graphs = self.signatures.get(id(graph))
        if graphs is None:
            graphs = self.signatures.put(id(graph), (graph, _signature(graph)))
        return graphs[1]


def _signature(graph: Graph) -> Signature:
    return Signature(
        block=graph.block,
        sizes=graph.sizes.structure(),
        inputs=tuple((value.name, value.declared) for value in graph.inputs),
        outputs=graph.output_types,
        params=tuple((param.value.name, param.type) for param in graph.params),
    )
