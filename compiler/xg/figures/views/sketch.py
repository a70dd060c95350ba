"""The graphs of a rank with every move in its place, casts too: the source of an overview.

A rank's program has no casts, and a cast is where its backward pass sums gradients. Moves of
parameters before their use are separate: they are the same for all of a kind.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.views.inner_collectives import InnerCollectives, inner_collectives
from xg.figures.views.notation import ON_ITS_RANK
from xg.figures.views.own_parts import with_own_parts
from xg.ir.collective import FAMILY, SENDING
from xg.ir.graph import Apply, Backward, Call, Graph, Param, Program, Step, Value
from xg.ir.placement import MOVES, AxisState, axis_of, dual, local_shape, ordered_axis
from xg.ir.plan import zigzag_axes
from xg.ir.tensor import TensorType

Sent = tuple[str, str, bool]  # a collective for parameters: its glyph, its mesh axis, if forward


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a value: its collectives forward and backward, "" for none.

    `value` is the larger of its operand and its result. `kept` is what a pass does that sends
    nothing: the glyph of a step on each rank, "" if it leaves the value as it is.
    """

    axis: str
    forward: str
    backward: str
    value: Value
    param: Value | None = None  # whose move it is
    kept: str = ""

    def passes(self, *, backward: bool) -> bool:
        """Return whether a pass leaves the value as it is."""
        return not (self.kept or (self.backward if backward else self.forward))

    def sent(self) -> Iterator[Sent]:
        """Yield the collectives of both passes."""
        if self.forward:
            yield self.forward, self.axis, True
        if self.backward:
            yield self.backward, self.axis, False


@dataclass(frozen=True, slots=True)
class Sketch:
    """One graph as its ranks see it; `moves` are those of its parameters.

    `moved` are those behind the uses of a value: a parameter of which some uses take it as it is,
    others moved, is two. `inner_collectives` are the collectives inside its operators.
    """

    graph: Graph
    moves: tuple[Move, ...]
    moved: Mapping[Value, Sequence[Move]]
    inner_collectives: InnerCollectives


def sketches(placed: Program, ranks: Program) -> dict[str, Sketch]:
    """Return every graph of a placed program with the shapes and bodies of a rank."""
    zigzag = zigzag_axes(ranks.plan)
    return {
        key: _sketch(_ordered(graph, zigzag), ranks.graphs[key], ranks.backwards.get(key))
        for key, graph in placed.graphs.items()
    }


def move_of(step: Apply) -> Move:
    """Return what a step sends that moves a value."""
    source, target = step.attrs["source"], step.attrs["target"]
    value = step.outputs[0] if step.op.glyph == "AG" else step.inputs[0]
    glyphs = step.op.glyph, _back(source, target)
    forward, backward = (glyph if glyph in SENDING else "" for glyph in glyphs)
    kept = next((glyph for glyph in glyphs if glyph in ON_ITS_RANK), "")
    return Move(str(step.attrs["over"]), forward, backward, value, kept=kept)


def _back(source: AxisState, target: AxisState) -> str:
    """Return what the gradient of a move does: the move between the dual states."""
    start, end = dual(target), dual(source)
    return MOVES[start.kind, end.kind] if start and end else ""


def _ordered(graph: Graph, zigzag: Container[str]) -> Graph:
    """Return a graph whose moves of slices say in which order the ranks have these."""
    return replace(graph, steps=tuple(_in_order(step, zigzag) for step in graph.steps))


def _in_order(step: Step, zigzag: Container[str]) -> Step:
    if not isinstance(step, Apply) or "source" not in step.attrs:
        return step
    if "S" not in (step.attrs["source"].kind, step.attrs["target"].kind):
        return step
    return replace(step, attrs={**step.attrs, "over": ordered_axis(step.attrs["over"], zigzag)})


def _sketch(graph: Graph, rank: Graph, backward: Backward | None) -> Sketch:
    local = {step.outputs[0]: step for step in rank.steps if isinstance(step, Apply)}
    found = _ParameterMoves(graph)
    drawn_as, owners = found.drawn_as, found.owners
    steps: list[Apply | Call] = []
    for step in graph.steps:
        inputs = tuple(drawn_as.get(value, value) for value in step.inputs)
        if isinstance(step, Call):
            steps.append(replace(step, inputs=inputs))
        elif step.op.family != FAMILY and all(value in owners for value in step.inputs):
            # Positions, a bias along new axes: made of parameters alone, they move like these.
            owners.update((value, value) for value in step.outputs)
            steps.append(replace(local.get(step.outputs[0], step), inputs=inputs))
        elif step.op.family == FAMILY and _is_beside(step, owners, graph):
            found.add(step)
        else:
            is_move = step.op.family == FAMILY
            drawn = step if is_move else local.get(step.outputs[0], step)
            steps.append(replace(drawn, inputs=inputs))
    fresh = {drawn_as[value]: value for value in found.behind if drawn_as[value] not in owners}
    types = {value: _rank_type(graph, value) for value in graph.types}
    types |= {new: types[old] for new, old in fresh.items()} | dict(rank.types)
    lie = {new: graph.placements[old] for new, old in fresh.items() if old in graph.placements}
    sketch = replace(
        graph,
        steps=tuple(steps),
        types=types,
        placements={**graph.placements, **lie},
        params=(*rank.params, *(Param(value, types[value], "ones") for value in fresh)),
        outputs=tuple(drawn_as.get(value, value) for value in graph.outputs),
        output_types=rank.output_types,
    )
    sketch = with_own_parts(sketch)
    return Sketch(sketch, found.moves(), found.moved, inner_collectives(sketch, backward))


class _ParameterMoves:
    """The moves of a graph's parameters; their results are drawn as the values in `drawn_as`.

    `owners` maps every value derived from a parameter to that parameter. `behind` are the moves of
    each result and of those that it moves on.
    """

    def __init__(self, placed: Graph) -> None:
        self.placed = placed
        self.owners = {value: value for value in placed.param_values()}
        self.drawn_as: dict[Value, Value] = {}
        self.behind: dict[Value, tuple[Move, ...]] = {}
        self.moved: dict[Value, tuple[Move, ...]] = {}
        self._used = _used(placed)
        self._drawn = {value for value in self.owners if value in self._used}

    def add(self, step: Apply) -> None:
        """Add one more move."""
        before, result = step.inputs[0], step.outputs[0]
        owner = self.owners[result] = self.owners[before]
        move = move_of(step)
        move = replace(move, axis=axis_of(move.axis), param=owner)
        self.behind[result] = (*self.behind.get(before, ()), move)
        shown = self.drawn_as[result] = _replacement(result, owner, self.placed, self._drawn)
        if result in self._used:
            self._drawn.add(shown)
            self.moved[shown] = self.behind[result]

    def moves(self) -> tuple[Move, ...]:
        """Return all moves, in their order."""
        return tuple(some[-1] for some in self.behind.values())


def _is_beside(step: Apply, owners: Mapping[Value, Value], placed: Graph) -> bool:
    """Return whether a move is of a parameter, or leaves the result of parameters as it is."""
    owner, result = owners.get(step.inputs[0]), step.outputs[0]
    if owner is None:
        return False
    return owner.role == "param" or _rank_type(placed, result) == _rank_type(placed, owner)


def _used(graph: Graph) -> set[Value]:
    """Return the values that something other than a move takes."""
    taking = (s for s in graph.steps if isinstance(s, Call) or s.op.family != FAMILY)
    return {*graph.outputs, *(value for step in taking for value in step.inputs)}


def _replacement(value: Value, owner: Value, placed: Graph, drawn: Container[Value]) -> Value:
    """Return the parameter itself where it is only cast, else one that is as large as in use.

    One that is cast for some uses only is another one there.
    """
    is_same = _rank_type(placed, value) == _rank_type(placed, owner)
    if is_same and (owner.role != "param" or owner not in drawn):
        return owner
    return Value(owner.name, "param", owner.span)


def _rank_type(placed: Graph, value: Value) -> TensorType:
    """Return the type of a rank's part of a value, also of one that only a cast makes."""
    type_ = placed.types[value]
    for axis, state in placed.placements.get(value, {}).items():  # none without a mesh
        type_ = replace(type_, shape=local_shape(type_.shape, state, axis))
    return type_
