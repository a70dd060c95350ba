"""Collect the tensors that other code shows, and find the edge of the diagram that each is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import Final, Literal

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.parameters import join
from xg.sharding.local import ShardSpec
from xg.verify.rank_comparison import window
from xg_runtime.module import Array
from xg_runtime.ranks.grid import Grid
from xg_torch.compare.flat_program import FlatEdge, FlatProgram, FlatStep, in_shape, off

# Arrays that the ranks of a mesh hold of one tensor, put together as one device would hold it.
#
# Their code may cut a tensor along other axes than the plan does, so the axes are found by shape,
# and by numbers where several would do. Ranks may also hold terms of a sum that is taken later.


NEARER: Final = 0.5  # how far off a sum is beside its terms, to be what was meant


@dataclass(frozen=True, slots=True, eq=False)
class WholeArray:
    """A tensor of all ranks in a shape of ours; `holder` is the rank that each number is from.

    With `is_terms` each rank has a term of a sum, and the array is one of these.
    """

    array: Array
    holder: Array
    is_terms: bool = False

    def wrong_ranks(self, ours: Array, tolerance: float, total: float = 0.0) -> tuple[int, ...]:
        """The ranks whose own numbers differ; all that hold some where none does by itself."""
        ranks = [int(rank) for rank in np.unique(self.holder)]
        parts = {rank: self.holder == rank for rank in ranks}
        wrong = [
            r for r, own in parts.items() if off(self.array[own], ours[own], total) > tolerance
        ]
        return tuple(wrong or ranks)


@dataclass(frozen=True, slots=True, eq=False)
class RankArrays:
    """The parts of one tensor, by rank; of copies that of rank `seen_by` counts."""

    parts: Sequence[Array]
    mesh: Mapping[str, int]
    seen_by: int = 0

    def joined(self, cuts: ShardSpec) -> WholeArray:
        """The tensor that is cut so."""
        grid, shape = Grid(dict(self.mesh)), list(self.parts[0].shape)
        for axis, over, *_ in cuts:
            shape[axis] *= grid.size(over)
        whole, holder = np.empty(shape, self.parts[0].dtype), np.zeros(shape, np.int64)
        cut = {axis for _, over, *_ in cuts for axis in grid.axes(over)}
        at = grid.coordinates(self.seen_by)
        for number, part in enumerate(self.parts):
            place = grid.coordinates(number)
            if all(place[axis] == at[axis] for axis in self.mesh if axis not in cut):
                where = window(part.shape, cuts, place, self.mesh)
                whole[where], holder[where] = part, number
        return WholeArray(whole, holder)

    def like(self, ours: Array) -> WholeArray | None:
        """The tensor in the shape of ours, cut as brings it nearest; None where nothing fits."""
        best: WholeArray | None = None
        for cuts in self._ways(ours.size):
            found = _shaped(self.joined(cuts), ours.shape)
            if found is not None and (
                best is None or off(found.array, ours) < off(best.array, ours)
            ):
                uncut = [axis for axis in self.mesh if axis not in {over for _, over, *_ in cuts}]
                best = WholeArray(
                    found.array, found.holder, self._are_terms(found, ours, cuts, uncut)
                )
        return best

    def _ways(self, size: int) -> Iterator[ShardSpec]:
        """The cuts that give a tensor of so many numbers."""
        first = self.parts[0]
        if any(part.shape != first.shape for part in self.parts):
            return
        axes = [axis for axis, ranks in self.mesh.items() if ranks > 1]
        for count in range(len(axes) + 1):
            for over in combinations(axes, count):
                if first.size * prod(self.mesh[axis] for axis in over) == size:
                    for places in product(range(-first.ndim, 0), repeat=count):
                        yield tuple(zip(places, over, strict=True))

    def _are_terms(
        self, found: WholeArray, ours: Array, cuts: ShardSpec, uncut: Sequence[str]
    ) -> bool:
        """Whether the sum over ranks that should be copies is much nearer than a copy."""
        if ours.dtype.kind != "f":
            return False
        grid, apart = Grid(dict(self.mesh)), off(found.array, ours)
        for count in range(1, len(uncut) + 1):
            for over in combinations(uncut, count):
                groups = (grid.group(rank, "*".join(over)) for rank in range(len(self.parts)))
                sums = [np.sum([self.parts[each] for each in group], axis=0) for group in groups]
                together = RankArrays(sums, self.mesh, self.seen_by).joined(cuts)
                shaped = _shaped(together, ours.shape)
                if shaped is not None and off(shaped.array, ours) < NEARER * apart:
                    return True
        return False


def _shaped(found: WholeArray, shape: tuple[int, ...]) -> WholeArray | None:
    array, holder = in_shape(found.array, shape), in_shape(found.holder, shape)
    return None if array is None or holder is None else WholeArray(array, holder)


@dataclass(slots=True, eq=False)
class Event:
    """One tensor that a module was given, or gave, and its gradient once that is known.

    `edge` is set where the edge of the diagram is known, instead of a module. Where several ranks
    ran, `ranks` and `rank_gradients` are what all of them have, and `array` is that of one.
    """

    module: str
    kind: Literal["input", "output"]
    array: Array
    gradient: Array | None = None
    call: int = 0
    edge: str | None = None
    ranks: RankArrays | None = None
    rank_gradients: RankArrays | None = None

    @property
    def key(self) -> str:
        """Its name among arrays: that of its module, ``@1`` for the second call, or of its edge."""
        return self.edge or key_of(self.module, self.kind, self.call)

    def __str__(self) -> str:
        return f"the {self.kind} of {self.module}" if self.module else f"{self.edge}"


def key_of(module: str, kind: str, call: int) -> str:
    """The name of a tensor of a module among arrays: ``layers.0.up@1.input``."""
    return module + (f"@{call}" if call else "") + (".input" if kind == "input" else "")


def event_of(key: str, array: Array, gradient: Array | None) -> Event:
    """The tensor of a module that has this name among arrays."""
    name = key.removesuffix(".input")
    module, _, call = name.partition("@")
    kind = "output" if name == key else "input"
    return Event(module, kind, array, gradient, int(call) if call.isdecimal() else 0)


@dataclass(slots=True)
class ForeignRun:
    """Everything that one run of their code showed; `outputs` are in the order of its result."""

    events: list[Event] = field(default_factory=list[Event])
    outputs: list[tuple[str, Array]] = field(default_factory=list[tuple[str, Array]])
    gradients: dict[str, Array | None] = field(default_factory=dict[str, "Array | None"])
    direct: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    is_whole: bool = True  # otherwise a gradient that is not there says nothing
    tied: Mapping[str, str] = field(default_factory=dict[str, str])  # names of one tensor


# Which edge of the diagram a tensor of their code should be, by the parameters around it.
#
# A module with parameters of its own reads an edge and makes one: the operand of the first step
# that reads them, and the first result that depends on all. A module around others makes a result
# that depends on all of theirs, or one that follows from it without further parameters. Numbers
# decide only among these.


FOLLOWING: Final = 12  # results that are looked at behind the first that depends on all
Owners = Mapping[str, Sequence[Sequence[str]]]  # by tensor: our parameters, parts of it in order


@dataclass(slots=True, eq=False)
class MatchedEdge:
    """A tensor of theirs as an edge of ours: in our shape, and how far off.

    `held` and `held_gradient` say which rank has which number, where their code ran on several.
    """

    event: Event
    edge: FlatEdge
    array: Array
    gradient: Array | None
    error: float
    held: WholeArray | None = None
    held_gradient: WholeArray | None = None

    @property
    def is_terms(self) -> bool:
        """Whether a module gave terms of a sum over ranks, which its caller takes."""
        return self.event.edge is None and self.held is not None and self.held.is_terms


@dataclass(slots=True)
class Matches:
    """All tensors that have an edge, in the order of their code, and how many have none."""

    found: list[MatchedEdge] = field(default_factory=list[MatchedEdge])
    without: list[Event] = field(default_factory=list[Event])

    def agreeing(self, tolerance: float) -> set[FlatEdge]:
        """The edges whose numbers are theirs."""
        return {match.edge for match in self.found if match.error <= tolerance}


@dataclass(frozen=True, slots=True)
class Matcher:
    """One run of ours, one of theirs, and what their parameters are called here."""

    flat: FlatProgram
    run: ForeignRun
    owners: Owners
    tolerance: float

    def match(self) -> Matches:
        """Every event with its edge."""
        matches = Matches()
        named = {edge.full_name: edge for edge in self.flat.edges if edge.name}
        named |= {f"d/{path}": edge for path, edge in self.flat.params.items()}
        for event in self.run.events:
            if event.edge is not None:
                ways = [(event, [named[event.edge]])] if event.edge in named else []
            else:
                ways = list(self._ways(event))
            best = [self._best(part, edges) for part, edges in ways]
            own = [match for match in best if match is not None]
            is_leaf = event.edge is not None or event.module in self.run.direct
            near = (m for m in own if is_leaf or m.error <= self.tolerance)
            matches.found += [match for match in near if not match.is_terms]
            if not own:
                matches.without.append(event)
        return matches

    def _ways(self, event: Event) -> Iterator[tuple[Event, list[FlatEdge]]]:
        """The event, or its parts where one tensor holds several parameters, with their edges."""
        mine = self._params_of(event.module)
        if not mine or any(tensor not in self.owners for tensor in mine):
            return
        columns = max(len(self.owners[tensor]) for tensor in mine)
        direct = event.module in self.run.direct
        if not direct or columns == 1:
            params = {p for tensor in mine for part in self.owners[tensor] for p in part}
            yield event, list(self._candidates(event, params))
            return
        parts = [{self.owners[tensor][i][0] for tensor in mine} for i in range(columns)]
        if event.kind == "input":
            yield event, list(self._candidates(event, parts[0]))
            return
        shapes = [self.flat.params[min(part, key=self._rank)].array.shape for part in parts]
        widths = [shape[-1] for shape in shapes]
        if event.array.shape[-1:] != (sum(widths),):
            return
        cuts = list(np.cumsum(widths)[:-1])
        arrays = np.split(event.array, cuts, -1)
        grads = [None] * columns if event.gradient is None else np.split(event.gradient, cuts, -1)
        for array, gradient, part in zip(arrays, grads, parts, strict=True):
            piece = Event(event.module, event.kind, array, gradient, event.call)
            yield piece, list(self._candidates(piece, part))

    def _rank(self, path: str) -> int:
        return -self.flat.params[path].array.ndim

    def _params_of(self, module: str) -> list[str]:
        """The tensors of a module: its own, else those of all modules in it."""
        own = self.run.direct.get(module)
        start = f"{module}." if module else ""
        names = own or [name for name in self.run.tied if name.startswith(start)]
        return list(dict.fromkeys(self.run.tied.get(name, name) for name in names))

    def _candidates(self, event: Event, params: set[str]) -> Iterator[FlatEdge]:
        """The edges that an event may be, for each place where the parameters are read.

        The place of its own call is the first.
        """
        uses = {
            param: [step for step in self.flat.steps if _reads(step, param)] for param in params
        }
        count = max(map(len, uses.values()), default=0)
        own = min(event.call, count - 1)
        for place in sorted(range(count), key=lambda place: place != own):
            steps = {p: each[min(place, len(each) - 1)] for p, each in uses.items() if each}
            if event.kind == "input":
                yield from _operand(self.flat.steps, steps)
            else:
                yield from self._results(steps)

    def _results(self, uses: Mapping[str, FlatStep]) -> Iterator[FlatEdge]:
        """The first result that depends on all of them, and what follows without parameters."""
        known: dict[FlatEdge, frozenset[str]] = {}
        wanted, count = frozenset(uses), 0
        for step in self.flat.steps:
            read = frozenset(param for param, use in uses.items() if use is step)
            others = {p for edge in step.inputs for p in edge.of} - wanted
            held = read.union(*(known.get(edge, frozenset()) for edge in step.inputs))
            if not held or (wanted == held and others):
                continue
            for edge in step.outputs[:1]:
                known[edge] = held
                if held == wanted and count < FOLLOWING:
                    count += 1
                    yield edge

    def _best(self, event: Event, edges: Sequence[FlatEdge]) -> MatchedEdge | None:
        """The match with the nearest numbers; where none are near the first, of its own call."""
        tried = [match for edge in edges if (match := compared(event, edge)) is not None]
        if not tried:
            return None
        best = min(tried, key=lambda match: match.error)
        return best if best.error <= self.tolerance else tried[0]


def compared(event: Event, edge: FlatEdge) -> MatchedEdge | None:
    """An event as an edge, in its shape; None where the shapes do not fit."""
    if event.ranks is not None:
        return _of_ranks(event, edge)
    array = in_shape(event.array, edge.array.shape)
    if array is None:
        return None
    gradient = None if event.gradient is None else in_shape(event.gradient, edge.array.shape)
    return MatchedEdge(event, edge, array, gradient, off(array, edge.array))


def _of_ranks(event: Event, edge: FlatEdge) -> MatchedEdge | None:
    assert event.ranks is not None
    held, back = event.ranks.like(edge.array), None
    if held is None:
        return None
    if event.rank_gradients is not None and edge.gradient is not None:
        back = event.rank_gradients.like(edge.gradient)
    error = off(held.array, edge.array)
    return MatchedEdge(event, edge, held.array, back and back.array, error, held, back)


def _reads(step: FlatStep, param: str) -> bool:
    """Whether a step brings a parameter, or what is made from it alone, together with the rest."""
    if not any(param in edge.of for edge in step.inputs):
        return False
    return not all(edge.of for edge in step.inputs)


def _operand(steps: Sequence[FlatStep], uses: Mapping[str, FlatStep]) -> Iterator[FlatEdge]:
    """The edge that the first of the uses reads besides parameters.

    Where the block around it has no other parameters it is that block's first input.
    """
    first = min(uses.values(), key=steps.index)
    record = first.record
    held = {join(record.path, str(value.name)) for value in record.graph.param_values()}
    if record.path and held <= uses.keys() and not record.calls:
        inside = [edge for step in steps if step.record is record for edge in step.inputs]
        entry = record.values[record.graph.inputs[0]]
        yield from [edge for edge in inside if edge.array is entry][:1]
        return
    yield from [edge for edge in first.inputs if not edge.of][:1]
