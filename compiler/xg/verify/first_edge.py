"""The first edge on which ranks differ from one device, by the records of the interpreter.

Every value of every call, and the cotangent of every value, is reassembled from all ranks by its
placement. Replicas must be the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from functools import reduce
from typing import TypeVar

import numpy as np

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg.ir.placement import CONSTANT, AxisState, Placement, ordered_axis
from xg.ir.plan import zigzag_axes
from xg.verify.reference.evaluate import part_of, whole_of
from xg.verify.reference.interpret import Record
from xg_runtime.module import Array
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.order import parts_of

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
                return f"{grid.describe(unlike)} has other bits than its neighbour along {axis}"
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
    """Neighbours, `size` at a time."""
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
    for place, ranks in enumerate(zip(*(each.calls[call.saved] for each in records), strict=True)):
        yield _Inside(alone[place] if call.loop else by_path[ranks[0].path], ranks)


def _name(value: Value, step: Apply | Call) -> str:
    if value.name is not None:
        return value.name
    return step.op.glyph if isinstance(step, Apply) else step.path
