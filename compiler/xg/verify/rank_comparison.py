"""Compare a parallel program, its traffic and each of its edges with the single-device program.

Every rank gets its shards of parameters, inputs and cotangents; its results are reassembled and
compared with the outputs and gradients of one device. Replicas must be equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, reduce
from typing import Any, Final, TypeVar

import numpy as np

import xg_runtime.ranks as ranks
from xg.cost.communication import traffic
from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.collectives import COLLECTIVES
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg.ir.placement import (
    CONSTANT,
    AxisState,
    Placement,
    axes_over,
    is_zigzag,
    ordered_axis,
    ranks_over,
    zigzag_axes,
)
from xg.sharding.local import ShardSpec, cuts
from xg.verify.reference.evaluate import part_of, whole_of
from xg.verify.reference.interpret import Record
from xg_runtime import probe
from xg_runtime.module import Array, Module, Saved, move_of
from xg_runtime.optim import global_norm
from xg_runtime.ranks.grid import Grid, parts_of
from xg_runtime.ranks.parts import lengths, padded_shape

# Reassemble a sharded array, and report the first rank whose shard is wrong.


Window = tuple[slice | Array, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """A reassembled array; `unlike` is the first rank with other bits than one of the same shard.

    Where shards differ in shape the array is the first such shard.
    """

    array: Array
    unlike: int | None


def gather_shards(
    parts: Sequence[Array], where: ShardSpec, mesh: Mapping[str, int], counting: int | None = None
) -> Gathered:
    """Assemble the global array; replicas come from the last rank, or from rank `counting`."""
    shape = list(parts[0].shape)
    grid = Grid(dict(mesh))
    for axis, over, *_ in where:
        shape[axis] *= grid.size(over)
    whole, filled = np.zeros(shape, parts[0].dtype), set[tuple[int, ...]]()
    unlike: int | None = None
    for number, part in enumerate(parts):
        if part.shape != parts[0].shape:
            return Gathered(part, number)
        at = grid.coordinates(number)
        mine = window(part.shape, where, at, mesh)
        same = np.array_equal(whole[mine], part, equal_nan=part.dtype.kind == "f")
        corner = tuple(at[axis] for _, over, *_ in where for axis in grid.axes(over))
        if corner in filled and not same and unlike is None:
            unlike = number
        filled.add(corner)
        whole[mine] = part
    if counting is not None:
        at = grid.coordinates(counting)
        whole[window(parts[0].shape, where, at, mesh)] = parts[counting]
    for axis, length in lengths(where).items():
        whole = whole.take(range(length), axis)
    return Gathered(whole, unlike)


def furthest(
    parts: Sequence[Array], wanted: Array, where: ShardSpec, mesh: Mapping[str, int]
) -> int:
    """Return the rank whose shard differs most from an expected global array."""
    grid, true = Grid(dict(mesh)), wanted
    wanted = np.zeros(padded_shape(true.shape, where, mesh), true.dtype)
    wanted[tuple(map(slice, true.shape))] = true

    def distance(number: int) -> float:
        part = parts[number]
        mine = wanted[window(part.shape, where, grid.coordinates(number), mesh)]
        with np.errstate(invalid="ignore"):  # of two infinities
            apart = np.where(part == mine, 0.0, np.subtract(part, mine, dtype=np.float64))
        return float(np.linalg.norm(np.nan_to_num(apart, nan=np.inf)))

    return max(range(len(parts)), key=distance)


def window(
    shape: Sequence[int], where: ShardSpec, at: Mapping[str, int], mesh: Mapping[str, int]
) -> Window:
    """The index of the part of a rank at these coordinates in the global array."""
    place = [0] * len(shape)
    for axis, over, *_ in where:
        if is_zigzag(over):
            return _chunks(shape, where, at, mesh)
        place[axis] = place[axis] * mesh[over] + at[over]
    return tuple(slice(p * n, p * n + n) for p, n in zip(place, shape, strict=True))


def _chunks(
    shape: Sequence[int], where: ShardSpec, at: Mapping[str, int], mesh: Mapping[str, int]
) -> Window:
    """The same where ranks have two chunks of an axis: from the innermost cut to the outermost."""
    along, length = [np.arange(n) for n in shape], list(shape)
    for axis, over, *_ in reversed(where):
        (name,) = axes_over(over)
        ranks, rank = mesh[name], at[name]
        if is_zigzag(over):
            half = length[axis] // 2
            far = (2 * ranks - 2 - 2 * rank) * half  # from the first half of a rank to the second
            along[axis] = along[axis] + rank * half + np.where(along[axis] < half, 0, far)
        else:
            along[axis] = along[axis] + rank * length[axis]
        length[axis] *= ranks
    return np.ix_(*along)


Arrays = Mapping[str, Array]
Key = tuple[str, str, str]  # of traffic: pass, kind, mesh axis
Counts = dict[Key, tuple[int, int]]

FAINT: Final = 1e-2  # of ‖cotangents‖: where all gradients together are less, rounding may be all


@dataclass(frozen=True, slots=True)
class RankRun:
    """Outputs and gradients by name; of a rank its parts, and what it sent in each pass.

    Calls and elements are counted by pass, kind and mesh axis. `moved` are running statistics
    after the run.
    """

    outputs: Arrays
    gradients: Arrays
    sent: Counts
    moved: Arrays = field(default_factory=dict[str, Array])


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """How far ranks are from one device; `first` is the first array that differs, and why."""

    outputs: int
    gradients: int
    error: float
    first: str | None


@dataclass(frozen=True, slots=True)
class ArrayDifference:
    """How far ranks are from one device in one array, `furthest` the most of them.

    `unlike` is the first rank that differs in bits from another that holds the same part.
    """

    name: str
    error: float
    furthest: int
    unlike: int | None

    @property
    def is_wrong(self) -> bool:
        """Whether it is more than rounding."""
        return not self.error <= probe.SAME_PROGRAM or self.unlike is not None

    def describe(self, grid: Grid) -> str:
        """The array, and a rank that has it wrong."""
        if self.error <= probe.SAME_PROGRAM and self.unlike is not None:
            return f"{self.name}, in bits, on {grid.describe(self.unlike)}"
        return f"{self.name}, most on {grid.describe(self.furthest)}"


@dataclass(frozen=True)
class RankComparison:
    """The arrays that both programs run on.

    `undecided` says how far apart last bits may make the elements of outputs and gradients. Such an
    element may be off by that. If there are any, running statistics are not compared.
    """

    ranks: IRProgram
    params: Arrays
    inputs: Arrays
    cotangents: Arrays
    seed: int
    undecided: Arrays = field(default_factory=dict[str, Array])

    def each(self, change: Callable[[Arrays], Arrays]) -> RankComparison:
        """The same with arrays changed by name, as into one rank's parts of them."""
        params, inputs = change(self.params), change(self.inputs)
        return replace(self, params=params, inputs=inputs, cotangents=change(self.cotangents))

    @property
    def arrays(self) -> dict[str, Arrays]:
        """The global arrays that a rank takes its shards of, by kind."""
        return {"params": self.params, "inputs": self.inputs, "cotangents": self.cotangents}

    @cached_property
    def cuts(self) -> Mapping[str, ShardSpec]:
        """Which axes of its arrays are cut."""
        return cuts(self.ranks)

    def on_one_device(self, module: Module) -> RankRun:
        """Run on one device."""
        params = dict(self.params)
        outputs, saved = module.forward(params, dict(self.inputs), seed=self.seed)
        moved = moved_by(module, params, saved)
        return RankRun(outputs, module.backward(params, saved, dict(self.cotangents)), {}, moved)

    def on_ranks(
        self, module: Module, around: Callable[[], AbstractContextManager[Any]] = nullcontext
    ) -> list[RankRun]:
        """Run on all simulated ranks; raises RankError where they do not fit together.

        `around` is entered by every rank.
        """

        def rank() -> RankRun:
            with around():
                return run_rank(module, self.cuts, self.arrays, self.seed)

        return ranks.simulate(self.ranks.mesh, rank)

    def compare(self, alone: RankRun, together: Sequence[RankRun]) -> RankAgreement:
        """Everything that a run gives against one device, in the contract's measure."""
        found = self.differences(alone, together)
        return summarize_differences(
            found, self.ranks.mesh, len(alone.outputs), len(alone.gradients)
        )

    def differs(self, alone: RankRun, together: Sequence[RankRun]) -> bool:
        """Whether any array is wrong."""
        return any(difference.is_wrong for difference in self.differences(alone, together))

    def differences(self, alone: RankRun, together: Sequence[RankRun]) -> Iterator[ArrayDifference]:
        """Yield how far every output, statistic and gradient is from the run on one device."""
        outputs = [run.outputs for run in together]
        yield from self._differences("", alone.outputs, outputs, 0.0)
        if not self.undecided:
            moved = [run.moved for run in together]
            yield from self._differences("moved ", alone.moved, moved, 0.0)
        gradients = [run.gradients for run in together]
        faint = FAINT * global_norm(dict(self.cotangents))
        yield from self._differences("d", alone.gradients, gradients, faint)

    def _differences(
        self, prefix: str, wanted: Arrays, found: Sequence[Arrays], faint: float
    ) -> Iterator[ArrayDifference]:
        total = global_norm({name: finite_part(each) for name, each in wanted.items()})
        total = max(total, faint)
        for name in dict.fromkeys([*wanted, *(name for each in found for name in each)]):
            missing = next((n for n, each in enumerate(found) if name not in each), None)
            if name not in wanted or missing is not None:
                yield ArrayDifference(prefix + name, float("inf"), missing or 0, None)
                continue
            parts = [each[name] for each in found]
            yield self._difference(prefix + name, parts, wanted[name], name, total)

    def _difference(
        self, said: str, parts: Sequence[Array], wanted: Array, name: str, total: float
    ) -> ArrayDifference:
        where, mesh = self.cuts.get(name, ()), self.ranks.mesh
        whole = gather_shards(parts, where, mesh)
        error = self._error(said, whole.array, wanted, total)
        if whole.array.shape != wanted.shape or (
            whole.unlike is None and error <= probe.SAME_PROGRAM
        ):
            return ArrayDifference(said, error, whole.unlike or 0, whole.unlike)
        worst = furthest(parts, wanted, where, mesh)
        whole = gather_shards(parts, where, mesh, worst)
        error = self._error(said, whole.array, wanted, total)
        return ArrayDifference(said, error, worst, whole.unlike)

    def _error(self, said: str, found: Array, wanted: Array, total: float) -> float:
        """How far the elements are off, but for those that last bits may make as different."""
        if said in self.undecided and found.shape == wanted.shape:
            with np.errstate(invalid="ignore"):
                near = np.abs(found - wanted) <= self.undecided[said]
            found = np.where(near, wanted, found)
        return error_of(found, wanted, total)


def summarize_differences(
    differences: Iterable[ArrayDifference], mesh: Mapping[str, int], outputs: int, gradients: int
) -> RankAgreement:
    """Return the largest of the differences, and the first array that is wrong."""
    found = list(differences)
    worst = max([0.0, *(each.error for each in found)])
    wrong = next((each for each in found if each.is_wrong), None)
    first = wrong and wrong.describe(Grid(dict(mesh)))
    return RankAgreement(outputs, gradients, worst, first)


def run_rank(
    module: Module, where: Mapping[str, ShardSpec], given: Mapping[str, Arrays], seed: int
) -> RankRun:
    """The run of the rank that calls this, on its parts of whole arrays, `Trial.arrays`."""
    counters = ranks.current().counters
    counters.clear()
    own = {kind: ranks.local_shards(arrays, where) for kind, arrays in given.items()}
    with counters.during("forward"):
        outputs, saved = module.forward(own["params"], own["inputs"], seed=seed)
    moved = moved_by(module, own["params"], saved)
    with counters.during("backward"):
        gradients = module.backward(own["params"], saved, own["cotangents"])
    counts = {key: (one.calls, one.elements) for key, one in counters.counts.items()}
    return RankRun(outputs, gradients, counts, moved)


def moved_by(module: Module, params: Arrays, saved: Saved) -> dict[str, Array]:
    """The running statistics of a module after a forward pass, none where it has none."""
    move = move_of(module)
    return move(dict(params), saved) if move else {}


def error_of(found: Array, wanted: Array, total: float) -> float:
    """How far an array is off; infinity where shapes differ, or the places without a number."""
    if found.shape != wanted.shape:
        return float("inf")
    if not np.array_equal(np.isfinite(found), np.isfinite(wanted)):
        return float("inf")
    return probe.error(finite_part(found), finite_part(wanted), total)


def finite_part(array: Array) -> Array:
    """The array with zeros where it is no number."""
    return np.where(np.isfinite(array), array, 0.0)


# The traffic that ranks sent, compared with the formulas of the placed program.


NOTHING: Final = (0, 0)


@dataclass(frozen=True, slots=True)
class TrafficCheck:
    """Collectives of one kind over one mesh axis in one pass: calls and elements of payload.

    Where gradients and parameters are `bundled`, one call may send several of them.
    """

    direction: str
    kind: str
    over: str
    said: tuple[int, int]
    counted: tuple[int, int]
    bundled: bool = False

    @property
    def agrees(self) -> bool:
        """Whether what was counted is what the formulas say."""
        return self.said == self.counted or self.saves_calls

    @property
    def saves_calls(self) -> bool:
        """Whether the same was sent in fewer calls, as it may be."""
        (calls, elements), (counted_calls, sent) = self.said, self.counted
        return self.bundled and elements == sent and 0 < counted_calls < calls


def expected(placed: IRProgram) -> Counts:
    """The formulas in numbers."""
    numbers = {**placed.main.sizes.bind(placed.numbers), **placed.mesh}
    counts: Counts = {}
    for each in traffic(placed):
        if ranks_over(each.over).evaluate(placed.mesh) > 1:
            times, payload = each.calls.evaluate(numbers), each.counted.evaluate(numbers)
            add(counts, (each.direction, each.kind, each.over), times, payload)
    return counts


def add(counts: Counts, key: Key, calls: int, elements: int) -> None:
    """Count more calls, and the elements that they send."""
    before = counts.get(key, NOTHING)
    counts[key] = before[0] + calls, before[1] + elements


def count(
    placed: IRProgram, together: Sequence[RankRun], *, bundled: bool = False
) -> tuple[TrafficCheck, ...]:
    """Compare traffic with the formulas: a row for each pass, kind and mesh axis.

    Code that is `bundled`, as kernels are, sends several gradients or parameters at once.
    """
    return tuple(
        replace(row, bundled=bundled and _can_bundle(row))
        for row in compared(expected(placed), [run.sent for run in together])
    )


def _can_bundle(row: TrafficCheck) -> bool:
    """Tell whether one call may send several: parameters in both passes, gradients in one."""
    record = COLLECTIVES[row.kind]
    return record.gathers or (record.sums and row.direction == "backward")


def compared(said: Counts, sent: Sequence[Counts]) -> Iterator[TrafficCheck]:
    """The rows of the formulas and of the ranks; of ranks that differ the first such counts."""
    counted = next((each for each in sent if each != said), sent[0])
    for key in dict.fromkeys([*said, *counted]):
        yield TrafficCheck(*key, said.get(key, NOTHING), counted.get(key, NOTHING))


# The first edge on which ranks differ from one device, by the records of the interpreter.
#
# Every value of every call, and the cotangent of every value, is reassembled from all ranks by its
# placement. Replicas must be the same to the last bit.


Add = Callable[[Array, Array], Array]
Same = Callable[[Array, Array], bool]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Edges:
    """A count of compared edges, the first difference in words, and its pass."""

    count: int
    first: str | None
    is_backward: bool = False


@dataclass(frozen=True, slots=True)
class _Edge:
    """A value on all ranks, and on one device where that has it."""

    name: str
    path: str
    line: int
    placement: Placement
    parts: Sequence[Array]
    wanted: Array | None
    is_backward: bool = False


def compare_edges(
    one: IRProgram,
    record: Record,
    many: IRProgram,
    records: Sequence[Record],
    same: Same,
    add: Add,
    shared: Set[Value] = frozenset(),
) -> Edges:
    """All edges, forward and then backward, in the order in which they are made.

    Of values and calls that are `shared` with other stages of a pipeline, `many` has a part of the
    gradient only.
    """
    both = _Both(one, many, shared)
    padded = {(many.all_numbers[name], length) for name, length in many.lengths.items()}
    count = 0
    for edge in both.edges(record, records):
        count += 1
        said = _differs(edge, many, same, add, padded)
        if said is not None:
            where = f"{edge.name} of line {edge.line}" + (f" in {edge.path}" if edge.path else "")
            return Edges(count, f"{where}: {said}", edge.is_backward)
    return Edges(count, None)


# ---- one edge ------------------------------------------------------------------------------------


def _differs(
    edge: _Edge,
    program: IRProgram,
    same: Same,
    add: Add,
    padded: Set[tuple[int, int]] = frozenset(),
) -> str | None:
    """Describe the difference on an edge, with its rank; None if there is no difference."""
    mesh, grid, parts = program.mesh, Grid(dict(program.mesh)), list(edge.parts)
    numbers = list(range(len(parts)))
    for axis in reversed(list(mesh)):  # the last axis is the innermost
        state, size = edge.placement.get(axis, CONSTANT), mesh[axis]
        if state.is_uniform:
            unlike = _unlike(parts, numbers, size)
            if unlike is not None:
                return f"{grid.describe(unlike)} has other bits than its neighbor along {axis}"
        over = ordered_axis(axis, zigzag_axes(program.plan))
        parts = [_merge_parts(group, state, over, add) for group in _groups(parts, size)]
        numbers = [group[0] for group in _groups(numbers, size)]
    whole, array = parts[0], edge.wanted
    if padded and array is not None and whole.ndim == array.ndim:
        pairs = zip(whole.shape, array.shape, strict=True)
        whole = whole[tuple(slice(n if (m, n) in padded else m) for m, n in pairs)]
    if array is None or (whole.shape == array.shape and same(whole, array)):
        return None
    summed = [axis for axis, state in edge.placement.items() if state.kind in "PM"]
    if summed:
        return f"what the ranks of {' and '.join(summed)} hold together differs from one device"
    return f"{grid.describe(_first_rank(edge, program, same))} differs from one device"


def _groups(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Neighbors, `size` at a time."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def _unlike(parts: Sequence[Array], numbers: Sequence[int], size: int) -> int | None:
    """The first rank that differs from the first of its group."""
    for group in _groups(list(zip(parts, numbers, strict=True)), size):
        first = group[0][0]
        for part, number in group[1:]:
            if not np.array_equal(first, part, equal_nan=first.dtype.kind == "f"):
                return number
    return None


def _merge_parts(group: Sequence[Array], state: AxisState, over: str, add: Add) -> Array:
    match state.kind:
        case "S":
            return whole_of(group, over, state.axis)
        case "P":
            return reduce(add, group)
        case "M":
            return reduce(np.maximum, group)
        case _:
            return group[0]


def _first_rank(edge: _Edge, program: IRProgram, same: Same) -> int:
    """Return the first rank whose part differs from the array on one device."""
    assert edge.wanted is not None
    grid = Grid(dict(program.mesh))
    for number, part in enumerate(edge.parts):
        own, at = edge.wanted, grid.coordinates(number)
        for axis, state in edge.placement.items():
            ranks, over = grid.sizes[axis], ordered_axis(axis, zigzag_axes(program.plan))
            if state.kind == "S" and own.shape[state.axis] % (ranks * parts_of(over)) == 0:
                own = part_of(own, at[axis], ranks, over, state.axis)
        if own.shape != part.shape or not same(own, part):
            return number
    return 0


# ---- all edges -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Both:
    one: IRProgram
    many: IRProgram
    shared: Set[Value]

    def edges(self, record: Record, records: Sequence[Record]) -> Iterator[_Edge]:
        """Every edge of both passes."""
        yield from self._walk(self._forward, record, records)
        if self.many.backwards:
            yield from self._walk(self._backward, record, records)

    def _walk(
        self,
        edges: Callable[[Record, Sequence[Record]], Iterator[_Edge | _Inside]],
        record: Record,
        records: Sequence[Record],
    ) -> Iterator[_Edge]:
        """Yield every edge, a call's edges among its caller's; calls may nest deeply."""
        stack = [edges(record, records)]
        while stack:
            edge = next(stack[-1], None)
            if edge is None:
                stack.pop()
            elif isinstance(edge, _Edge):
                yield edge
            else:
                stack.append(edges(edge.record, edge.records))

    def _forward(self, record: Record, records: Sequence[Record]) -> Iterator[_Edge | _Inside]:
        graph = records[0].graph
        stage = self.many.stage
        sent = graph.outputs if stage and stage.sends and graph is self.many.main else ()
        for step in graph.steps:
            if isinstance(step, Call):
                yield from _rounds(step, record, records)
            for value in step.outputs:
                parts = [each.values[value] for each in records]
                name = _name(value, step)
                placement = graph.placements.get(value, {})
                array = None if value in sent else record.values.get(value)
                yield _Edge(name, record.path, step.span.line, placement, parts, array)

    def _backward(self, record: Record, records: Sequence[Record]) -> Iterator[_Edge | _Inside]:
        graph = records[0].graph
        backward = self.many.backwards[graph.key]
        totals = self.one.backwards[record.graph.key].totals
        made_again = _made_again(graph)
        of = {cotangent: value for value, cotangent in backward.totals.items()}
        for step in backward.steps:
            if isinstance(step, Call) and step.saved not in self.shared:
                inner = list(_rounds(step, record, records))
                yield from reversed(inner)
            for result in step.outputs:
                if result in of:
                    value = of[result]
                    parts = [each.reverse[result] for each in records]
                    is_held = value in totals and value not in made_again | self.shared
                    array = record.reverse[totals[value]] if is_held else None
                    placement = backward.placements.get(result, {})
                    line = value.span.line
                    name = f"d{value.name or ''}"
                    yield _Edge(name, record.path, line, placement, parts, array, is_backward=True)


def _made_again(graph: Graph) -> set[Value]:
    """Values that a second step makes in another state: the gradient of each is a share of it."""
    makers: dict[tuple[str, Span], list[Apply]] = {}
    for step in graph.steps:
        if isinstance(step, Apply) and step.op.family != "collective":
            makers.setdefault((step.op.glyph, step.span), []).append(step)
    return {
        value
        for steps in makers.values()
        if len(steps) > 1
        for step in steps
        for value in step.outputs
    }


@dataclass(frozen=True, slots=True)
class _Inside:
    """The records of one run of a block."""

    record: Record
    records: Sequence[Record]


def _rounds(call: Call, record: Record, records: Sequence[Record]) -> Iterator[_Inside]:
    alone = record.calls[call.saved]
    by_path = {each.path: each for each in alone}  # the ranks of a stage have some of a row
    for place, runs in enumerate(zip(*(each.calls[call.saved] for each in records), strict=True)):
        yield _Inside(alone[place] if call.loop else by_path[runs[0].path], runs)


def _name(value: Value, step: Apply | Call) -> str:
    if value.name is not None:
        return value.name
    return step.op.glyph if isinstance(step, Apply) else step.path
