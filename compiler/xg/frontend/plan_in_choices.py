"""One plan checked against many programs that have blocks in common, each block once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xg.diagnostics.diagnostic import DiagnosticError
from xg.ir.content import content, renamed
from xg.ir.dim import Dim
from xg.ir.graph import Graph, Program
from xg.ir.plan import Plan
from xg.passes.eliminate_dead import eliminate_dead
from xg.passes.shard import Annotator, Bodies, Placer, localise
from xg.sharding.apply_plan import (
    PlacedValue,
    PlanCache,
    PlannedValue,
    check_placed,
    placed_values,
    with_mesh,
)
from xg.sharding.divisibility import check_shares

Numbers = frozenset[tuple[str, int]]
Fine = tuple[PlannedValue, frozenset[tuple[str, Dim]], Numbers]


@dataclass(frozen=True, slots=True, eq=False)
class Checkable:
    """A typed program, and the same without dead steps; both share graphs with others by key."""

    typed: Program
    alive: Program


@dataclass(slots=True)
class SharedGraphs:
    """Graphs of many programs, of which equal ones become one.

    Choices of options that a block does not distinguish give it equal graphs.
    """

    keys: dict[object, Graph] = field(default_factory=dict[object, Graph])
    taken: set[str] = field(default_factory=set[str])
    bodies: Bodies = field(default_factory=Bodies)

    def checkable(self, typed: Program) -> Checkable:
        """A program with shared graphs, as it is written and without dead steps."""
        return Checkable(self.of(typed), self.of(eliminate_dead(typed)))

    def of(self, program: Program) -> Program:
        """The program with shared graphs; a key then means one graph in all programs."""
        names: dict[str, str] = {}
        graphs: dict[str, Graph] = {}
        for key, graph in program.graphs.items():  # callees first
            said = content(graph, names)
            if said not in self.keys:
                self.keys[said] = renamed(graph, self._free(key), names)
            shared = self.keys[said]
            names[key] = shared.key
            graphs[shared.key] = shared
        return replace(program, graphs=graphs, entry=names[program.entry])

    def _free(self, key: str) -> str:
        name, number = key, 2
        while name in self.taken:
            name, number = f"{key} ~{number}", number + 1
        self.taken.add(name)
        return name


@dataclass(slots=True)
class PlanCheck:
    """A plan (None for what is parallel by hand) with all that was found to be fine under it."""

    plan: Plan | None
    bodies: Bodies
    cache: PlanCache = field(default_factory=PlanCache)
    fine: set[Fine] = field(default_factory=set[Fine])
    annotator: Annotator = field(default_factory=Annotator)
    placers: dict[tuple[object, ...], Placer] = field(
        default_factory=dict[tuple[object, ...], Placer]
    )
    local: set[tuple[Placer, str]] = field(default_factory=set["tuple[Placer, str]"])

    def check(self, program: Checkable) -> None:
        """Raise DiagnosticError with all that is wrong with a program under the plan.

        Nothing is known of a mesh without numbers, or of a block that the plan does not reach.
        """
        typed = replace(program.typed, plan=self.plan)
        reached = tuple(placed_values(typed, self.cache))
        self._check_layouts(typed, reached)
        try:
            mesh = with_mesh(typed, reached).mesh
        except DiagnosticError:
            return
        self._check_moves(replace(program.alive, plan=self.plan, mesh=mesh))

    def _check_layouts(self, typed: Program, reached: tuple[PlacedValue, ...]) -> None:
        numbers = frozenset({**typed.main.sizes.defaults, **typed.numbers}.items())
        keys = {(p.planned, frozenset(p.symbols.items()), numbers): p for p in reached}
        new = {key: each for key, each in keys.items() if key not in self.fine}
        check_placed(new.values())
        check_shares(typed, new.values())
        self.fine.update(new)

    def _check_moves(self, alive: Program) -> None:
        """Raise DiagnosticError where ranks cannot compute a program in parts.

        Only where two mesh axes cut one axis does the program of a rank find more; its backward
        pass moves what the forward pass has moved, so it does not.
        """
        annotated = self.annotator.of(alive)
        key = tuple(annotated.mesh.items()), frozenset(annotated.numbers.items())
        placer = self.placers.setdefault(key, Placer(self.bodies))
        whole = placer.place(annotated)
        for graph in whole.graphs.values():
            if (placer, graph.key) not in self.local and _is_cut_twice(graph):
                localise(replace(whole, graphs={graph.key: graph}))
            self.local.add((placer, graph.key))


def _is_cut_twice(graph: Graph) -> bool:
    """Whether an axis of some value is cut by more than one mesh axis."""
    cuts = ([s.axis for s in p.values() if s.kind == "S"] for p in graph.placements.values())
    return any(len(axes) > len(set(axes)) for axes in cuts)
