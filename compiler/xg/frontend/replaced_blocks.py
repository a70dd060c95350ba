"""Graphs in the place of others, in programs that are as ones that passed but for these.

After most edits of a block its callers see no difference: it takes and leaves the same values, and
ranks have them in parts as before. Then only the block is placed again, and no caller.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.frontend.shared_graphs import Checkable, Pair
from xg.ir.graph import Graph
from xg.ir.plan import Plan
from xg.passes.shard import AddedSteps, Annotator, Placer, Replaced, SeenByCallers
from xg.sharding.apply_plan import PlanCache, ReachedGraph
from xg.sharding.cut_rows import check_row
from xg.sharding.placing import Clash, Misfit
from xg.sharding.reach import Reach

Order = tuple[tuple[str, int], ...]  # the mesh axes of a program that is placed, with their sizes


@dataclass(slots=True)
class Uses:
    """How a plan's programs use each graph, by its key.

    A graph that differs from another in callees alone that answer the same is used, and placed,
    `like` that one. `placed` are the annotated graphs that were, by the mesh axes.
    """

    known: dict[str, dict[Hashable, ReachedGraph]] = field(
        default_factory=dict[str, "dict[Hashable, ReachedGraph]"]
    )
    like: dict[str, str] = field(default_factory=dict[str, str])
    placed: dict[Order, set[str]] = field(default_factory=dict["Order", "set[str]"])

    def first(self, key: str) -> str:
        """The graph that was placed for one: itself or another."""
        return self.like.get(key, key)

    def of(self, key: str) -> Iterable[ReachedGraph]:
        """The uses of a graph."""
        return self.known.get(self.first(key), {}).values()

    def add(self, uses: Iterable[ReachedGraph]) -> None:
        """Add uses of graphs that passed."""
        for use in uses:
            self.known.setdefault(use.graph.key, {})[use.items, use.reach] = use


@dataclass(slots=True)
class Replacing:
    """Graphs that are new in programs under a plan, each once: typed ones, and those placed.

    `alone` are steps that were added where nothing moves. `likenesses` are those of callers.
    """

    plan: Plan
    cache: PlanCache
    annotator: Annotator
    uses: Uses
    placers: Mapping[tuple[object, ...], Placer]
    likenesses: dict[str, str] = field(default_factory=dict[str, str])
    typed: list[ReachedGraph] = field(default_factory=list[ReachedGraph])
    placed: dict[Order, list[Replaced]] = field(default_factory=dict["Order", "list[Replaced]"])
    alone: dict[Order, list[Graph]] = field(default_factory=dict["Order", "list[Graph]"])
    seen: set[Hashable] = field(default_factory=set["Hashable"])

    def add(self, before: Checkable, now: Checkable, order: Order | None) -> None:
        """Add what differs in a program from one that passed.

        Raises SeenByCallers where that is more than a replaced block, and DiagnosticError.
        """
        check_row(now.typed, self.plan)
        found = now.since(before)
        for pair, alive in found.replaced:
            if (pair, order) not in self.seen:
                try:
                    self._add_steps(pair, alive, now, order)
                except SeenByCallers:
                    self._replace(pair, alive, before, now, order)
                self.seen.add((pair, order))
        self.likenesses |= {new: self.uses.first(old) for old, new in found.callers}

    def _add_steps(
        self, pair: Pair, alive: Pair | None, now: Checkable, order: Order | None
    ) -> None:
        """Add only the steps that a graph adds, if nothing has to be moved for them."""
        uses = list(self.uses.of(pair[0]))
        added = self._added(uses[0].graph, now.typed.graphs[pair[1]], now) if uses else None
        planned = (each for use in uses for each in self.cache.of(use.graph, use.reach))
        if added is None or any(each.value is added.behind for each in planned):
            raise SeenByCallers
        if alive and order:
            reaches = [use.reach for use in uses]
            self.alone.setdefault(order, []).extend(self._alone(alive, reaches, now, order))
        pairs = (pair, alive) if alive else (pair,)
        self.likenesses |= {new: self.uses.first(old) for old, new in pairs}

    def _alone(
        self, pair: Pair, reaches: Sequence[Reach], now: Checkable, order: Order
    ) -> list[Graph]:
        first = self.uses.first(pair[0])
        names = {self.annotator.names.get((first, reach)) for reach in reaches}
        placed = [self.annotator.graphs[name] for name in names & self.uses.placed[order] if name]
        placer = self.placers.get((order, frozenset(now.program.numbers.items())))
        if placer is None or not placed:
            raise SeenByCallers
        added = self._added(self.annotator.source[first], now.alive.graphs[pair[1]], now)
        if added is None:
            raise SeenByCallers
        if any(added.behind in graph.placement_requests for graph in placed):
            raise SeenByCallers
        return [each for graph in placed for each in placer.added(graph.key, added)]

    def _added(self, before: Graph, now: Graph, program: Checkable) -> AddedSteps | None:
        """The steps that a graph adds to another, unless the plan or a callee sees more of that."""
        added = program.shared.added(before, now)
        if added is None or any(
            entry.memory == "ring" or added.name in entry.path for entry in self.plan.entries
        ):
            return None
        callees = (
            (one.callee, other.callee) for one, other in zip(before.calls, now.calls, strict=True)
        )
        first = self.uses.first
        return added if all(first(old) == first(new) for old, new in callees) else None

    def _replace(
        self, pair: Pair, alive: Pair | None, before: Checkable, now: Checkable, order: Order | None
    ) -> None:
        old, new = self.uses.first(pair[0]), pair[1]
        typed: list[ReachedGraph] = []
        placed: list[Replaced] = []
        for use in self.uses.of(old):
            axes = self.cache.axes_of(before.typed.graphs, old, use.reach)
            try:
                same = axes == self.cache.axes_of(now.typed.graphs, new, use.reach)
            except (Misfit, Clash):
                raise SeenByCallers from None
            if not same:
                raise SeenByCallers
            typed.append(replace(use, graph=now.typed.graphs[new]))
            if alive and order is not None:
                placed += self._annotated(alive, before, now, use, order)
        if not typed or (alive and order is not None and not placed):
            raise SeenByCallers  # nothing is known of what they ask
        self.typed += typed
        if order is not None:
            self.placed.setdefault(order, []).extend(placed)

    def _annotated(
        self, pair: Pair, before: Checkable, now: Checkable, use: ReachedGraph, order: Order
    ) -> Iterator[Replaced]:
        """The placement requests of a graph for one use; none if it is not placed there."""
        key = self.uses.first(pair[0]), use.reach
        if self.annotator.names.get(key) in self.uses.placed[order]:
            name, gathered = self.annotator.reached(before.alive, *key)
            now_name, now_gathered = self.annotator.reached(now.alive, pair[1], use.reach)
            if gathered != now_gathered:
                raise SeenByCallers
            yield Replaced(name, now_name, use.symbols)
