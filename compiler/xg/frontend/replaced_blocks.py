"""Graphs in the place of others, in programs that are as ones that passed but for these.

After most edits of a block its callers see no difference: it takes and leaves the same values, and
ranks have them in parts as before. Then only the block is placed again, and no caller.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import field

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.frontend.shared_graphs import Checkable
from xg.ir.graph import Graph, Program
from xg.ir.plan import Plan
from xg.passes.shard import Annotator, Replaced, SeenByCallers
from xg.sharding.apply_plan import PlanCache, ReachedGraph, planned_below, reached_calls
from xg.sharding.check_plan import check_placed
from xg.sharding.cut_rows import cut_row

Order = tuple[tuple[str, int], ...]  # the mesh axes of a program that is placed, with their sizes


@dataclass(frozen=True, slots=True)
class Pair:
    """A graph of a program that passed, and the one in its place.

    `is_caller` is set where they differ in nothing but what they call.
    """

    before: Graph
    now: ReachedGraph
    is_caller: bool

    @property
    def key(self) -> Hashable:
        """Its identity: the graphs of equal ones are the same."""
        return self.before.key, self.now.key()


@dataclass(slots=True)
class Replacing:
    """Graphs that are new in programs under a plan, each once: typed ones, and those placed.

    `placed_like` has for a graph, by its key, the one whose placement is its own too: it has
    the same steps, and its callees give the same answers. `likenesses` are those that are added.
    """

    plan: Plan
    cache: PlanCache
    annotator: Annotator
    placed_like: Mapping[str, str]
    likenesses: dict[str, str] = field(default_factory=dict[str, str])
    typed: list[ReachedGraph] = field(default_factory=list[ReachedGraph])
    placed: dict[Order, list[Replaced]] = field(default_factory=dict["Order", "list[Replaced]"])
    seen: set[Hashable] = field(default_factory=set["Hashable"])

    def add(self, before: Checkable, now: Checkable, order: Order | None) -> None:
        """Add what differs in a program from one that passed.

        Raises SeenByCallers where that is more than a replaced block, and DiagnosticError.
        """
        cut_row(replace(now.typed, plan=self.plan))
        if before.said_of_ranks != now.said_of_ranks:
            raise SeenByCallers
        typed = list(self._pairs(before.typed, now.typed))
        replaced = [pair.now for pair in typed if not pair.is_caller]
        planned = planned_below(replaced, now.typed.graphs, self.cache)
        check_placed(value for each in planned for value in each.placed_values())
        for pair in typed:
            axes = self.cache.axes_of(before.typed.graphs, pair.before.key, pair.now.reach)
            key = pair.now.graph.key
            if axes != self.cache.axes_of(now.typed.graphs, key, pair.now.reach):
                raise SeenByCallers
        placed = [] if order is None else list(self._pairs(before.alive, now.alive))
        moved = [self._annotated(pair, before, now) for pair in placed if not pair.is_caller]
        self.seen.update(pair.key for pair in (*typed, *placed))
        self.typed += replaced
        if order is not None:
            self.placed.setdefault(order, []).extend(moved)
        callers = (pair for pair in placed if pair.is_caller)
        self.likenesses |= {p.now.graph.key: self._first(p.before.key) for p in callers}

    def _first(self, key: str) -> str:
        return self.placed_like.get(key, key)

    def _annotated(self, pair: Pair, before: Checkable, now: Checkable) -> Replaced:
        old, new = self._first(pair.before.key), pair.now.graph.key
        name, gathered = self.annotator.reached(before.alive, old, pair.now.reach)
        now_name, now_gathered = self.annotator.reached(now.alive, new, pair.now.reach)
        if gathered != now_gathered:
            raise SeenByCallers
        return Replaced(name, now_name, pair.now.symbols)

    def _pairs(self, before: Program, now: Program) -> Iterator[Pair]:
        """The graphs that differ and are new here, below those that differ in callees alone."""
        reach = self.cache.reaches.of(self.plan, now.main.block_id)
        start = ReachedGraph(now.main, {}, frozenset(), reach)
        waiting, cores = [(before.main, start)], self.cache.shared.cores
        seen: set[Hashable] = set()
        while waiting:
            old, use = waiting.pop()
            new = use.graph
            pair = Pair(old, use, cores[old.key] == cores[new.key])
            if old.key == new.key or pair.key in seen or pair.key in self.seen:
                continue
            seen.add(pair.key)
            if not pair.is_caller and (new is now.main or _header(old) != _header(new)):
                raise SeenByCallers
            yield pair
            if pair.is_caller:
                if new.foreign or any(call.loop for call in new.calls):
                    raise SeenByCallers  # it sees more of a callee than what goes in and out
                callees = (before.graphs[call.callee] for call in old.calls)
                waiting += zip(callees, reached_calls(use, now.graphs, self.cache), strict=True)


def _header(graph: Graph) -> tuple[object, ...]:
    """All that callers give and take, and that plans know the block by."""
    inputs = tuple(graph.types[value] for value in graph.inputs)
    return graph.block_id, inputs, graph.output_types, len(graph.states), len(graph.carries)
