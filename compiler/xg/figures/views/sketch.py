"""Sketch the graphs of a rank with every own part, move and cast in its place.

A rank's program has no casts, and a cast is where its backward pass sums gradients. Moves of
parameters before their use are separate: they are the same for all of a kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model.figure import FigureNode, NodeKind
from xg.figures.model.richtext import RichText, StyledRun, add_tag, plain
from xg.figures.views.inner_collectives import (
    InnerCollectives,
    collective_name,
    in_one_line,
    inner_collectives,
    order,
    prices,
    sum_line,
)
from xg.figures.views.notation import Notation
from xg.ir.body import Body, substitute
from xg.ir.collective import FAMILY
from xg.ir.collectives import BY_GLYPH, MOVES, part
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Param, Step, Value
from xg.ir.moves import collective, operator, transpose
from xg.ir.placement import (
    AxisState,
    axis_of,
    joined_axes,
    local_shape,
    ordered_axis,
    shard,
)
from xg.ir.plan import zigzag_axes
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType

PART: Final = operator(part.COLLECTIVE)

# Parts that a rank takes of an operand inside a step, drawn as a node in front of it.
#
# An input that every rank holds whole, as the targets of a loss, is cut where a rank's part meets
# it: in the body of the step, so no step of the graph says so. Only inputs have the node: what the
# block makes is labelled as a whole on its arrow, and may go elsewhere too.


_SLICE: Final = part.PRIMITIVE.name


def with_own_parts(graph: Graph) -> Graph:
    """Return the graph with a step for every part that a rank takes of a whole input.

    An input of which a step reads more than one part stays whole.
    """
    found = _OwnParts(graph)
    steps: list[Step] = []
    for step in graph.steps:
        if isinstance(step, Apply) and step.op.local and step.op.family != FAMILY:
            steps += found.of(step)
        else:
            steps.append(step)
    if not found.types:
        return graph
    return replace(
        graph,
        steps=tuple(steps),
        types={**graph.types, **found.types},
        placements={**graph.placements, **found.placements},
    )


@dataclass(slots=True)
class _OwnParts:
    """The parts that steps of a graph take; two that take the same one share it."""

    graph: Graph
    made: dict[tuple[Value, tuple[tuple[str, int], ...]], Value] = field(
        default_factory=dict[tuple[Value, tuple[tuple[str, int], ...]], Value]
    )
    types: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    placements: dict[Value, Mapping[str, AxisState]] = field(
        default_factory=dict[Value, Mapping[str, AxisState]]
    )

    def of(self, step: Apply) -> list[Apply]:
        """Return a step after the steps that cut its operands."""
        body = step.body(self.graph.types)
        cuts = _cuts(body)
        inputs, operands, before = list(step.inputs), list(body.operands), list[Apply]()
        for place, (value, whole) in enumerate(zip(step.inputs, body.operands, strict=True)):
            cut = cuts.get(id(whole))
            if cut is None or value not in self.graph.inputs:
                continue
            inputs[place], taken = self._take_part(value, cut, step)
            before += taken
            operands[place] = replace(whole, shape=cut[-1].shape)
        if inputs == list(step.inputs):
            return [step]
        return [*before, _on_parts(step, body, cuts, inputs, operands)]

    def _take_part(
        self, value: Value, cut: Sequence[Expr], step: Apply
    ) -> tuple[Value, Sequence[Apply]]:
        """Return the part of a value, with the step that takes it if no other did."""
        axes = tuple((axis_of(str(e.attr("over"))), e.typed_attr("axis", int)) for e in cut)
        if (value, axes) in self.made:
            return self.made[value, axes], ()
        part = self.made[value, axes] = Value(value.name, "edge", value.span)
        self.types[part] = replace(self.graph.types[value], shape=cut[-1].shape)
        lies = {over: shard(axis) for over, axis in axes}
        self.placements[part] = {**self.graph.placements.get(value, {}), **lies}
        over = joined_axes(over for over, _ in axes)
        return part, (Apply(PART, (value,), (part,), {"across": over}, step.span),)


def _cuts(body: Body) -> dict[int, list[Expr]]:
    """Return the operands of which only one part is read, with the slices that take it."""
    readers: dict[int, list[Expr]] = defaultdict(list)
    for expr in body.order():
        for arg in expr.args:
            readers[id(arg)].append(expr)
    cuts: dict[int, list[Expr]] = {}
    for whole in body.operands:
        taken, last = list[Expr](), whole
        while [one.prim for one in readers[id(last)]] == [_SLICE]:
            (last,) = readers[id(last)]
            taken.append(last)
        if taken:
            cuts[id(whole)] = taken
    return cuts


def _on_parts(
    step: Apply,
    body: Body,
    cuts: Mapping[int, Sequence[Expr]],
    inputs: Sequence[Value],
    operands: Sequence[Expr],
) -> Apply:
    """Return a step that takes the parts themselves."""
    pairs = list(zip(body.operands, operands, strict=True))
    parts = {id(cuts[id(whole)][-1]): part for whole, part in pairs if part is not whole}
    outputs = substitute(body.outputs, parts)
    on_parts = replace(body, operands=tuple(operands), outputs=tuple(o for o in outputs if o))

    def forward(*given: Expr, **_: object) -> object:
        return on_parts.on(given)

    return replace(step, op=replace(step.op, forward=forward), inputs=tuple(inputs))


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


def sketches(placed: IRProgram, ranks: IRProgram) -> dict[str, Sketch]:
    """Return every graph of a placed program with the shapes and bodies of a rank."""
    zigzag = zigzag_axes(ranks.plan)
    return {
        key: _sketch(_name_slice_order(graph, zigzag), ranks.graphs[key], ranks.backwards.get(key))
        for key, graph in placed.graphs.items()
    }


def move_of(step: Apply) -> Move:
    """Return what a step sends that moves a value."""
    source, target = step.attrs["source"], step.attrs["target"]
    states = transpose(source, target)
    back = MOVES[states[0].kind, states[1].kind] if states else None
    ways = collective(step.op), back
    forward, backward = (each.glyph if each and each.price else "" for each in ways)
    kept = next((each.glyph for each in ways if each and each.stays_on_rank), "")
    return Move(str(step.attrs["over"]), forward, backward, _larger_end(step), kept=kept)


def _larger_end(step: Apply) -> Value:
    """Return the larger of the operand and the result of a move."""
    return step.outputs[0] if BY_GLYPH[step.op.glyph].gathers else step.inputs[0]


def _name_slice_order(graph: Graph, zigzag: Container[str]) -> Graph:
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
        elif step.op.family == FAMILY and _moves_parameter(step, owners, graph):
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


def _moves_parameter(step: Apply, owners: Mapping[Value, Value], placed: Graph) -> bool:
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


# Collectives in figures: over which mesh axis, and what they cost (seed 001, 6.2 and 7.3).


def sends(step: object) -> bool:
    """Return whether a step is a collective; casts and slices stay on their rank."""
    record = collective(step.op) if isinstance(step, Apply) else None
    return record is not None and record.price is not None


def communication_node(step: Apply, node_id: str, notation: Notation) -> FigureNode:
    """Return a collective's box, with its cost."""
    label = collective_name(step.op.glyph, collective_axis(step))
    title = ": ".join(filter(None, (step.op.name, step.op.formula)))
    lines = (*_sum_line(step, notation), *costs(step, notation))
    return FigureNode(node_id, NodeKind.COMMUNICATION, label, lines=lines, title=title)


def _sum_line(step: Apply, notation: Notation) -> tuple[RichText, ...]:
    """Return the line that says which terms have which total, by their names if they have some."""
    line = sum_line(step.op.glyph, collective_axis(step))
    term, total = notation.symbol(step.inputs[0]), notation.symbol(step.outputs[0])
    if not (line and term and total):
        return line
    return ((*total, *plain(" = "), StyledRun("Σ", sub="i"), *plain(" "), *term),)


def bar_node(move: Move, node_id: str, notation: Notation) -> FigureNode:
    """Return the bar of a move in an overview, which shows both passes."""
    sent = move.forward or move.backward
    forward, backward = (one or move.kept for one in (move.forward, move.backward))
    label = (*collective_name(forward or backward, move.axis), *plain(order(move.axis)))
    if backward:
        also = f", {backward}" if forward else ""
        label = (*label, *plain(f"{also} in the backward pass"))
    price = in_one_line(prices(sent, move.axis, notation.volume(move.value)))
    return FigureNode(node_id, NodeKind.COMMUNICATION, label, lines=(*sums(move), price))


def sums(move: Move, terms: int = 1) -> tuple[RichText, ...]:
    """Return the line of a bar that says what it sums: of a gradient each rank has some terms."""
    if move.forward and sum_line(move.forward, move.axis):
        return sum_line(move.forward, move.axis)
    own = plain(f"⊕ of {terms} terms on each rank, then ") if terms > 1 else ()
    behind = plain(" in the backward pass") if move.forward or move.kept else ()
    return tuple((*own, *line, *behind) for line in sum_line(move.backward, move.axis))


def sent_tags(sent: Iterable[Sent]) -> RichText:
    """Return the tags of a parameter, or of several: what is sent for them in each pass."""
    runs = (
        run
        for glyph, axis, forward in sorted(sent, key=lambda one: (not one[2], one))
        for run in (
            *plain(" "),
            *add_tag(collective_name(glyph, axis), "forward" if forward else "backward"),
        )
    )
    return tuple(runs)[1:]


def costs(step: Apply, notation: Notation) -> tuple[RichText, ...]:
    """Return a collective's price, naive and ring, as written in its box."""
    return prices(step.op.glyph, collective_axis(step), notation.volume(_larger_end(step)))


def glyph_of(step: Apply) -> RichText:
    """Return an operator's glyph; of a collective with its mesh axis."""
    return (
        collective_name(step.op.glyph, collective_axis(step))
        if sends(step)
        else plain(step.op.glyph)
    )


def collective_axis(step: Apply) -> str:
    """Return the mesh axis of a move: that which a rank went across, or the whole is to go over."""
    return str(step.attrs["across"] if "across" in step.attrs else step.attrs["over"])
