"""A plan applied to a typed program: every value that it reaches, and its placement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import Dim
from xg.ir.graph import Graph, Program, Value
from xg.ir.instances import Symbols, inside
from xg.ir.plan import EVERY, INSIDE, ROUNDS, WHOLE, Entry, Memory
from xg.ir.walk import callees_first, level_by_level
from xg.sharding.errors import NoMeshSize, PlanOfNothing
from xg.sharding.placing import Placing, placing, sized
from xg.sharding.reach import Reach, Reaches, placements_of


@dataclass(frozen=True, eq=False)
class PlannedValue:
    """The entries of a plan for one value of a graph, wherever that is called."""

    graph: Graph
    value: Value
    entries: tuple[Entry, ...]

    @cached_property
    def placing(self) -> Placing:
        """The placement; raises Misfit and Clash."""
        return placing(self.entries, self.graph.types[self.value].shape, self.graph.sizes)

    @cached_property
    def cuts(self) -> tuple[tuple[Dim, tuple[str, ...]], ...]:
        """Every size that is sharded, undivided, with the mesh axes that shard it."""
        shape = self.graph.types[self.value].shape
        return (*sized(shape, self.placing.rest), *sized(shape, self.placing.use))


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A planned value in one call; `symbols` are its graph's in the sizes of the entry."""

    planned: PlannedValue
    symbols: Symbols


Graphs = Mapping[str, Graph]
SymbolItems = frozenset[tuple[str, Dim]]


@dataclass(frozen=True, slots=True)
class PlannedGraph:
    """The planned values of a graph in one call; `items` are those of the symbols, hashable."""

    planned: tuple[PlannedValue, ...]
    symbols: Symbols
    items: SymbolItems

    def placed_values(self) -> Iterator[PlacedValue]:
        """Each of its values."""
        return (PlacedValue(planned, self.symbols) for planned in self.planned)


def entries_of(graph: Graph, reach: Reach) -> dict[Value, tuple[Entry, ...]]:
    """The entries of a reach for the values of a graph, under each name that they have."""
    if not reach.here:
        return {}
    params = {param.value for param in graph.params}
    last: dict[str, list[Entry]] = {}  # those that end here, so that each is looked at once
    for entry in reach.here:
        if len(entry.path) == 1:
            last.setdefault(entry.path[0], []).append(entry)
    by_value: dict[Value, tuple[Entry, ...]] = {}
    for name, value in graph.names():
        near = (*last.get(name, ()), *last.get(EVERY, ()))
        entries = placements_of(near, is_param=value in params)
        if entries:
            by_value[value] = tuple(dict.fromkeys((*by_value.get(value, ()), *entries)))
    return by_value


def memory_of(graph: Graph, reach: Reach) -> dict[str, Memory]:
    """Whether a reach has a graph's values computed again, by name, and all of them.

    Where plans differ, a value is kept. In a call that a computed one makes, what is gathered and
    not held stays from its forward pass, which runs again, to its backward pass.
    """
    memory: dict[str, Memory] = {}
    inside = any(entry.path == (INSIDE,) for entry in reach.here)
    for value, entries in entries_of(graph, reach).items():
        words: set[Memory] = {entry.memory for entry in entries if entry.memory}
        words.discard("zigzag")
        if inside and any(entry.use for entry in entries):
            words &= {"hold"}
        if words:
            memory[str(value.name)] = words.pop() if len(words) == 1 else "keep"
    if any(entry.path == (WHOLE,) and entry.memory == "again" for entry in reach.here):
        memory[WHOLE] = "again"
    return memory


@dataclass(slots=True)
class PlannedGraphs:
    """Facts about graphs under any plan, each once.

    A graph is identified by its key: programs may share this where one key is one graph in all. Of
    graphs with the same number in `cores` the entries are the same: they differ in their callees.
    """

    cores: Mapping[str, int] = field(default_factory=dict[str, int])
    values: dict[tuple[str | int, tuple[Entry, ...]], tuple[PlannedValue, ...]] = field(
        default_factory=dict[tuple[str | int, tuple[Entry, ...]], tuple[PlannedValue, ...]]
    )
    symbols: dict[tuple[str, SymbolItems], tuple[tuple[Symbols, SymbolItems], ...]] = field(
        default_factory=dict["tuple[str, SymbolItems]", "tuple[tuple[Symbols, SymbolItems], ...]"]
    )

    def of(self, graph: Graph, reach: Reach) -> tuple[PlannedValue, ...]:
        """The entries of a reach for the values of a graph."""
        if not reach.here:
            return ()
        key = self.cores.get(graph.key, graph.key), reach.here
        if key not in self.values:
            entries = entries_of(graph, reach).items()
            self.values[key] = tuple(PlannedValue(graph, *each) for each in entries)
        return self.values[key]

    def inside(
        self, graphs: Graphs, graph: Graph, symbols: Symbols, items: SymbolItems
    ) -> tuple[tuple[Symbols, SymbolItems], ...]:
        """The symbols of every call of a graph that has these symbols, in order."""
        key = graph.key, items
        if key not in self.symbols:
            below = [inside(each, graph, graphs[each.callee], symbols) for each in graph.calls]
            self.symbols[key] = tuple((each, frozenset(each.items())) for each in below)
        return self.symbols[key]


@dataclass(slots=True)
class PlanCache:
    """The entries of one plan for graphs and for the calls in them, each computed once."""

    shared: PlannedGraphs = field(default_factory=PlannedGraphs)
    reaches: Reaches = field(default_factory=Reaches)
    calls: dict[tuple[str, Reach], tuple[Reach, ...]] = field(
        default_factory=dict[tuple[str, Reach], tuple[Reach, ...]]
    )
    axes: dict[tuple[str, Reach], frozenset[str] | None] = field(
        default_factory=dict[tuple[str, Reach], "frozenset[str] | None"]
    )

    def of(self, graph: Graph, reach: Reach) -> tuple[PlannedValue, ...]:
        """The entries of a reach for the values of a graph."""
        return self.shared.of(graph, reach)

    def inside(self, graphs: Graphs, graph: Graph, reach: Reach) -> tuple[Reach, ...]:
        """The reach of every call of a graph, in order."""
        key = graph.key, reach
        if key not in self.calls:
            calls = ((graphs[call.callee], call) for call in graph.calls)
            self.calls[key] = tuple(
                self.reaches.inside(
                    reach, callee.block_id, call.path, repeated=call.count is not None
                )
                for callee, call in calls
            )
        return self.calls[key]

    def axes_below(self, program: Program) -> frozenset[str] | None:
        """The mesh axes that the program's plan cuts values over; None if it places no value."""
        reach = self.reaches.of(program.plan, program.main.block_id)
        return self.axes_of(program.graphs, program.entry, reach)

    def axes_of(self, graphs: Graphs, key: str, reach: Reach) -> frozenset[str] | None:
        """The same of one of its graphs under a reach."""
        start = key, reach

        def below(use: tuple[str, Reach]) -> list[tuple[str, Reach]]:
            graph = graphs[use[0]]
            reaches = self.inside(graphs, graph, use[1])
            return list(zip((call.callee for call in graph.calls), reaches, strict=True))

        def new(use: tuple[str, Reach]) -> Iterable[tuple[str, Reach]]:
            return (each for each in below(use) if each not in self.axes)

        for use in callees_first([start], new) if start not in self.axes else ():
            planned = self.of(graphs[use[0]], use[1])
            own = {axis for value in planned for _, axes in value.cuts for axis in axes}
            axes = [each for each in map(self.axes.__getitem__, below(use)) if each is not None]
            self.axes[use] = frozenset(own).union(*axes) if planned or axes else None
        return self.axes[start]


def placed_values(program: Program) -> Iterator[PlacedValue]:
    """Every value that the program's plan places, in every call; callers first."""
    cache = PlanCache()
    uses = reached_graphs(entered(program, cache), program.graphs, cache)
    for planned in planned_graphs(uses, cache):
        yield from planned.placed_values()


@dataclass(frozen=True, slots=True)
class ReachedGraph:
    """A graph as one call runs it, under a plan."""

    graph: Graph
    symbols: Symbols
    items: SymbolItems
    reach: Reach

    def key(self) -> tuple[str, SymbolItems, Reach]:
        """The identity of a use: equal ones have equal plans."""
        return self.graph.key, self.items, self.reach


def entered(program: Program, cache: PlanCache) -> list[ReachedGraph]:
    """The entries of a program under its plan; none if it has no plan."""
    mains = [program.graphs[key] for key in program.entries] if program.plan else []
    reaches = [cache.reaches.of(program.plan, main.block_id) for main in mains]
    return [ReachedGraph(main, {}, frozenset(), r) for main, r in zip(mains, reaches, strict=True)]


def reached_graphs(
    starts: Iterable[ReachedGraph], graphs: Graphs, cache: PlanCache
) -> Iterator[ReachedGraph]:
    """Some graphs and all that they call, in every call that a plan tells apart; callers first."""
    return level_by_level(
        starts, lambda use: reached_calls(use, graphs, cache), key=ReachedGraph.key
    )


def planned_graphs(uses: Iterable[ReachedGraph], cache: PlanCache) -> Iterator[PlannedGraph]:
    """Those of which the plan places values."""
    for use in uses:
        planned = cache.of(use.graph, use.reach)
        if planned:
            yield PlannedGraph(planned, use.symbols, use.items)


def reached_calls(use: ReachedGraph, graphs: Graphs, cache: PlanCache) -> Iterator[ReachedGraph]:
    """The graphs that a graph calls, in order."""
    reaches = cache.inside(graphs, use.graph, use.reach)
    symbols = cache.shared.inside(graphs, use.graph, use.symbols, use.items)
    for call, reach, named in zip(use.graph.calls, reaches, symbols, strict=True):
        yield ReachedGraph(graphs[call.callee], *named, reach)


def with_mesh(program: Program) -> Program:
    """The program on the mesh axes that shard something in it, which must have sizes.

    Raises DiagnosticError for an axis without a size, and for a plan that places nothing.
    """
    reached = list(placed_values(program))
    used = {axis for each in reached for _, axes in each.planned.cuts for axis in axes}
    return on_axes(program, used, places_any=bool(reached) or is_about_calls(program))


def is_about_calls(program: Program) -> bool:
    """Whether the plan says of a block what is computed again, or of the entry its stages."""
    blocks = {graph.block_id for graph in program.graphs.values()}
    entries = program.plan.entries if program.plan else ()
    main = program.main.block_id
    return any(
        (entry.memory and entry.block in blocks)
        or (entry.path[-1] == ROUNDS and entry.block == main)
        for entry in entries
    )


def on_axes(program: Program, used: Iterable[str], *, places_any: bool) -> Program:
    """The result of `with_mesh`, given the axes of the plan and whether it places any value."""
    layouts = [cuts for graph in program.graphs.values() for cuts in graph.layouts.values()]
    needed = {*used, *(axis for cuts in layouts for axis in cuts)}
    plan = program.plan
    if plan is not None and not places_any:
        blocks = dict.fromkeys(entry.block[1] for entry in plan.entries)
        raise DiagnosticError.of(PlanOfNothing(plan.name, program.main.block, tuple(blocks)))
    missing = sorted(needed - program.mesh.keys())
    if missing:
        raise DiagnosticError.of(*(NoMeshSize(axis) for axis in missing))
    return replace(program, mesh={a: size for a, size in program.mesh.items() if a in needed})
