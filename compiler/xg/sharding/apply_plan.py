"""Apply a plan to a typed program: place values, cut rows of calls, check its lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import Dim
from xg.ir.graph import Call, Graph, IRProgram, Value
from xg.ir.placement import EVERY, INSIDE, ROUNDS, WHOLE, Entry, Memory, Plan, Schedule
from xg.ir.size_checks import value_of
from xg.ir.tensor import spell_shape
from xg.ir.walk import Symbols, callees_first, inside, level_by_level
from xg.sharding.errors import (
    NoMeshSize,
    NotDivisible,
    OneRowOnly,
    PartsInTurns,
    PlacedTwice,
    PlanMisfit,
    PlanOfNothing,
    RowMisfit,
    ScheduleOfNothing,
    TwoSchedules,
)
from xg.sharding.local import (
    Clash,
    Misfit,
    Placing,
    Reach,
    cut_sizes,
    placements_of,
    placing,
    reach_of,
)


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
        return (*cut_sizes(shape, self.placing.rest), *cut_sizes(shape, self.placing.use))


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A planned value in one call; `symbols` are its graph's in the sizes of the entry."""

    planned: PlannedValue
    symbols: Symbols


Graphs = Mapping[str, Graph]
SymbolItems = frozenset[tuple[str, Dim]]


@dataclass(frozen=True, slots=True)
class PlannedGraph:
    """The planned values of a graph in one call; `items` are its symbols, hashable."""

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

    def of(self, graph: Graph, reach: Reach) -> tuple[PlannedValue, ...]:
        """The entries of a reach for the values of a graph."""
        if not reach.here:
            return ()
        key = self.cores.get(graph.key, graph.key), reach.here
        if key not in self.values:
            entries = entries_of(graph, reach).items()
            self.values[key] = tuple(PlannedValue(graph, *each) for each in entries)
        return self.values[key]


@dataclass(slots=True)
class PlanCache:
    """The entries of one plan for graphs and for the calls in them, each computed once."""

    shared: PlannedGraphs = field(default_factory=PlannedGraphs)
    axes: dict[tuple[str, Reach], frozenset[str] | None] = field(
        default_factory=dict[tuple[str, Reach], "frozenset[str] | None"]
    )

    def of(self, graph: Graph, reach: Reach) -> tuple[PlannedValue, ...]:
        """The entries of a reach for the values of a graph."""
        return self.shared.of(graph, reach)

    def axes_below(self, program: IRProgram) -> frozenset[str] | None:
        """The mesh axes that the program's plan cuts values over; None if it places no value."""
        reach = reach_of(program.plan, program.main.block_id)
        return self.axes_of(program.graphs, program.entry, reach)

    def axes_of(self, graphs: Graphs, key: str, reach: Reach) -> frozenset[str] | None:
        """The same of one of its graphs under a reach."""
        start = key, reach

        def below(use: tuple[str, Reach]) -> list[tuple[str, Reach]]:
            graph = graphs[use[0]]
            return [(c.callee, reach_inside(use[1], c, graphs[c.callee])) for c in graph.calls]

        def new(use: tuple[str, Reach]) -> Iterable[tuple[str, Reach]]:
            return (each for each in below(use) if each not in self.axes)

        for use in callees_first([start], new) if start not in self.axes else ():
            planned = self.of(graphs[use[0]], use[1])
            own = {axis for value in planned for _, axes in value.cuts for axis in axes}
            axes = [each for each in map(self.axes.__getitem__, below(use)) if each is not None]
            self.axes[use] = frozenset(own).union(*axes) if planned or axes else None
        return self.axes[start]


def placed_values(program: IRProgram) -> Iterator[PlacedValue]:
    """Every value that the program's plan places, in every call; callers first."""
    cache = PlanCache()
    uses = reached_graphs(entry_graphs(program), program.graphs)
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


def entry_graphs(program: IRProgram) -> list[ReachedGraph]:
    """The entries of a program under its plan; none if it has no plan."""
    mains = [program.graphs[key] for key in program.entries] if program.plan else []
    return [
        ReachedGraph(main, {}, frozenset(), reach_of(program.plan, main.block_id)) for main in mains
    ]


def reached_graphs(starts: Iterable[ReachedGraph], graphs: Graphs) -> Iterator[ReachedGraph]:
    """Some graphs and all that they call, in every call that a plan tells apart; callers first."""
    return level_by_level(starts, lambda use: reached_calls(use, graphs), key=ReachedGraph.key)


def planned_graphs(uses: Iterable[ReachedGraph], cache: PlanCache) -> Iterator[PlannedGraph]:
    """Yield the planned values of each use in which the plan places any."""
    for use in uses:
        planned = cache.of(use.graph, use.reach)
        if planned:
            yield PlannedGraph(planned, use.symbols, use.items)


def reached_calls(use: ReachedGraph, graphs: Graphs) -> Iterator[ReachedGraph]:
    """The graphs that a graph calls, in order."""
    for call in use.graph.calls:
        callee = graphs[call.callee]
        symbols = inside(call, use.graph, callee, use.symbols)
        reach = reach_inside(use.reach, call, callee)
        yield ReachedGraph(callee, symbols, frozenset(symbols.items()), reach)


def reach_inside(reach: Reach, call: Call, callee: Graph) -> Reach:
    """The entries that reach into a call of a graph."""
    return reach.inside(callee.block_id, call.path, repeated=call.count is not None)


def with_mesh(program: IRProgram) -> IRProgram:
    """The program on the mesh axes that shard something in it, which must have sizes.

    Raises DiagnosticError for an axis without a size, and for a plan that places nothing.
    """
    reached = list(placed_values(program))
    used = {axis for each in reached for _, axes in each.planned.cuts for axis in axes}
    return on_axes(program, used, places_any=bool(reached) or is_about_calls(program))


def is_about_calls(program: IRProgram) -> bool:
    """Whether the plan says of a block what is computed again, or of the entry its stages."""
    blocks = {graph.block_id for graph in program.graphs.values()}
    entries = program.plan.entries if program.plan else ()
    main = program.main.block_id
    return any(
        (entry.memory and entry.block in blocks)
        or (entry.path[-1] == ROUNDS and entry.block == main)
        for entry in entries
    )


def on_axes(program: IRProgram, used: Iterable[str], *, places_any: bool) -> IRProgram:
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


# The row of calls that a plan shares among the stages of a pipeline: `layers [N_L/N_P]`.


@dataclass(frozen=True, slots=True)
class CutRow:
    """A row of calls of the entry block, and the mesh axis whose ranks share its rounds.

    `ranks` and `rounds` are None where the axis or the row has no number; `schedule` is what the
    plan says about the order of its stages.
    """

    call: Call
    axis: str
    ranks: int | None
    rounds: int | None
    schedule: Schedule | None

    @property
    def turns(self) -> int:
        """The stages of a rank."""
        return self.schedule.turns if self.schedule else 1


def cut_row(program: IRProgram) -> CutRow | None:
    """The row that the program's plan shares among stages, if any.

    Raises DiagnosticError where the plan does not fit the row, or its numbers do not divide.
    """
    entries, schedules = tuple(_entries(program)), tuple(_schedules(program))
    if not entries:
        if schedules:
            raise DiagnosticError.of(ScheduleOfNothing(schedules[0].span, program.main.block))
        return None
    problems: dict[Problem, None] = {}
    for other in schedules[1:]:
        problems[TwoSchedules(other.span, schedules[0].span)] = None
    rows: dict[str, CutRow] = {}
    for entry in entries:
        row = _row(program, entry, schedules[0] if schedules else None)
        if row is None:
            problems[RowMisfit(entry.span, entry.path[0], program.main.block, str(entry.rest))] = (
                None
            )
            continue
        rows.setdefault(entry.path[0], row)
        if len(rows) > 1 or row.axis != rows[entry.path[0]].axis:
            problems[OneRowOnly(entry.span, entry.path[0], entries[0].span)] = None
        else:
            problems |= dict.fromkeys(_uneven(row, entry))
    if problems:
        raise DiagnosticError.of(*problems)
    return next(iter(rows.values()))


def check_row(program: IRProgram, plan: Plan | None) -> None:
    """Raise what `cut_row` raises of a program under a plan; most plans say nothing of rows."""
    if plan and (plan.schedules or any(entry.path[-1] == ROUNDS for entry in plan.entries)):
        cut_row(replace(program, plan=plan))


def with_numbers(row: CutRow) -> CutRow:
    """The row itself; raises DiagnosticError where its axis has no number of ranks."""
    if row.ranks is None:
        raise DiagnosticError.of(NoMeshSize(row.axis))
    return row


def _entries(program: IRProgram) -> Iterator[Entry]:
    """The lines of the plan about rows of the entry block."""
    for entry in program.plan.entries if program.plan else ():
        if entry.path[-1] == ROUNDS and entry.block == program.main.block_id:
            yield entry


def _schedules(program: IRProgram) -> Iterator[Schedule]:
    """The lines of the plan about the order of the entry block's stages."""
    for schedule in program.plan.schedules if program.plan else ():
        if schedule.block == program.main.block_id:
            yield schedule


def _uneven(row: CutRow, entry: Entry) -> Iterator[Problem]:
    """Rounds that stages cannot share equally, microbatches that do not go round in groups."""
    schedule = row.schedule
    if row.ranks and row.rounds is not None and row.rounds % (row.ranks * row.turns):
        sizes = *(((str(row.turns), row.turns),) if row.turns > 1 else ()), (row.axis, row.ranks)
        yield NotDivisible(entry.span, str(row.call.count), row.rounds, sizes)
    elif schedule and row.ranks and not schedule.fits(row.ranks):
        yield PartsInTurns(schedule.span, schedule.parts or 0, row.axis, row.ranks)


def _row(program: IRProgram, entry: Entry, schedule: Schedule | None) -> CutRow | None:
    """The row that an entry cuts; None where it is no row, or has another number of rounds."""
    main, layout, plan = program.main, entry.rest, program.plan
    assert layout is not None
    assert plan is not None
    call = next((c for c in main.calls if c.path == entry.path[0] and c.count is not None), None)
    (dim,), ((axis,),) = layout.dims, layout.cuts
    if call is None or call.count is None or dim is None or not main.sizes.same(dim, call.count):
        return None
    numbers = main.sizes.bind({**main.sizes.defaults, **program.numbers})
    ranks = program.mesh.get(axis, plan.mesh.get(axis))
    rounds = value_of(main.sizes.expand(call.count), numbers)
    return CutRow(call, axis, ranks, rounds, schedule)


# Whether the lines of a plan fit what they reach, and each other.


def check_placements(reached: Iterable[PlacedValue]) -> None:
    """Raise DiagnosticError with every line of a plan that does not fit what it reaches."""
    problems: dict[Problem, None] = {}
    for planned in (value.planned for value in reached):
        try:
            _ = planned.placing
        except Misfit as misfit:
            problems[_misfit(planned, misfit)] = None
        except Clash as clash:
            name, plans = str(planned.value.name), (clash.first.plan, clash.second.plan)
            spans = clash.second.span, clash.first.span
            problems[PlacedTwice(spans[0], name, clash.axis, plans, spans[1])] = None
    if problems:
        raise DiagnosticError.of(*problems)


def _misfit(planned: PlannedValue, misfit: Misfit) -> PlanMisfit:
    layout = misfit.layout
    entry = next(e for e in planned.entries if layout is e.rest or layout is e.use)
    graph, value = planned.graph, planned.value
    shape = spell_shape(graph.shape(value))
    return PlanMisfit(entry.span, str(value.name), str(misfit.layout), shape, value.span)
