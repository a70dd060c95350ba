"""Check one plan against many programs that have blocks in common, each block once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.frontend.project import Project
from xg.frontend.shared_graphs import (
    Checkable,
    Contents,
    Numbers,
    Order,
    Replacing,
    SharedGraphs,
    Uses,
)
from xg.ir.content import PlanViews, Recent, frozen
from xg.ir.graph import Apply, Graph, IRProgram, Value
from xg.ir.placement import Plan
from xg.ir.walk import sort_graphs
from xg.passes.pipelines import PLACED, run
from xg.passes.resolve.plans import multiply, resolve_plans
from xg.passes.resolve.units import Linker
from xg.passes.ring import ring
from xg.passes.shard import (
    Annotator,
    Core,
    Placer,
    Replaced,
    SeenByCallers,
    write_local_steps,
)
from xg.sharding.apply_plan import (
    PlanCache,
    PlannedGraph,
    ReachedGraph,
    check_placements,
    check_row,
    cut_row,
    entry_graphs,
    is_about_calls,
    on_axes,
    placed_values,
    planned_graphs,
    reached_graphs,
    with_mesh,
)
from xg.sharding.divisibility import check_parts, check_shares, padded_numbers
from xg.syntax.spelling import ascii_name

# The plans of a project by name, and what is wrong with them in a program.


def attach_plan(
    typed: IRProgram, project: Project, plan: str | None, settings: Mapping[str, str | int] | None
) -> IRProgram:
    """A typed program with its plan; raises DiagnosticError with all that does not fit."""
    if plan is not None:
        typed = replace(typed, plan=find_plan(project, plan, settings))
    check_parallel(typed)
    return typed


def check_parallel(typed: IRProgram) -> None:
    """Raise DiagnosticError with all that the plan and the cuts of a typed program have wrong."""
    reached = tuple(placed_values(typed))
    cut_row(typed)
    check_placements(reached)
    padded = padded_numbers(typed, reached)
    check_shares(replace(typed, numbers={**typed.numbers, **padded}), reached)


def find_plan(
    project: Project,
    name: str,
    settings: Mapping[str, str | int] | None = None,
    linker: Linker | None = None,
) -> Plan:
    """A plan of a file's, or a product such as ``DP × TP``; raises DiagnosticError.

    A `linker` of the project may be given, which others use too.
    """
    names = [ascii_name(factor.strip()) for factor in name.replace("*", "×").split("×")]
    if not all(names):
        names = [name]  # which is the name of no plan
    linker = linker or Linker(project.main, project.load)
    return multiply(resolve_plans(linker, settings, names), names)


def plans_of(
    project: Project,
    settings: Mapping[str, str | int] | None = None,
    linker: Linker | None = None,
) -> dict[str, Plan]:
    """Return every plan of a file and its used files by name; raises DiagnosticError."""
    return resolve_plans(linker or Linker(project.main, project.load), settings)


# A plan that pads, checked in one program alone: numbers decide what it pads.


def check_padding(typed: IRProgram) -> None:
    """Raise DiagnosticError with something that is wrong with a program under its plan.

    Nothing is known of a mesh without numbers, or of a block that the plan does not reach.
    """
    check_parallel(typed)
    try:
        meshed = with_mesh(typed)
    except DiagnosticError:
        return
    run(PLACED, meshed)


GRAPHS_AT_MOST = 160  # with different callees, until programs are forgotten; a large file has 39
PLANS_AT_MOST = 100

OF_RANKS = "XG08"  # codes of what ranks cannot do; others point at a line of the plan


@dataclass(slots=True, eq=False)
class PassedPrograms:
    """Programs that were checked under a plan together, and the numbers with which they passed.

    Of what only replaced a part of a program, `placed` is None: other numbers need another check.
    """

    typed: IRProgram
    planned: tuple[PlannedGraph, ...]
    placed: list[tuple[Placer, IRProgram, Mapping[str, Core]]] | None
    numbers: set[Numbers]

    def passes(self, program: Checkable, plan: Plan | None) -> bool:
        """Whether a program that looks like one of these passes with the numbers that it has."""
        now = program.program
        try:
            check_row(now, plan)  # of each program, not of all
        except DiagnosticError:
            return False
        if program.numbers not in self.numbers:
            mesh = now.mesh
            if self.placed is None or not all(
                placer.fits_numbers({**now.numbers, **mesh}) for placer, _, _ in self.placed
            ):
                return False
            typed = replace(self.typed, numbers=now.all_numbers, mesh=mesh)
            try:
                check_shares(typed, (v for each in self.planned for v in each.placed_values()))
                for placer, whole, cores in self.placed:
                    axes = {axis: mesh[axis] for axis in whole.mesh}
                    numbered = replace(whole, numbers={**now.all_numbers, **mesh}, mesh=axes)
                    check_parts(numbered, cores, placer.blocks.parts)
            except DiagnosticError:
                return False
            self.numbers.add(program.numbers)
        return True


@dataclass(slots=True)
class PlanCheck:
    """A plan (None for what is parallel by hand) with all that was found to be fine under it.

    `passed` has programs by what the plan sees of them; all else is of programs that share graphs.
    `last` has for each choice of options the program that passed last, with its mesh axes in order
    where it has any.
    """

    plan: Plan | None
    shared: SharedGraphs
    views: PlanViews
    passed: Recent[Hashable, PassedPrograms] = field(
        default_factory=Recent["Hashable", "PassedPrograms"]
    )
    cache: PlanCache = field(init=False)
    annotator: Annotator = field(init=False)
    placers: dict[tuple[object, ...], Placer] = field(
        default_factory=dict[tuple[object, ...], Placer]
    )
    last: dict[Hashable, tuple[Checkable, Order | None]] = field(
        default_factory=dict["Hashable", "tuple[Checkable, Order | None]"]
    )
    uses: Uses = field(default_factory=Uses)

    def __post_init__(self) -> None:
        """Share the results of a graph among those with its core."""
        self.cache = PlanCache(self.shared.planned)
        self.annotator = Annotator(self.cache)

    def check(self, programs: Sequence[Checkable]) -> None:
        """Raise DiagnosticError with something that is wrong with programs under the plan.

        Of one program it is all that is wrong. Nothing is known of a mesh without numbers, or of a
        block that the plan does not reach.
        """
        if self.plan and self.plan.pads:
            for program in programs:
                check_padding(replace(program.program, plan=self.plan))
            return
        alike: dict[Numbers, dict[Hashable, Checkable]] = {}
        entries = self.plan.entries if self.plan else ()
        names = frozenset(name for entry in entries for name in entry.path)
        for program in programs:
            # What the plan sees of a program is all but its numbers.
            key = self.views.of(program.program, names), tuple(program.program.mesh)
            passed = self.passed.get(key)
            if passed is None or not passed.passes(program, self.plan):
                alike.setdefault(program.numbers, {}).setdefault(key, program)
        for numbers, group in alike.items():
            passed = self._check_replacements(group, numbers)
            rest = {key: program for key, program in group.items() if key not in passed}
            if rest:
                passed |= dict.fromkeys(rest, self._check(list(rest.values()), numbers))
            for key, programs_passed in passed.items():
                self.passed.put(key, programs_passed)

    def _check(self, programs: Sequence[Checkable], numbers: Numbers) -> PassedPrograms:
        """Check programs whose sizes and mesh axes have these numbers."""
        typed = replace(_together([each.source_program for each in programs]), plan=self.plan)
        uses, planned = self._check_layouts(typed, entry_graphs(typed), numbers)
        alike: dict[tuple[tuple[str, int], ...], list[IRProgram]] = {}
        orders: dict[Checkable, Order] = {}
        for program in programs:
            check_row(program.source_program, self.plan)
            mesh = self._mesh(replace(program.source_program, plan=self.plan))
            if mesh is not None:
                alive = replace(program.alive, plan=self.plan, mesh=mesh)
                entry, order = self.annotator.enter(alive)
                annotated = replace(alive, graphs=self.annotator.graphs, entry=entry, mesh=order)
                alike.setdefault(tuple(order.items()), []).append(annotated)
                orders[program] = tuple(order.items())
        placed = [self._check_moves(group) for group in alike.values()]
        self.uses.add(uses)
        self.last.update((each.choice, (each, orders.get(each))) for each in programs)
        return PassedPrograms(typed, planned, placed, {numbers})

    def _check_replacements(
        self, programs: Mapping[Hashable, Checkable], numbers: Numbers
    ) -> dict[Hashable, PassedPrograms]:
        """Check what is new in programs since others passed in the same choices of options.

        It leaves out those of which that is not enough to know that they pass.
        """
        if self.plan is None:
            return {}
        new = Replacing(self.plan, self.cache, self.annotator, self.uses, self.placers)
        found: dict[Hashable, Checkable] = {}
        for key, program in programs.items():
            last, order = self.last.get(program.choice, (None, None))
            if last is not None and last.numbers == numbers:
                with suppress(SeenByCallers, DiagnosticError):
                    new.add(last, program, order)
                    found[key] = program
        if not found:
            return {}
        typed = replace(_together([each.source_program for each in found.values()]), plan=self.plan)
        try:
            uses, planned = self._check_layouts(typed, new.typed, numbers)
            for order, replaced in new.placed.items():
                self._check_replaced_moves(replace(typed, mesh=dict(order)), replaced)
            for order, graphs in new.alone.items():
                self._check_steps(replace(typed, mesh=dict(order)), graphs)
        except (SeenByCallers, DiagnosticError):
            return {}
        self.uses.add(uses)
        self.uses.like |= new.likenesses
        for each in found.values():
            self.last[each.choice] = each, self.last[each.choice][1]
        return dict.fromkeys(found, PassedPrograms(typed, planned, None, {numbers}))

    def _check_replaced_moves(self, typed: IRProgram, replaced: Sequence[Replaced]) -> None:
        if replaced:
            entry, *others = dict.fromkeys(each.now for each in replaced)
            graphs = sort_graphs(self.annotator.graphs, entry, *others)
            only = replace(typed, graphs=graphs, entry=entry, others=tuple(others))
            every, unchanged = self._with_ring(only)
            self._check_local(*self._placer(every).check_replacements(every, unchanged, replaced))
            self.uses.placed[tuple(typed.mesh.items())].update(graphs)

    def _check_steps(self, typed: IRProgram, graphs: Sequence[Graph]) -> None:
        steps = {str(place): graph for place, graph in enumerate(graphs)}
        numbers = {**typed.numbers, **typed.mesh}
        self._check_local(replace(typed, graphs=steps, numbers=numbers), {})

    def _check_layouts(
        self, typed: IRProgram, starts: Sequence[ReachedGraph], numbers: Numbers
    ) -> tuple[tuple[ReachedGraph, ...], tuple[PlannedGraph, ...]]:
        """The uses of some graphs and of all that they call, and those that the plan places."""
        uses = tuple(reached_graphs(starts, typed.graphs))
        planned = tuple(planned_graphs(uses, self.cache))
        keys = {(each.planned, each.items, numbers): each for each in planned}
        new = {key: each for key, each in keys.items() if key not in self.shared.fine}
        reached = [each for group in new.values() for each in group.placed_values()]
        check_placements(reached)
        check_shares(typed, reached)
        self.shared.fine.update(new)
        return uses, planned

    def _mesh(self, typed: IRProgram) -> Mapping[str, int] | None:
        """The mesh axes that shard something; None if one has no number, or nothing is placed."""
        axes = self.cache.axes_below(typed) if self.plan else None
        places_any = axes is not None or is_about_calls(typed)
        with suppress(DiagnosticError):
            return on_axes(typed, axes or (), places_any=places_any).mesh
        return None

    def _check_moves(
        self, annotated: Sequence[IRProgram]
    ) -> tuple[Placer, IRProgram, Mapping[str, Core]]:
        """Raise DiagnosticError where ranks cannot compute programs in parts.

        Only where two mesh axes cut one axis does the program of a rank find more; its backward
        pass moves what the forward pass has moved, so it does not.
        """
        first = annotated[0]
        entries = [each.entry for each in annotated]
        graphs = sort_graphs(first.graphs, *entries)
        together = replace(first, graphs=graphs, entry=entries[0], others=tuple(entries[1:]))
        every, unchanged = self._with_ring(together)
        placer = self._placer(every)
        whole, cores = placer.check(every, unchanged)
        self._check_local(whole, cores)
        self.uses.placed.setdefault(tuple(first.mesh.items()), set()).update(graphs)
        return placer, whole, cores

    def _with_ring(self, program: IRProgram) -> tuple[IRProgram, Mapping[str, Core]]:
        """A program with what goes round a ring, and the cores of its other graphs."""
        every, graphs, known = ring(program), program.graphs, self.annotator.cores.items()
        return every, {key: core for key, core in known if every.graphs.get(key) is graphs.get(key)}

    def _placer(self, program: IRProgram) -> Placer:
        key = tuple(program.mesh.items()), frozenset(program.numbers.items())
        return self.placers.setdefault(key, Placer(self.shared.contents.blocks))

    def _check_local(self, whole: IRProgram, cores: Mapping[str, Core]) -> None:
        """Raise DiagnosticError where the program of a rank could not be written."""
        blocks = self.shared.contents.blocks
        for graph in whole.graphs.values():
            core = cores.get(graph.key)
            if core is not None and blocks.local.get(core):
                continue
            new = {
                key: step
                for step in _cut_twice(graph)
                if blocks.steps.get(key := _step_key(step, graph)) is None
            }
            if new:
                part = {graph.key: _of_steps(graph, new.values())}
                write_local_steps(replace(whole, graphs=part))
            for key, step in new.items():
                blocks.steps.put(key, step)
            if core is not None:
                blocks.local.put(core, True)


@dataclass(slots=True)
class PlanMemory:
    """Plans with what was checked under each, and the graphs that they were checked against.

    Results for single blocks are kept apart (in `contents`), because they stay valid longer than
    those for whole programs.
    """

    contents: Contents = field(default_factory=Contents)
    views: PlanViews = field(default_factory=PlanViews)
    shared: SharedGraphs = field(init=False)
    checks: list[PlanCheck] = field(default_factory=list[PlanCheck])

    def __post_init__(self) -> None:
        """Begin with no program."""
        self.shared = SharedGraphs(self.contents)

    def checkable(
        self, program: IRProgram, entry: str, settings: Mapping[str, str | int]
    ) -> Checkable:
        """A program that plans are to be checked against: a block, in a choice of options."""
        return Checkable(program, (entry, frozenset(settings.items())), self.shared)

    def check(self, plan: Plan | None) -> PlanCheck:
        """A plan with what is known to be fine under it."""
        identity = _identity(plan)
        for check in self.checks:
            if _identity(check.plan) == identity:
                check.plan = plan
                return check
        self.checks.append(PlanCheck(plan, self.shared, self.views))
        return self.checks[-1]

    def next_round(self) -> None:
        """Forget what has not been asked for of late, and graphs where there are too many."""
        self.contents.next_round()
        self.views.next_round()
        self.shared.changes.clear()
        for check in self.checks:
            check.passed.next_round()
        if len(self.checks) > PLANS_AT_MOST:
            self.checks = []
        if len(self.shared.graphs) > GRAPHS_AT_MOST:
            self.shared = SharedGraphs(self.contents)
            self.checks = [
                PlanCheck(each.plan, self.shared, self.views, each.passed) for each in self.checks
            ]


def _identity(plan: Plan | None) -> object:
    """All of a plan that a check needs: without the numbers of its mesh axes."""
    return plan and (plan.name, plan.title, plan.entries)


def _together(programs: Sequence[IRProgram]) -> IRProgram:
    """Programs with shared graphs as one program with their entries."""
    first, *others = programs
    graphs = {key: graph for program in programs for key, graph in program.graphs.items()}
    return replace(first, graphs=graphs, others=tuple(other.entry for other in others))


def _cut_twice(graph: Graph) -> Iterator[Apply]:
    """Yield the operators with a value that two mesh axes cut along the same axis."""
    values: set[Value] = set()
    for value, placement in graph.placements.items():
        axes = [state.axis for state in placement.values() if state.kind == "S"]
        if len(axes) > len(set(axes)):
            values.add(value)
    for step in graph.steps if values else ():
        if isinstance(step, Apply) and not values.isdisjoint((*step.inputs, *step.outputs)):
            yield step


def _step_key(step: Apply, graph: Graph) -> Hashable:
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


def under(plan: Plan | None, diagnostic: Diagnostic, *, foreign: bool) -> Diagnostic:
    """An error with the plan that causes it.

    A plan that comes with a block need not fit its callers: then it is a warning.
    """
    if foreign:
        said = f"the plan {plan.name if plan else ''} comes with a used file and does not fit here"
        return replace(diagnostic, severity="warning", notes=(*diagnostic.notes, said))
    if plan is None or not diagnostic.code.startswith(OF_RANKS):
        return diagnostic
    return replace(diagnostic, notes=(*diagnostic.notes, f"under the plan {plan.name}"))
