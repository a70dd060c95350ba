"""Graphs in the place of others, in programs that are as ones that passed but for these.

After most edits of a block its callers see no difference: it takes and leaves the same values, and
ranks have them in parts as before. Then only the block is placed again, and no caller.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import field

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.frontend.shared_graphs import Checkable, Pair
from xg.ir.plan import Plan
from xg.passes.shard import Annotator, Replaced, SeenByCallers
from xg.sharding.apply_plan import PlanCache, ReachedGraph
from xg.sharding.cut_rows import check_row
from xg.sharding.placing import Clash, Misfit

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

    `likenesses` are those of their callers.
    """

    plan: Plan
    cache: PlanCache
    annotator: Annotator
    uses: Uses
    likenesses: dict[str, str] = field(default_factory=dict[str, str])
    typed: list[ReachedGraph] = field(default_factory=list[ReachedGraph])
    placed: dict[Order, list[Replaced]] = field(default_factory=dict["Order", "list[Replaced]"])
    seen: set[Hashable] = field(default_factory=set["Hashable"])

    def add(self, before: Checkable, now: Checkable, order: Order | None) -> None:
        """Add what differs in a program from one that passed.

        Raises SeenByCallers where that is more than a replaced block, and DiagnosticError.
        """
        check_row(now.typed, self.plan)
        found = now.since(before)
        for pair, alive in found.replaced:
            if (pair, order) not in self.seen:
                self._replace(pair, alive, before, now, order)
                self.seen.add((pair, order))
        self.likenesses |= {new: self.uses.first(old) for old, new in found.callers}

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
