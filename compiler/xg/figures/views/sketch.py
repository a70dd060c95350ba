"""Sketch the graphs of a rank with every own part, move and cast in its place.

A rank's program has no casts, and a cast is where its backward pass sums gradients. Moves of
parameters before their use are separate: they are the same for all of a kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from xg.cost.communication import WAYS, share
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model.figure import FigureNode, NodeKind
from xg.figures.model.richtext import RichText, StyledRun, add_tag, bold, dimension, plain, symbol
from xg.figures.views.arrange import DrawnOperation, Flow
from xg.figures.views.notation import Notation, volume
from xg.ir.body import Body, substitute
from xg.ir.collectives import BY_GLYPH, MOVES, OWNERS, PRIMITIVES, SENDING, part
from xg.ir.dim import ONE
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Param, Step, Value
from xg.ir.moves import collective, operator, transpose
from xg.ir.placement import (
    FAMILY,
    AxisState,
    axes_over,
    axis_of,
    is_zigzag,
    joined_axes,
    local_shape,
    ordered_axis,
    shard,
    zigzag_axes,
)
from xg.ir.prim import Expr
from xg.ir.tensor import Shape, TensorType

# Find the collectives inside an operator, and draw each as a box after it.
#
# A loss over a sharded vocabulary reduces over the mesh inside its body, so no step of the graph
# says so; the body of a rank does.
#
# Without a box, a loss over a sharded vocabulary would look free. Tests check the sums of all boxes
# and bars against `xg cost`.


# Prices of collectives as written in boxes and bars (seed 001, 6.2 and 7.3).
#
# Costs are elements that a rank sends, of V in all: naively through one rank, or around a ring.


def collective_name(glyph: str, axis: str) -> RichText:
    """Return the text of the box: AR N_T."""
    return (*bold(glyph), *plain(" "), *mesh_axes(axis))


def order(axis: str) -> str:
    """Return ` in zigzag`, where each rank has a chunk from each end."""
    return " in zigzag" if is_zigzag(axis) else ""


def sum_line(glyph: str, axis: str) -> tuple[RichText, ...]:
    """Return the line of a box that says that it makes partial values their sum: Σ over N_T."""
    return ((*plain("Σ over "), *mesh_axes(axis)),) if BY_GLYPH[glyph].sums else ()


def prices(glyph: str, axis: str, volume: str) -> tuple[RichText, ...]:
    """Return the cost lines of a collective over this number of elements."""
    price = BY_GLYPH[glyph].price
    if price and price.route == "peer":
        return ((*dimension(volume), *plain(" each way")),)
    axes = mesh_axes(axis)
    others = (*plain("("), *axes, *plain(" − 1)"))
    below = (*plain("("), *axes, *plain(")")) if len(axes_over(axis)) > 1 else axes
    ways: dict[tuple[int, bool], list[str]] = {}
    for way in WAYS:
        ways.setdefault(share(BY_GLYPH[glyph].name, way), []).append(way)
    return tuple(
        (
            *plain(f"{', '.join(names)} {times if times > 1 else ''}"),
            *others,
            *((*plain("/"), *below) if divided else ()),
            *_factor(volume),
        )
        for (times, divided), names in ways.items()
    )


def mesh_axes(over: str) -> RichText:
    """Return the mesh axes of a collective, several as a product."""
    first, *others = axes_over(over)
    return (*dimension(first), *(run for a in others for run in (*plain(" · "), *dimension(a))))


def in_one_line(prices: Sequence[RichText]) -> RichText:
    """Return prices beside each other."""
    first, *others = prices
    return (*first, *(run for one in others for run in (*plain(",  "), *one)))


def _factor(volume: str) -> RichText:
    return (*plain(" · "), *dimension(volume)) if volume else ()


@dataclass(frozen=True, slots=True)
class SentInside:
    """One collective inside a body, with the value, or gradient, that it sends around a ring."""

    expr: Expr
    value: Value | None = None
    is_gradient: bool = False

    @property
    def goes_round(self) -> bool:
        """Whether it goes around the ring inside the operator, part by part.

        Operators only sum, or take the largest, beside that, and no axis is cut or joined for it.
        """
        return bool(PRIMITIVES[self.expr.prim].axes)


@dataclass(frozen=True, slots=True)
class InnerCollective:
    """Collectives of one step over one mesh axis, named with its order, inside one rank's body.

    `backward` are those of its gradient, in an overview. `value` is the value that goes in.
    """

    step: Apply
    axis: str
    forward: tuple[SentInside, ...]
    backward: tuple[SentInside, ...]
    value: Value

    @property
    def shape(self) -> Shape:
        """Return the shape that enters the first collective, without axes of length 1."""
        first = (*self.forward, *self.backward)[0].expr
        shape = first.args[0].shape if OWNERS[first.prim].gathers else first.shape
        return tuple(dim for dim in shape if dim != ONE)

    @property
    def id(self) -> str:
        """The id of its box in a figure, if no other box has it."""
        return f"{self.step.op.glyph} {self.axis}"

    def touches(self, *, backward: bool) -> bool:
        """Return whether it changes the operator's result, or the gradient of that, in a pass.

        Operands that go around inside leave the result as it is.
        """
        sent = self.backward if backward else self.forward
        return not all(one.goes_round for one in sent)


_End = tuple[Expr, Value | None, bool]  # an operand, or a result that is the gradient of the value
_NONE: Final[Mapping[Value, Value]] = MappingProxyType({})
InnerCollectives = Mapping[Step, tuple[InnerCollective, ...]]


def inner_collectives(graph: Graph, backward: Backward | None = None) -> InnerCollectives:
    """Return the collectives inside each step, and inside its backward pass if it is given."""
    back = {step.origin.outputs[0]: step for step in _applies(backward) if step.origin}
    types = {**(backward.types if backward else {}), **graph.types}
    of = backward.of if backward else _NONE
    by_step: dict[Step, tuple[InnerCollective, ...]] = {}
    for step in graph.steps:
        if isinstance(step, Apply):
            reverse = back.get(step.outputs[0])
            by_step[step] = _inner_collectives(step, _sent(step, types), _sent(reverse, types, of))
    return {step: here for step, here in by_step.items() if here}


def backward_inner_collectives(backward: Backward) -> InnerCollectives:
    """Return the collectives inside each step of a backward pass."""
    sent = {step: _sent(step, backward.types, backward.of) for step in _applies(backward)}
    by_step = {step: _inner_collectives(step, here, {}) for step, here in sent.items()}
    return {step: here for step, here in by_step.items() if here}


def with_inner_collectives(graph: Graph, inner_collectives: InnerCollectives) -> Graph:
    """Return the graph with the types of the values that enter its inner collectives."""
    types = {
        one.value: TensorType(one.shape) for some in inner_collectives.values() for one in some
    }
    return replace(graph, types={**graph.types, **types}) if types else graph


def through(
    operation: DrawnOperation,
    inner_collectives: Sequence[InnerCollective],
    nodes: Sequence[FigureNode],
) -> list[DrawnOperation]:
    """Lead the results of an operation through the boxes of its inner collectives, in order."""
    if not inner_collectives:
        return [operation]
    values = [collective.value for collective in inner_collectives]
    results = [*((value,) for value in values), operation.outputs]
    behind = [
        DrawnOperation(node, (Flow(value),), outputs)
        for node, value, outputs in zip(nodes, values, results[1:], strict=True)
    ]
    return [replace(operation, outputs=results[0]), *behind]


# ---- their boxes ---------------------------------------------------------------------------------


def collective_node(collective: InnerCollective, node_id: str, notation: Notation) -> FigureNode:
    """Return the box of an inner collective, with its cost."""
    sent = collective.forward
    names = _names(sent, notation)
    what = (*names, *plain(" "), *bold(_glyphs(sent))) if names else bold(_glyphs(sent))
    label = _name(collective, what)
    return _node(collective, node_id, label, _prices(collective, sent, notation))


def collective_bar(collective: InnerCollective, node_id: str, notation: Notation) -> FigureNode:
    """Return the bar of an inner collective in an overview, which shows both passes."""
    passes = {"forward": collective.forward, "backward": collective.backward}
    passes = {name: sent for name, sent in passes.items() if sent}
    label = _name(collective, bold(_glyphs(next(iter(passes.values())))))
    if collective.touches(backward=True):
        again = f", {_glyphs(collective.backward)}" if collective.forward else ""
        label = (*label, *plain(f"{again} in the backward pass"))
    return _node(collective, node_id, label, _costs(collective, passes, notation))


def _costs(
    collective: InnerCollective, passes: Mapping[str, Sequence[SentInside]], notation: Notation
) -> tuple[RichText, ...]:
    """Return a line with the cost of each pass, which says what goes round; equal ones are one."""
    lines: dict[RichText, list[str]] = {}
    for name, sent in passes.items():
        price = in_one_line(_prices(collective, sent, notation))
        names = _names(sent, notation)
        text = (*names, *plain(": "), *price) if names else price
        lines.setdefault(text, []).append(name)
    if len(passes) == 1:
        return tuple(lines)
    return tuple(
        (*plain(f"{' and '.join(names)}{' ' if text[0].bold else ': '}"), *text)
        for text, names in lines.items()
    )


def _node(
    collective: InnerCollective, node_id: str, label: RichText, lines: tuple[RichText, ...]
) -> FigureNode:
    title = f"what {collective.step.op.name} sends on its way"
    return FigureNode(node_id, NodeKind.COMMUNICATION, label, lines=lines, title=title)


def _prices(
    collective: InnerCollective, sent: Sequence[SentInside], notation: Notation
) -> tuple[RichText, ...]:
    """Return the cost of what is summed, or of what goes round part by part."""
    glyph = OWNERS[sent[0].expr.prim].glyph
    return prices(glyph, collective.axis, _volume(sent, notation))


def _name(collective: InnerCollective, what: RichText) -> RichText:
    inside = plain(f"{order(collective.axis)} inside {collective.step.op.glyph}")
    return (*what, *plain(" "), *dimension(axis_of(collective.axis)), *inside)


def _names(sent: Iterable[SentInside], notation: Notation) -> RichText:
    """Return `K, V, dK, dV`, of what goes round; they are the same on all ranks."""
    known = [(one, notation.name(one.value).rpartition(".")[2]) for one in sent if one.value]
    symbols = [symbol(name or "?", gradient=one.is_gradient) for one, name in known]
    return tuple(run for one in symbols for run in (*plain(", "), *one))[1:]


def _glyphs(sent: Iterable[SentInside]) -> str:
    """Return `ARmax, 2 AR`."""
    if any(one.goes_round for one in sent):
        return "around the ring"
    counts = Counter(OWNERS[one.expr.prim].glyph for one in sent)
    return ", ".join(f"{n} {glyph}" if n > 1 else glyph for glyph, n in counts.items())


def _volume(sent: Iterable[SentInside], notation: Notation) -> str:
    """Return how many elements are sent in all: `3*B*S`, `(B*S + 1)`, nothing for one.

    They are in the symbols of the figure, also where the block is an opened call in it.
    """
    sizes = notation.graph.sizes
    folded = (sizes.fold_shape(_joint_shape(one.expr)) for one in sent)
    wholes = (tuple(dim.substitute(notation.outer) for dim in whole) for whole in folded)
    counts = Counter(volume(whole, sizes) for whole in wholes)
    terms = [_multiple(count, text) for text, count in counts.items()]
    return f"({' + '.join(term or '1' for term in terms)})" if len(terms) > 1 else terms[0]


def _joint_shape(expr: Expr) -> Shape:
    """Return the shape of all ranks' parts together."""
    return expr.args[0].shape if OWNERS[expr.prim].cuts else expr.shape


def _multiple(count: int, text: str) -> str:
    if count == 1:
        return text
    return f"{count}*{text}" if text else str(count)


# ---- what is sent --------------------------------------------------------------------------------


def _applies(backward: Backward | None) -> Iterator[Apply]:
    return (step for step in (backward.steps if backward else ()) if isinstance(step, Apply))


def _sent(
    step: Apply | None, types: Mapping[Value, TensorType], of: Mapping[Value, Value] = _NONE
) -> dict[str, list[SentInside]]:
    """Return the collectives in the body of a rank's step by mesh axis, without moves.

    `of` are the values of which the step's results are gradients.
    """
    sent: dict[str, list[SentInside]] = {}
    if step is not None and step.op.local and step.op.family != "collective":
        body = step.body(types)
        ends = _ends(step, body, of)
        for expr in body.order():
            if expr.prim in SENDING:
                sent.setdefault(str(expr.attr("over")), []).append(_sending(expr, ends))
        places = {end[1:]: place for place, end in enumerate(ends)}
        for some in sent.values():
            some.sort(key=lambda one: places.get((one.value, one.is_gradient), -1))
    return sent


def _ends(step: Apply, body: Body, of: Mapping[Value, Value]) -> list[_End]:
    """Return the operands of a body, then the results that are gradients."""
    operands = [
        (expr, value, False) for expr, value in zip(body.operands, step.inputs, strict=False)
    ]
    pairs = zip(body.outputs, step.outputs, strict=False)  # caches are behind them
    return [*operands, *((expr, of[value], True) for expr, value in pairs if value in of)]


def _sending(expr: Expr, ends: Sequence[_End]) -> SentInside:
    """Return a collective with the operand that it begins with, or the gradient that it gives."""
    if not PRIMITIVES[expr.prim].axes:
        return SentInside(expr)
    end = expr if OWNERS[expr.prim].cuts else expr.args[0]
    found = ((value, is_gradient) for other, value, is_gradient in ends if other is end)
    return SentInside(expr, *next(found, (None, False)))


def _inner_collectives(
    step: Apply, forward: Mapping[str, list[SentInside]], backward: Mapping[str, list[SentInside]]
) -> tuple[InnerCollective, ...]:
    return tuple(
        InnerCollective(
            step,
            axis,
            tuple(forward.get(axis, ())),
            tuple(backward.get(axis, ())),
            Value(None, "edge", step.span),
        )
        for axis in dict.fromkeys((*forward, *backward))
    )


PART: Final = operator(part.COLLECTIVE)

# Parts that a rank takes of an operand inside a step, drawn as a node in front of it.
#
# An input that every rank holds whole, as the targets of a loss, is cut where a rank's part meets
# it: in the body of the step, so no step of the graph says so. Only inputs have the node: what the
# block makes is labeled as a whole on its arrow, and may go elsewhere too.


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
