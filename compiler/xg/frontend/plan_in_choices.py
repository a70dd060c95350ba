"""One plan checked against many programs that have blocks in common, each block once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field, replace

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.content import calling, content
from xg.ir.graph import Graph, Program
from xg.ir.plan import Plan, Reaches
from xg.ir.recent import Recent
from xg.passes.eliminate_dead import eliminate_dead
from xg.passes.shard import Annotator, Core, PlacedBlocks, Placer, localise
from xg.sharding.apply_plan import (
    PlanCache,
    PlannedGraph,
    PlannedValue,
    SymbolItems,
    is_about_memory,
    on_axes,
    planned_graphs,
)
from xg.sharding.check_plan import check_placed
from xg.sharding.divisibility import check_shares

GRAPHS_AT_MOST = 1_000  # with different callees, until all programs are forgotten
PLANS_AT_MOST = 100

Numbers = frozenset[tuple[str, int]]
Fine = tuple[tuple[PlannedValue, ...], SymbolItems, Numbers]


@dataclass(frozen=True, slots=True, eq=False)
class Checkable:
    """A typed program, and the same without dead steps; both share graphs with others by key."""

    typed: Program
    alive: Program


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
    """

    contents: Contents
    graphs: dict[tuple[Core, tuple[str, ...]], Graph] = field(
        default_factory=dict[tuple[Core, tuple[str, ...]], Graph]
    )
    cores: dict[str, Core] = field(default_factory=dict[str, Core])

    def checkable(self, typed: Program) -> Checkable:
        """A program with shared graphs, as it is written and without dead steps."""
        return Checkable(self.of(typed), self.of(eliminate_dead(typed)))

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


@dataclass(slots=True)
class PlanCheck:
    """A plan (None for what is parallel by hand) with all that was found to be fine under it."""

    plan: Plan | None
    shared: SharedGraphs
    cache: PlanCache = field(init=False)
    annotator: Annotator = field(init=False)
    fine: set[Fine] = field(default_factory=set[Fine])
    axes: dict[tuple[PlannedValue, ...], frozenset[str]] = field(
        default_factory=dict["tuple[PlannedValue, ...]", "frozenset[str]"]
    )
    passed: set[Hashable] = field(default_factory=set[Hashable])
    placers: dict[tuple[object, ...], Placer] = field(
        default_factory=dict[tuple[object, ...], Placer]
    )

    def __post_init__(self) -> None:
        """Share the results of a graph among those with its core."""
        reaches = Reaches()
        self.cache = PlanCache(self.shared.cores, reaches)
        self.annotator = Annotator(self.shared.cores, reaches=reaches)

    def check(self, program: Checkable) -> None:
        """Raise DiagnosticError with all that is wrong with a program under the plan.

        Nothing is known of a mesh without numbers, or of a block that the plan does not reach.
        """
        key = program.typed.entry, program.alive.entry, frozenset(program.typed.mesh.items())
        if key not in self.passed:
            self._check(program)
            self.passed.add(key)

    def _check(self, program: Checkable) -> None:
        typed = replace(program.typed, plan=self.plan)
        planned = tuple(planned_graphs(typed, self.cache))
        self._check_layouts(typed, planned)
        used = {axis for each in planned for axis in self.axes[each.planned]}
        try:
            mesh = on_axes(typed, used, places_any=bool(planned) or is_about_memory(typed)).mesh
        except DiagnosticError:
            return
        self._check_moves(replace(program.alive, plan=self.plan, mesh=mesh))

    def _check_layouts(self, typed: Program, planned: Sequence[PlannedGraph]) -> None:
        numbers = frozenset({**typed.main.sizes.defaults, **typed.numbers}.items())
        keys = {(each.planned, each.items, numbers): each for each in planned}
        new = {key: each for key, each in keys.items() if key not in self.fine}
        reached = [each for group in new.values() for each in group.placed_values()]
        check_placed(reached)
        check_shares(typed, reached)
        for each in new.values():
            cuts = (cut for value in each.planned for cut in value.cuts)
            self.axes[each.planned] = frozenset(axis for _, axes in cuts for axis in axes)
        self.fine.update(new)

    def _check_moves(self, alive: Program) -> None:
        """Raise DiagnosticError where ranks cannot compute a program in parts.

        Only where two mesh axes cut one axis does the program of a rank find more; its backward
        pass moves what the forward pass has moved, so it does not.
        """
        annotated = self.annotator.of(alive)
        key = tuple(annotated.mesh.items()), frozenset(annotated.numbers.items())
        placer = self.placers.setdefault(key, Placer(self.shared.contents.blocks))
        whole, cores = placer.check(annotated, self.annotator.cores)
        local = self.shared.contents.blocks.local
        for graph in whole.graphs.values():
            core = cores.get(graph.key)
            if core is not None and local.get(core):
                continue
            if _is_cut_twice(graph):
                localise(replace(whole, graphs={graph.key: graph}))
            if core is not None:
                local.put(core, True)


@dataclass(slots=True)
class PlanMemory:
    """Plans with what was checked under each, and the graphs that they were checked against.

    Results for single blocks are kept apart (in `contents`), because they stay valid longer than
    those for whole programs.
    """

    contents: Contents = field(default_factory=Contents)
    shared: SharedGraphs = field(init=False)
    checks: list[PlanCheck] = field(default_factory=list[PlanCheck])

    def __post_init__(self) -> None:
        """Begin with no program."""
        self.shared = SharedGraphs(self.contents)

    def check(self, plan: Plan | None) -> PlanCheck:
        """A plan with what is known to be fine under it."""
        for check in self.checks:
            if check.plan == plan:
                return check
        self.checks.append(PlanCheck(plan, self.shared))
        return self.checks[-1]

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.contents.next_round()
        if len(self.shared.graphs) > GRAPHS_AT_MOST or len(self.checks) > PLANS_AT_MOST:
            self.shared = SharedGraphs(self.contents)
            self.checks = []


def _is_cut_twice(graph: Graph) -> bool:
    """Whether an axis of some value is cut by more than one mesh axis."""
    cuts = ([s.axis for s in p.values() if s.kind == "S"] for p in graph.placements.values())
    return any(len(axes) > len(set(axes)) for axes in cuts)
