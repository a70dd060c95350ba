"""Share equal graphs between the programs of many choices of options, and replace edited ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import Recent, calling, content
from xg.ir.graph import Graph, IRProgram
from xg.ir.placement import Plan
from xg.passes.rewrites import eliminate_dead
from xg.passes.shard import (
    AddedSteps,
    Annotator,
    Core,
    PlacedBlocks,
    Placer,
    Replaced,
    SeenByCallers,
    added_steps,
)
from xg.passes.shard.annotate import lend
from xg.sharding.apply_plan import (
    PlanCache,
    PlannedGraphs,
    PlannedValue,
    ReachedGraph,
    SymbolItems,
    check_row,
)
from xg.sharding.local import Clash, Misfit, Reach

Numbers = tuple[frozenset[tuple[str, int]], tuple[tuple[str, int], ...]]  # of sizes and of the mesh
Fine = tuple[tuple[PlannedValue, ...], SymbolItems, Numbers]


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


Pair = tuple[str, str]  # the key of a graph, and of the one in its place


@dataclass(frozen=True, slots=True)
class BlockChanges:
    """All that differs between a program that passed and another, in any plan: pairs of keys.

    `replaced` are graphs as they are written, with the same without dead steps where those differ.
    Their `callers` differ in nothing but what they call.
    """

    replaced: tuple[tuple[Pair, Pair | None], ...]
    callers: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class SharedProgram:
    """A program with shared graphs; `names` has the key of each by the key that it had before."""

    program: IRProgram
    names: Mapping[str, str]


@dataclass(slots=True)
class SharedGraphs:
    """Graphs of many programs; equal graphs become one.

    Choices of options that a block does not distinguish give it equal graphs. Those that differ
    only in their callees have one core (by key in `cores`), the same values and the same steps.
    `planned` and `fine` are what was found of them under plans, of which many say the
    same of a graph; `changes` are those of programs, by their `id`, until the next round.
    """

    contents: Contents
    graphs: dict[tuple[Core, tuple[str, ...]], Graph] = field(
        default_factory=dict[tuple[Core, tuple[str, ...]], Graph]
    )
    cores: dict[str, Core] = field(default_factory=dict[str, Core])
    planned: PlannedGraphs = field(init=False)
    fine: set[Fine] = field(default_factory=set[Fine])
    changes: dict[tuple[int, int], BlockChanges] = field(
        default_factory=dict["tuple[int, int]", "BlockChanges"]
    )

    steps_added: dict[Pair, AddedSteps | None] = field(
        default_factory=dict["Pair", "AddedSteps | None"]
    )

    def __post_init__(self) -> None:
        """Begin with no graph under a plan."""
        self.planned = PlannedGraphs(self.cores)

    def of(self, program: IRProgram) -> SharedProgram:
        """The program with shared graphs; a key then means one graph in all programs."""
        names: dict[str, str] = {}
        graphs: dict[str, Graph] = {}
        for key, graph in program.graphs.items():  # callees first
            calls = graph.calls
            shared = self._shared(graph, tuple(names[call.callee] for call in calls))
            names[key] = shared.key
            graphs[shared.key] = shared
        return SharedProgram(replace(program, graphs=graphs, entry=names[program.entry]), names)

    def find_added_steps(self, before: Graph, now: Graph) -> AddedSteps | None:
        """The steps that a shared graph adds to another, if that is all that differs."""
        pair = before.key, now.key
        if pair not in self.steps_added:
            self.steps_added[pair] = added_steps(before, now)
        return self.steps_added[pair]

    def _shared(self, graph: Graph, callees: tuple[str, ...]) -> Graph:
        """The graph of all programs that says the same and calls these."""
        core, first = self.contents.core(graph)
        if (core, callees) not in self.graphs:
            key = f"{graph.key} ~{len(self.graphs)}"
            self.graphs[core, callees] = calling(first, key, callees)
            self.cores[key] = core
        return self.graphs[core, callees]


@dataclass(frozen=True, eq=False)
class Checkable:
    """A program to be checked under plans; its graphs are shared when the first one asks for it.

    `choice` is its block with the options that are chosen.
    """

    program: IRProgram
    choice: Hashable
    shared: SharedGraphs

    @cached_property
    def _shared_program(self) -> SharedProgram:
        return self.shared.of(self.program)

    @cached_property
    def _alive(self) -> SharedProgram:
        return self.shared.of(lend(eliminate_dead(self.program)))

    @property
    def source_program(self) -> IRProgram:
        """The program as it is written; shares graphs with others by key."""
        return self._shared_program.program

    @property
    def alive(self) -> IRProgram:
        """The program without dead steps, its loops given parameters; shares graphs by key."""
        return self._alive.program

    @cached_property
    def alive_keys(self) -> dict[str, str | None]:
        """Map keys of `source_program` to keys of `alive`; None if only dead steps call it."""
        return {
            name: self._alive.names.get(key) for key, name in self._shared_program.names.items()
        }

    @cached_property
    def said_of_ranks(self) -> tuple[object, ...]:
        """All that a plan depends on beside its lines: blocks, and shapes that name ranks."""
        graphs = self.program.graphs.values()
        cuts = {axis for graph in graphs for cuts in graph.layouts.values() for axis in cuts}
        return {graph.block_id for graph in graphs}, cuts, tuple(self.program.mesh.items())

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of its sizes and of its mesh axes."""
        return frozenset(self.program.all_numbers.items()), tuple(self.program.mesh.items())

    def since(self, before: Checkable) -> BlockChanges:
        """All that differs from a program that passed.

        Raises SeenByCallers where that is more than replaced blocks.
        """
        key = id(before), id(self)
        if key not in self.shared.changes:
            self.shared.changes[key] = _change(before, self)
        return self.shared.changes[key]


def _change(before: Checkable, now: Checkable) -> BlockChanges:
    if before.said_of_ranks != now.said_of_ranks:
        raise SeenByCallers
    cores = now.shared.cores
    entry = before.source_program.entry, now.source_program.entry
    waiting, replaced, callers = [entry], dict[Pair, Pair | None](), dict[Pair, None]()
    while waiting:
        pair = waiting.pop()
        if pair[0] == pair[1] or pair in replaced or pair in callers:
            continue
        old, new = before.source_program.graphs[pair[0]], now.source_program.graphs[pair[1]]
        alive = _alive(pair, before, now)
        if cores[old.key] != cores[new.key]:
            if pair != entry and _header(old) != _header(new):
                raise SeenByCallers
            replaced[pair] = alive
            continue
        if new.foreign or any(call.loop for call in new.calls):
            raise SeenByCallers  # it sees more of a callee than what goes in and out
        if alive and cores[alive[0]] != cores[alive[1]]:
            raise SeenByCallers
        callers |= dict.fromkeys((pair, alive) if alive else (pair,))
        calls = zip(old.calls, new.calls, strict=True)
        waiting += ((one.callee, other.callee) for one, other in calls)
    return BlockChanges(tuple(replaced.items()), tuple(callers))


def _alive(pair: Pair, before: Checkable, now: Checkable) -> Pair | None:
    """The same graphs without dead steps, if they differ."""
    old, new = before.alive_keys[pair[0]], now.alive_keys[pair[1]]
    if old is None or new is None:
        if old is new:
            return None
        raise SeenByCallers
    return None if old == new else (old, new)


def _header(graph: Graph) -> tuple[object, ...]:
    """All that callers give and take, and that plans know the block by."""
    inputs = tuple(graph.types[value] for value in graph.inputs)
    return graph.block_id, inputs, graph.output_types, len(graph.states), len(graph.carries)


# Graphs in the place of others, in programs that are as ones that passed but for these.
#
# After most edits of a block its callers see no difference: it takes and leaves the same values,
# and ranks have them in parts as before. Then only the block is placed again, and no caller.


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
        check_row(now.source_program, self.plan)
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
        added = (
            self._added_steps(uses[0].graph, now.source_program.graphs[pair[1]], now)
            if uses
            else None
        )
        planned = (each for use in uses for each in self.cache.of(use.graph, use.reach))
        if added is None or any(each.value is added.behind for each in planned):
            raise SeenByCallers
        if alive and order:
            reaches = [use.reach for use in uses]
            self.alone.setdefault(order, []).extend(
                self._place_added_steps(alive, reaches, now, order)
            )
        pairs = (pair, alive) if alive else (pair,)
        self.likenesses |= {new: self.uses.first(old) for old, new in pairs}

    def _place_added_steps(
        self, pair: Pair, reaches: Sequence[Reach], now: Checkable, order: Order
    ) -> list[Graph]:
        first = self.uses.first(pair[0])
        names = {self.annotator.names.get((first, reach)) for reach in reaches}
        placed = [self.annotator.graphs[name] for name in names & self.uses.placed[order] if name]
        placer = self.placers.get((order, frozenset(now.program.numbers.items())))
        if placer is None or not placed:
            raise SeenByCallers
        added = self._added_steps(self.annotator.source[first], now.alive.graphs[pair[1]], now)
        if added is None:
            raise SeenByCallers
        if any(added.behind in graph.placement_requests for graph in placed):
            raise SeenByCallers
        return [each for graph in placed for each in placer.place_added_steps(graph.key, added)]

    def _added_steps(self, before: Graph, now: Graph, program: Checkable) -> AddedSteps | None:
        """The steps that a graph adds to another, unless the plan or a callee sees more of that."""
        added = program.shared.find_added_steps(before, now)
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
            axes = self.cache.axes_of(before.source_program.graphs, old, use.reach)
            try:
                same = axes == self.cache.axes_of(now.source_program.graphs, new, use.reach)
            except (Misfit, Clash):
                raise SeenByCallers from None
            if not same:
                raise SeenByCallers
            typed.append(replace(use, graph=now.source_program.graphs[new]))
            if alive and order is not None:
                placed += self._annotate(alive, before, now, use, order)
        if not typed or (alive and order is not None and not placed):
            raise SeenByCallers  # nothing is known of what they ask
        self.typed += typed
        if order is not None:
            self.placed.setdefault(order, []).extend(placed)

    def _annotate(
        self, pair: Pair, before: Checkable, now: Checkable, use: ReachedGraph, order: Order
    ) -> Iterator[Replaced]:
        """The placement requests of a graph for one use; none if it is not placed there."""
        key = self.uses.first(pair[0]), use.reach
        if self.annotator.names.get(key) in self.uses.placed[order]:
            name, gathered = self.annotator.annotate_graph(before.alive, *key)
            now_name, now_gathered = self.annotator.annotate_graph(now.alive, pair[1], use.reach)
            if gathered != now_gathered:
                raise SeenByCallers
            yield Replaced(name, now_name, use.symbols)
