"""A plan applied to a typed program: every value that it reaches, and its placement."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.ir.dim import Dim
from xg.ir.graph import Call, Graph, Program, Value
from xg.ir.instances import Symbols, inside
from xg.ir.plan import EVERY, Clash, Entry, Misfit, Placing, Reach, placements_of, placing, sized
from xg.sharding.errors import NoMeshSize, PlacedTwice, PlanMisfit, PlanOfNothing


@dataclass(frozen=True, eq=False)
class PlannedValue:
    """The entries of a plan for one value of a graph, wherever that is called."""

    graph: Graph
    reach: Reach
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


def entries_of(graph: Graph, reach: Reach) -> dict[Value, tuple[Entry, ...]]:
    """The entries of a reach for the values of a graph, under each name that they have."""
    params = {param.value for param in graph.params}
    last: dict[str, list[Entry]] = {}  # those that end here, so that each is looked at once
    for entry in reach.here:
        if len(entry.path) == 1:
            last.setdefault(entry.path[0], []).append(entry)
    found: dict[Value, tuple[Entry, ...]] = {}
    for name, value in graph.names():
        near = (*last.get(name, ()), *last.get(EVERY, ()))
        entries = placements_of(near, is_param=value in params)
        if entries:
            found[value] = tuple(dict.fromkeys((*found.get(value, ()), *entries)))
    return found


@dataclass(slots=True)
class PlanCache:
    """The entries of one plan for graphs and for the calls in them, each computed once.

    A graph is identified by its key: programs may share this where one key is one graph in all.
    """

    values: dict[tuple[str, Reach], tuple[PlannedValue, ...]] = field(
        default_factory=dict[tuple[str, Reach], tuple[PlannedValue, ...]]
    )
    calls: dict[tuple[str, Reach], tuple[Reach, ...]] = field(
        default_factory=dict[tuple[str, Reach], tuple[Reach, ...]]
    )

    def of(self, graph: Graph, reach: Reach) -> tuple[PlannedValue, ...]:
        """The entries of a reach for the values of a graph."""
        key = graph.key, reach
        if key not in self.values:
            entries = entries_of(graph, reach).items()
            self.values[key] = tuple(PlannedValue(graph, reach, *each) for each in entries)
        return self.values[key]

    def inside(self, program: Program, graph: Graph, reach: Reach) -> tuple[Reach, ...]:
        """The reach of every call of a graph, in order."""
        key = graph.key, reach
        if key not in self.calls:
            calls = ((program.graphs[call.callee], call) for call in calls_of(graph))
            self.calls[key] = tuple(
                reach.inside(callee.span, call.path, repeated=call.count is not None)
                for callee, call in calls
            )
        return self.calls[key]


def calls_of(graph: Graph) -> list[Call]:
    """The calls of a graph."""
    return [step for step in graph.steps if isinstance(step, Call)]


def placed_values(program: Program, cache: PlanCache | None = None) -> Iterator[PlacedValue]:
    """Every value that the program's plan places, in every call; callers first."""
    if program.plan is None:
        return
    cache = cache or PlanCache()
    reach = program.plan.reach(program.main.span)
    waiting: deque[tuple[Graph, Symbols, Reach]] = deque([(program.main, {}, reach)])
    seen: set[tuple[str, frozenset[tuple[str, Dim]], Reach]] = set()
    while waiting:
        graph, symbols, reach = waiting.popleft()
        key = (graph.key, frozenset(symbols.items()), reach)
        if key in seen:
            continue
        seen.add(key)
        for planned in cache.of(graph, reach):
            yield PlacedValue(planned, symbols)
        below = cache.inside(program, graph, reach)
        for call, inner in zip(calls_of(graph), below, strict=True):
            callee = program.graphs[call.callee]
            waiting.append((callee, inside(call, graph, callee, symbols), inner))


def check_placed(reached: Iterable[PlacedValue]) -> None:
    """Raise DiagnosticError with every line of a plan that does not fit what it reaches."""
    problems: dict[Problem, None] = {}
    for planned in (found.planned for found in reached):
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
    entry = next(e for e in planned.entries if misfit.layout in (e.rest, e.use))
    graph, value = planned.graph, planned.value
    shape = "[" + ", ".join(map(str, graph.shape(value))) + "]"
    return PlanMisfit(entry.span, str(value.name), str(misfit.layout), shape, value.span)


def with_mesh(program: Program, reached: Sequence[PlacedValue] | None = None) -> Program:
    """The program on the mesh axes that shard something in it, which must have sizes.

    `reached` are the values that its plan places, where they are known already.

    Raises DiagnosticError for an axis without a size, and for a plan that places nothing.
    """
    layouts = [cuts for graph in program.graphs.values() for cuts in graph.layouts.values()]
    used = {axis for cuts in layouts for axis in cuts}
    reached = list(placed_values(program)) if reached is None else reached
    used.update(axis for each in reached for _, axes in each.planned.cuts for axis in axes)
    plan = program.plan
    if plan is not None and not reached:
        blocks = dict.fromkeys(entry.block_name for entry in plan.entries)
        raise DiagnosticError.of(PlanOfNothing(plan.name, program.main.block, tuple(blocks)))
    missing = sorted(used - program.mesh.keys())
    if missing:
        raise DiagnosticError.of(*(NoMeshSize(axis) for axis in missing))
    return replace(program, mesh={a: size for a, size in program.mesh.items() if a in used})
