"""One plan checked against many programs that have blocks in common, each block once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.content import calling, content, frozen
from xg.ir.graph import Apply, Graph, Program, Value
from xg.ir.plan import Plan
from xg.ir.recent import Recent
from xg.ir.walk import ordered
from xg.passes.eliminate_dead import eliminate_dead
from xg.passes.fuse import ring
from xg.passes.shard import Annotator, Core, PlacedBlocks, Placer, localise
from xg.sharding.apply_plan import (
    PlanCache,
    PlannedGraph,
    PlannedValue,
    SymbolItems,
    is_about_calls,
    on_axes,
    planned_graphs,
)
from xg.sharding.check_plan import check_placed
from xg.sharding.cut_rows import cut_row
from xg.sharding.divisibility import check_parts, check_shares

GRAPHS_AT_MOST = 160  # with different callees, until programs are forgotten; a large file has 39
PLANS_AT_MOST = 100

Numbers = tuple[frozenset[tuple[str, int]], tuple[tuple[str, int], ...]]  # of sizes and of the mesh
Fine = tuple[tuple[PlannedValue, ...], SymbolItems, Numbers]


@dataclass(frozen=True, slots=True, eq=False)
class Checkable:
    """A typed program, and the same without dead steps; both share graphs with others by key."""

    typed: Program
    alive: Program

    @property
    def numbers(self) -> Numbers:
        """The numbers of its sizes and of its mesh axes."""
        return frozenset(self.typed.all_numbers.items()), tuple(self.typed.mesh.items())

    @property
    def key(self) -> Hashable:
        """Its identity among the programs that share graphs, whatever its numbers are."""
        return self.typed.entry, self.alive.entry, tuple(self.typed.mesh)


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


@dataclass(slots=True, eq=False)
class PassedPrograms:
    """Programs that were checked under a plan together, and the numbers with which they passed."""

    typed: Program
    planned: tuple[PlannedGraph, ...]
    placed: list[tuple[Placer, Program, Mapping[str, Core]]]
    numbers: set[Numbers]

    def passes(self, program: Checkable) -> bool:
        """Whether a program, one of these by its key, passes with the numbers that it has."""
        try:
            cut_row(replace(program.typed, plan=self.typed.plan))  # of each program, not of all
        except DiagnosticError:
            return False
        if program.numbers not in self.numbers:
            mesh = program.typed.mesh
            numbers = {**program.typed.numbers, **mesh}
            if not all(placer.are_same(numbers) for placer, _, _ in self.placed):
                return False
            typed = replace(self.typed, numbers=program.typed.all_numbers, mesh=mesh)
            try:
                check_shares(typed, (v for each in self.planned for v in each.placed_values()))
                for placer, whole, cores in self.placed:
                    axes = {axis: mesh[axis] for axis in whole.mesh}
                    numbered = replace(
                        whole, numbers={**program.typed.all_numbers, **mesh}, mesh=axes
                    )
                    check_parts(numbered, cores, placer.blocks.parts)
            except DiagnosticError:
                return False
            self.numbers.add(program.numbers)
        return True


@dataclass(slots=True)
class PlanCheck:
    """A plan (None for what is parallel by hand) with all that was found to be fine under it."""

    plan: Plan | None
    shared: SharedGraphs
    cache: PlanCache = field(init=False)
    annotator: Annotator = field(init=False)
    fine: set[Fine] = field(default_factory=set[Fine])
    passed: dict[Hashable, PassedPrograms] = field(default_factory=dict[Hashable, PassedPrograms])
    placers: dict[tuple[object, ...], Placer] = field(
        default_factory=dict[tuple[object, ...], Placer]
    )

    def __post_init__(self) -> None:
        """Share the results of a graph among those with its core."""
        self.cache = PlanCache(self.shared.cores)
        self.annotator = Annotator(self.cache)

    def check(self, programs: Sequence[Checkable]) -> None:
        """Raise DiagnosticError with something that is wrong with programs under the plan.

        Of one program it is all that is wrong. Nothing is known of a mesh without numbers, or of a
        block that the plan does not reach.
        """
        alike: dict[Numbers, list[Checkable]] = {}
        for program in programs:
            passed = self.passed.get(program.key)
            if passed is None or not passed.passes(program):
                alike.setdefault(program.numbers, []).append(program)
        for numbers, group in alike.items():
            passed = self._check(group, numbers)
            self.passed.update((program.key, passed) for program in group)

    def _check(self, programs: Sequence[Checkable], numbers: Numbers) -> PassedPrograms:
        """Check programs whose sizes and mesh axes have these numbers."""
        typed = replace(_together([each.typed for each in programs]), plan=self.plan)
        planned = self._check_layouts(typed, numbers)
        alike: dict[tuple[tuple[str, int], ...], list[Program]] = {}
        for program in programs:
            cut_row(replace(program.typed, plan=self.plan))
            mesh = self._mesh(replace(program.typed, plan=self.plan))
            if mesh is not None:
                alive = replace(program.alive, plan=self.plan, mesh=mesh)
                entry, order = self.annotator.enter(alive)
                annotated = replace(alive, graphs=self.annotator.graphs, entry=entry, mesh=order)
                alike.setdefault(tuple(order.items()), []).append(annotated)
        placed = [self._check_moves(group) for group in alike.values()]
        return PassedPrograms(typed, planned, placed, {numbers})

    def _check_layouts(self, typed: Program, numbers: Numbers) -> tuple[PlannedGraph, ...]:
        planned = tuple(planned_graphs(typed, self.cache))
        keys = {(each.planned, each.items, numbers): each for each in planned}
        new = {key: each for key, each in keys.items() if key not in self.fine}
        reached = [each for group in new.values() for each in group.placed_values()]
        check_placed(reached)
        check_shares(typed, reached)
        self.fine.update(new)
        return planned

    def _mesh(self, typed: Program) -> Mapping[str, int] | None:
        """The mesh axes that shard something; None if one has no number, or nothing is placed."""
        axes = self.cache.axes_below(typed) if self.plan else None
        places_any = axes is not None or is_about_calls(typed)
        with suppress(DiagnosticError):
            return on_axes(typed, axes or (), places_any=places_any).mesh
        return None

    def _check_moves(
        self, annotated: Sequence[Program]
    ) -> tuple[Placer, Program, Mapping[str, Core]]:
        """Raise DiagnosticError where ranks cannot compute programs in parts.

        Only where two mesh axes cut one axis does the program of a rank find more; its backward
        pass moves what the forward pass has moved, so it does not.
        """
        first = annotated[0]
        key = tuple(first.mesh.items()), frozenset(first.numbers.items())
        placer = self.placers.setdefault(key, Placer(self.shared.contents.blocks))
        entries = [each.entry for each in annotated]
        graphs = ordered(first.graphs, *entries)
        every = ring(replace(first, graphs=graphs, entry=entries[0], others=tuple(entries[1:])))
        known = self.annotator.cores.items()
        unchanged = {key: core for key, core in known if every.graphs.get(key) is graphs.get(key)}
        whole, cores = placer.check(every, unchanged)
        blocks = self.shared.contents.blocks
        for graph in whole.graphs.values():
            core = cores.get(graph.key)
            if core is not None and blocks.local.get(core):
                continue
            new = {
                key: step
                for step in _cut_twice(graph)
                if blocks.steps.get(key := _said(step, graph)) is None
            }
            if new:
                localise(replace(whole, graphs={graph.key: _of_steps(graph, new.values())}))
            for key, step in new.items():
                blocks.steps.put(key, step)
            if core is not None:
                blocks.local.put(core, True)
        return placer, whole, cores


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
        identity = _identity(plan)
        for check in self.checks:
            if _identity(check.plan) == identity:
                check.plan = plan
                return check
        self.checks.append(PlanCheck(plan, self.shared))
        return self.checks[-1]

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.contents.next_round()
        if len(self.shared.graphs) > GRAPHS_AT_MOST or len(self.checks) > PLANS_AT_MOST:
            self.shared = SharedGraphs(self.contents)
            self.checks = []


def _identity(plan: Plan | None) -> object:
    """All of a plan that a check needs: without the numbers of its mesh axes."""
    return plan and (plan.name, plan.title, plan.entries)


def _together(programs: Sequence[Program]) -> Program:
    """Programs with shared graphs as one program with their entries."""
    first, *others = programs
    graphs = {key: graph for program in programs for key, graph in program.graphs.items()}
    return replace(first, graphs=graphs, others=tuple(other.entry for other in others))


def _cut_twice(graph: Graph) -> Iterator[Apply]:
    """The operators of a graph with a value of which two mesh axes cut one axis."""
    values: set[Value] = set()
    for value, placement in graph.placements.items():
        axes = [state.axis for state in placement.values() if state.kind == "S"]
        if len(axes) > len(set(axes)):
            values.add(value)
    for step in graph.steps if values else ():
        if isinstance(step, Apply) and not values.isdisjoint((*step.inputs, *step.outputs)):
            yield step


def _said(step: Apply, graph: Graph) -> Hashable:
    """All that the program of a rank makes a step from."""
    types = tuple(graph.types[value] for value in step.inputs)
    values = (*step.inputs, *step.outputs)
    placements = tuple(tuple(graph.placements[value].items()) for value in values)
    return id(step.op), frozen(step.attrs), types, placements


def _of_steps(graph: Graph, steps: Iterable[Apply]) -> Graph:
    """A graph of only these steps."""
    alone = tuple(steps)
    values = {value for step in alone for value in (*step.inputs, *step.outputs)}
    types = {value: graph.types[value] for value in values}
    return replace(graph, steps=alone, types=types, params=(), outputs=(), aliases=())
