"""Programs of many choices of options, with graphs in common: equal graphs become one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from functools import cached_property

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.content import calling, content
from xg.ir.graph import Graph, Program
from xg.ir.recent import Recent
from xg.passes.eliminate_dead import eliminate_dead
from xg.passes.shard import Core, PlacedBlocks, PlannedRequests
from xg.sharding.apply_plan import PlannedGraphs, PlannedValue, SymbolItems

Numbers = tuple[frozenset[tuple[str, int]], tuple[tuple[str, int], ...]]  # of sizes and of the mesh
Fine = tuple[tuple[PlannedValue, ...], SymbolItems, Numbers]


@dataclass(slots=True)
class Contents:
    """The cores of typed graphs, by what they say, and the first graph of each."""

    blocks: PlacedBlocks = field(default_factory=PlacedBlocks)
    read: Recent[int, tuple[Graph, Core, Graph]] = field(
        default_factory=Recent[int, tuple[Graph, Core, Graph]]
    )
    first: Recent[Hashable, tuple[Core, Graph]] = field(
        default_factory=Recent[Hashable, tuple[Core, Graph]]
    )

    def core(self, graph: Graph) -> tuple[Core, Graph]:
        """The core of a graph, and the first graph that had it."""
        graphs = self.read.get(id(graph))
        if graphs is None:
            said = content(graph)
            first = self.first.get(said)
            if first is None:
                first = self.first.put(said, (self.blocks.new_core(), graph))
            graphs = self.read.put(id(graph), (graph, *first))
        return graphs[1], graphs[2]

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.blocks.next_round()
        self.read.next_round()
        self.first.next_round()


@dataclass(slots=True)
class SharedGraphs:
    """Graphs of many programs, of which equal ones become one.

    Choices of options that a block does not distinguish give it equal graphs. Those that differ
    only in their callees have one core (by key in `cores`), the same values and the same steps.
    `planned`, `requests` and `fine` are what was found of them under plans, of which many say the
    same of a graph.
    """

    contents: Contents
    graphs: dict[tuple[Core, tuple[str, ...]], Graph] = field(
        default_factory=dict[tuple[Core, tuple[str, ...]], Graph]
    )
    cores: dict[str, Core] = field(default_factory=dict[str, Core])
    planned: PlannedGraphs = field(init=False)
    requests: PlannedRequests = field(default_factory=PlannedRequests)
    fine: set[Fine] = field(default_factory=set[Fine])

    def __post_init__(self) -> None:
        """Begin with no graph under a plan."""
        self.planned = PlannedGraphs(self.cores)

    def of(self, program: Program) -> Program:
        """The program with shared graphs; a key then means one graph in all programs."""
        names: dict[str, str] = {}
        graphs: dict[str, Graph] = {}
        for key, graph in program.graphs.items():  # callees first
            calls = graph.calls
            shared = self._shared(graph, tuple(names[call.callee] for call in calls))
            names[key] = shared.key
            graphs[shared.key] = shared
        return replace(program, graphs=graphs, entry=names[program.entry])

    def _shared(self, graph: Graph, callees: tuple[str, ...]) -> Graph:
        """The graph of all programs that says the same and calls these."""
        core, first = self.contents.core(graph)
        if (core, callees) not in self.graphs:
            key = f"{graph.key} ~{len(self.graphs)}"
            self.graphs[core, callees] = calling(first, key, callees)
            self.cores[key] = core
        return self.graphs[core, callees]


@dataclass(frozen=True, eq=False)
class Checkable:
    """A program to be checked under plans; its graphs are shared when the first one asks for it.

    `choice` is its block with the options that are chosen.
    """

    program: Program
    choice: Hashable
    shared: SharedGraphs

    @cached_property
    def typed(self) -> Program:
        """The program as it is written; shares graphs with others by key."""
        return self.shared.of(self.program)

    @cached_property
    def alive(self) -> Program:
        """The program without dead steps; shares graphs with others by key."""
        return self.shared.of(eliminate_dead(self.program))

    @cached_property
    def said_of_ranks(self) -> tuple[object, ...]:
        """All that a plan depends on beside its lines: blocks, and shapes that name ranks."""
        graphs = self.program.graphs.values()
        cuts = {axis for graph in graphs for cuts in graph.layouts.values() for axis in cuts}
        return {graph.block_id for graph in graphs}, cuts, tuple(self.program.mesh.items())

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of its sizes and of its mesh axes."""
        return frozenset(self.program.all_numbers.items()), tuple(self.program.mesh.items())
