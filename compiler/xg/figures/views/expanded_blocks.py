"""Expand blocks where they communicate, for the overview of ranks side by side.

The nodes between two collectives are one box if there are many; other blocks stay collapsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model.figure import EdgeStyle, FigureNode, NodeKind
from xg.figures.model.richtext import RichText, plain
from xg.figures.views.arrange import DrawnOperation, Flow
from xg.figures.views.forward import ForwardDrawing, forward_drawing, rename_values, tagged_node
from xg.figures.views.notation import Notation, kind
from xg.figures.views.sketch import (
    InnerCollective,
    Move,
    Sent,
    Sketch,
    bar_node,
    collective_bar,
    move_of,
    sent_tags,
    through,
)
from xg.figures.views.steps import Ids, call_alias, times, with_masks
from xg.ir.collectives import REDUCTIONS
from xg.ir.graph import Apply, Call, Graph, Value
from xg.ir.placement import FAMILY, axis_of

# The lines of a box that name the parameters in it, with what is sent for them.


@dataclass(frozen=True, slots=True)
class TakenParameter:
    """A parameter that a node takes, as the file writes it, and what is sent for it there.

    `call` is the path of the call inside the node that takes it, if one does.
    """

    value: Value
    notation: Notation
    sent: frozenset[Sent]
    call: str = ""


def with_matrices(node: FigureNode, taken: Sequence[TakenParameter]) -> FigureNode:
    """Return the box of several nodes with the matrices that these take themselves.

    Tags are below them where the same is sent for all parameters, else beside those they are of.
    """
    matrices = _distinct(one for one in taken if not one.call and _is_matrix(one))
    if _is_even(taken):
        return with_tags(replace(node, detail=_parameter_list(matrices)), taken)
    unsent = _parameter_list([one for one in matrices if not one.sent])
    detail, *lines = *((unsent,) if unsent else ()), *_sent_lines(taken)
    return replace(node, detail=detail, lines=(*node.lines, *lines))


def with_tags(node: FigureNode, taken: Sequence[TakenParameter]) -> FigureNode:
    """Return a box with what is sent for parameters; it names them where they are not all."""
    if not _is_even(taken):
        return replace(node, lines=(*node.lines, *_sent_lines(taken)))
    tags = sent_tags(frozenset[Sent]().union(*(one.sent for one in taken)))
    return tagged_node(node, [tags] if tags else [])


def _is_even(taken: Iterable[TakenParameter]) -> bool:
    """Return whether the same is sent for all parameters; a frozen one has no gradient."""
    return len({one.sent for one in taken if not one.value.frozen}) < 2


def _sent_lines(taken: Iterable[TakenParameter]) -> list[RichText]:
    """Return a line for each call and each kind of tags, of the parameters that have some."""
    groups: dict[tuple[str, frozenset[Sent]], list[TakenParameter]] = {}
    for one in taken:
        if one.sent:
            groups.setdefault((one.call, one.sent), []).append(one)
    return [
        (
            *plain(f"{call}: " if call else ""),
            *_parameter_list(_distinct(some)),
            *plain(" "),
            *sent_tags(sent),
        )
        for (call, sent), some in groups.items()
    ]


def _parameter_list(taken: Sequence[TakenParameter]) -> RichText:
    return taken[0].notation.list_values([one.value for one in taken]) if taken else ()


def _distinct(taken: Iterable[TakenParameter]) -> list[TakenParameter]:
    return list({one.value: one for one in taken}.values())


def _is_matrix(one: TakenParameter) -> bool:
    return len(one.notation.graph.types[one.value].shape) > 1


# Stages: the nodes of a block between two of its collectives belong together.
#
# A block's nodes are divided into those before the first collectives, these, those before the next
# …


@dataclass(frozen=True, slots=True)
class Piece:
    """One node of a column.

    `taken` are the parameters that it takes; `move` is what it sends itself, if it is a
    collective. `own` is the operation in its block's own values, with their notation, if it is one.
    """

    operation: DrawnOperation
    step: Apply | Call
    taken: tuple[TakenParameter, ...] = ()
    move: Move | None = None
    own: tuple[Notation, DrawnOperation] | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """A call that is to be opened, in the drawing of its caller."""

    call: Call
    drawing: ForwardDrawing
    outside: Mapping[Value, Value]


def stages(items: Iterable[Piece | Opening]) -> Iterator[tuple[bool, list[Piece | Opening]]]:
    """Yield a block's stages in order, with True for collectives and nodes that contain some.

    A node that needs no collective comes just before its reader.
    """
    items = list(items)
    reached: dict[Value, int] = {}
    places: list[tuple[int, bool]] = []
    for item in items:
        taken, values = ends(item)
        stage = max((reached.get(value, 0) for value in taken), default=0)
        between = isinstance(item, Opening) or item.move is not None
        reached.update(dict.fromkeys(values, stage + between))
        places.append((stage, between))
    stage_of: dict[Value, int] = {}
    by_place: dict[tuple[int, bool], list[Piece | Opening]] = {}
    for item, (earliest, between) in zip(reversed(items), reversed(places), strict=True):
        taken, values = ends(item)
        stage = earliest
        if earliest == 0 and not between:
            stage = min((stage_of[value] for value in values if value in stage_of), default=0)
        stage_of.update({value: min(stage_of.get(value, stage), stage) for value in taken})
        by_place.setdefault((stage, between), []).insert(0, item)
    yield from ((place[1], by_place[place]) for place in sorted(by_place))


def ends(item: Piece | Opening) -> tuple[Sequence[Value], Sequence[Value]]:
    """Return the values that an item takes and gives, by their names outside of it."""
    if isinstance(item, Piece):
        return [flow.value for flow in item.operation.flows], item.operation.outputs
    outside, call = item.outside, item.call
    taken = [outside.get(value, value) for value in call.inputs]
    return taken, [outside.get(value, value) for value in call.outputs]


_SHORT: Final = 3  # so many nodes in a row are drawn, more are one box


@dataclass(frozen=True, slots=True)
class Brace:
    """The nodes that a repetition repeats, or that an opened block has."""

    label: RichText
    nodes: list[str]


@dataclass(slots=True)
class BlockExpander:
    """Expands the blocks of a program for one rank.

    A block may be expanded more than once, so its values are renamed: `notations` maps each to the
    notation it is written in and to its original. `homes` maps a leaf to the drawing that it
    belongs to: a leaf passed to a block is drawn beside the node that takes it. `tensors` are the
    values of such leaves, by the ids of their nodes.
    """

    sketches: Mapping[str, Sketch]
    rank: Mapping[str, int]
    ids: Ids = field(default_factory=Ids)
    notations: dict[Value, tuple[Notation, Value]] = field(
        default_factory=dict[Value, tuple[Notation, Value]]
    )
    homes: dict[Value, ForwardDrawing] = field(default_factory=dict[Value, ForwardDrawing])
    tensors: dict[str, Value] = field(default_factory=dict[str, Value])
    braces: list[Brace] = field(default_factory=list[Brace])
    graphs: dict[str, Graph] = field(init=False)
    open: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Find out, callees first, which blocks send something."""
        self.graphs = {key: sketch.graph for key, sketch in self.sketches.items()}
        opened: set[str] = set()
        for key, sketch in self.sketches.items():
            below = [step.callee for step in sketch.graph.calls]
            bars = sketch.inner_collectives or any(_is_bar(step) for step in sketch.graph.steps)
            if bars or opened & set(below):
                opened.add(key)
        self.open = frozenset(opened)

    def drawing(self, key: str, *, called: bool) -> ForwardDrawing:
        """Begin to draw a block."""
        graph = self.graphs[key]
        sketch, tags = self.sketches[key], dict[Value, RichText]()
        drawing = forward_drawing(
            graph,
            self.graphs,
            self.ids,
            self.rank,
            called=called,
            known=sketch.inner_collectives,
            tags=tags,
            tensors=self.tensors,
        )
        leaves = (*drawing.leaves.plain, *drawing.leaves.views)
        for value in leaves:
            sent = _sent(_of(value, sketch, drawing))
            if sent:
                tags[value] = sent_tags(sent)
        self.homes.update(dict.fromkeys(leaves, drawing))
        return drawing

    def pieces(self, key: str, drawing: ForwardDrawing) -> list[Piece]:
        """Return the nodes of the entry block's column."""
        waiting = list(self._steps(key, drawing, {}))
        pieces: list[Piece] = []
        braces: list[tuple[int, Brace]] = []  # how much is still to come when one ends
        while waiting:
            first = waiting.pop(0)
            while braces and braces[-1][0] > len(waiting):
                braces.pop()
            if isinstance(first, Piece):
                pieces.append(first)
                for _, brace in braces:
                    brace.nodes.append(first.operation.node.id)
                continue
            label = self._brace_label(first)
            if label:
                self.braces.append(Brace(label, []))
                braces.append((len(waiting), self.braces[-1]))
            waiting[:0] = self._expanded(first)
        return pieces

    def _brace_label(self, opening: Opening) -> RichText:
        """Return what is repeated, or which of several blocks is opened: each has names of its own.

        Where there is only one, all of its names are the figure's.
        """
        call, graph = opening.call, self.graphs[opening.call.callee]
        others = [one for one in opening.drawing.graph.calls if one.callee in self.open]
        if call.count is None and len(others) < 2:
            return ()
        title = plain(" " * (call.count is not None) + (graph.title or graph.block))
        if sum(one.callee == call.callee for one in others) > 1:
            title = (*title, *plain(" "), *call_alias(call))
        return (*times(call, opening.drawing.notation), *title)

    def _expanded(self, opening: Opening) -> list[Piece | Opening]:
        """Return the nodes of a called block, stage by stage."""
        key = opening.call.callee
        graph, drawing = self.graphs[key], self.drawing(key, called=True)
        around = opening.drawing.notation
        sizes = {name: dim.substitute(around.outer) for name, dim in opening.call.sizes.items()}
        begun = self._begun(opening, drawing)
        names = _names_outside(graph, opening.call, around)
        names = {value: name for value, name in names.items() if value not in begun}
        drawing = replace(drawing, notation=replace(drawing.notation, outer=sizes, kept=names))
        pairs = (
            *zip(graph.inputs, opening.call.inputs, strict=True),
            *zip(graph.outputs, opening.call.outputs, strict=True),
        )
        outside = {inner: opening.outside.get(outer, outer) for inner, outer in pairs}
        values = [value for step in graph.steps for value in step.outputs if value not in outside]
        values += (
            collective.value for some in drawing.inner_collectives.values() for collective in some
        )
        inside = {value: replace(value) for value in (*values, *begun)}
        self.notations.update({new: (drawing.notation, old) for old, new in inside.items()})
        outside |= inside
        items = list(self._steps(key, drawing, outside))
        entries = (
            DrawnOperation(drawing.tensor(own), (Flow(before),), (inside[own],))
            for own, before in begun.items()
        )
        staged = _mark_nodes(self._nodes_by_stage(items, key, drawing, outside), opening)
        return [*(Piece(one, opening.call) for one in entries), *staged]

    def _begun(self, opening: Opening, drawing: ForwardDrawing) -> dict[Value, Value]:
        """Return what goes round in a row of calls, with what the first begins with.

        It is a tensor of its own if more than one node takes it: see the overview of one device.
        """
        first, before = drawing.graph.inputs[0], opening.call.inputs[0]
        taken = sum(first in step.inputs for step in drawing.steps())
        if opening.call.count is None or taken < 2:
            return {}
        return {first: opening.outside.get(before, before)}

    def _steps(
        self, key: str, drawing: ForwardDrawing, outside: Mapping[Value, Value]
    ) -> Iterator[Piece | Opening]:
        sketch = self.sketches[key]
        for step in drawing.steps():
            if isinstance(step, Call):
                if step.callee in self.open:
                    yield Opening(step, drawing, outside)
                    continue
                taken, move = self._taken_below(step, drawing.notation), None
                operation = drawing.call(step)
                operation = replace(operation, node=with_tags(operation.node, taken))
            elif step.op.family == FAMILY and _is_bar(step):
                move = move_of(step)
                node_id = self.ids.take(f"{move.forward or 'd' + move.backward} {move.axis}")
                node = bar_node(move, node_id, drawing.notation)
                operation = DrawnOperation(node, (Flow(step.inputs[0]),), step.outputs)
                taken = ()
            else:
                operation, move = drawing.apply(step), None
                taken = _parameters_of(step, sketch, drawing)
            here = drawing.inner_collectives.get(step, ())
            first, *behind = through(operation, here, [self._bar(one, drawing) for one in here])
            own = drawing.notation, first
            yield Piece(self._renamed(first, outside), step, taken, move, own)
            for collective, operation in zip(here, behind, strict=True):
                yield Piece(self._renamed(operation, outside), step, move=_move(collective))

    def _bar(self, collective: InnerCollective, drawing: ForwardDrawing) -> FigureNode:
        return collective_bar(collective, self.ids.take(collective.id), drawing.notation)

    def _renamed(self, operation: DrawnOperation, outside: Mapping[Value, Value]) -> DrawnOperation:
        """Let an operation take and give the values of the call that it is in, if of one."""
        return rename_values(operation, outside, self.homes.get) if outside else operation

    # ---- stages ---------------------------------------------------------------------------------

    def _nodes_by_stage(
        self,
        items: Sequence[Piece | Opening],
        key: str,
        drawing: ForwardDrawing,
        outside: Mapping[Value, Value],
    ) -> Iterator[Piece | Opening]:
        """Yield a block's nodes, stage by stage; a long stage is one box."""
        graph = self.graphs[key]
        leaving = {outside[value] for value in graph.outputs}
        name = graph.title or graph.block
        staged = list(stages(items))
        boxes = [_boxed_pieces(between, stage) for between, stage in staged]
        is_part = bool(graph.calls) or sum(map(bool, boxes)) > 1
        for (_, stage), pieces in zip(staged, boxes, strict=True):
            if not pieces:
                yield from stage
                continue
            others = (item for item in items if item not in pieces)
            read = {value for item in others for value in ends(item)[0]}
            called = _part_name(name, pieces) if is_part else name
            called = with_masks(called, (piece.step for piece in pieces))
            yield self._stage_box(pieces, called, drawing, outside, read | leaving)

    def _stage_box(
        self,
        pieces: Sequence[Piece],
        name: str,
        drawing: ForwardDrawing,
        outside: Mapping[Value, Value],
        read: Set[Value],
    ) -> Piece:
        """Put several nodes into one box, with the matrices that they take."""
        block = drawing.graph.block
        taken = dict.fromkeys(flow.value for one in pieces for flow in one.operation.flows)
        results = dict.fromkeys(value for one in pieces for value in one.operation.outputs)
        node = FigureNode(
            self.ids.take(block),
            NodeKind.BLOCK,
            plain(name),
            title=block,
            mark=max((one.operation.node.mark for one in pieces), key=lambda mark: mark.value),
        )
        flows = tuple(Flow(value) for value in taken if value not in results)
        inner = (value for one in pieces for value in one.step.inputs)
        inner_values = dict.fromkeys(outside.get(value, value) for value in inner)
        leaves = [v for v in inner_values if v.role == "input" and v in self.homes]
        beside = tuple(
            (self.homes[value].tensor(value, place), EdgeStyle.SINGLE)
            for place, value in enumerate(leaves)
        )
        outputs = tuple(value for value in results if value in read)
        inside = [
            replace(one, call=piece.step.path) if isinstance(piece.step, Call) else one
            for piece in pieces
            for one in piece.taken
        ]
        operation = DrawnOperation(with_matrices(node, inside), flows, outputs, beside)
        return Piece(operation, pieces[0].step, tuple(inside))

    def _taken_below(self, call: Call, around: Notation) -> tuple[TakenParameter, ...]:
        """Return the parameters that a call takes, and the calls inside it."""
        sketch, graph = self.sketches[call.callee], self.graphs[call.callee]
        sizes = {name: dim.substitute(around.outer) for name, dim in call.sizes.items()}
        notation = replace(Notation.of(graph, rank=self.rank), outer=sizes)
        taken: list[TakenParameter] = []
        for step in graph.steps:
            if isinstance(step, Call):
                taken += self._taken_below(step, notation)
            else:
                taken += _taken_by(step.inputs, sketch, notation)
        return tuple(taken)


def _move(collective: InnerCollective) -> Move:
    return Move(
        axis_of(collective.axis),
        REDUCTIONS["P"].glyph * collective.touches(backward=False),
        REDUCTIONS["P"].glyph * collective.touches(backward=True),
        collective.value,
    )


def _is_bar(step: object) -> bool:
    """Return whether a step is a move for which something is sent, forward or backward."""
    if not isinstance(step, Apply) or step.op.family != FAMILY or "source" not in step.attrs:
        return False
    move = move_of(step)
    return bool(move.forward or move.backward)


def _names_outside(graph: Graph, call: Call, around: Notation) -> dict[Value, str]:
    """Return the caller's names of a block's inputs, also where they were only moved."""
    pairs = zip(graph.inputs, call.inputs, strict=True)
    names = {inner: around.name(outer) for inner, outer in pairs}
    for step in graph.steps:
        if isinstance(step, Apply) and step.op.family == FAMILY and step.inputs[0] in names:
            names[step.outputs[0]] = names[step.inputs[0]]
    return names


def _sent(moves: Iterable[Move]) -> frozenset[Sent]:
    return frozenset(sent for move in moves for sent in move.sent())


def _of(value: Value, sketch: Sketch, drawing: ForwardDrawing) -> Sequence[Move]:
    """Return the moves of a parameter that a node takes, maybe as a view."""
    view = drawing.leaves.views.get(value)
    return sketch.moved.get(view.inputs[0] if view else value, ())


def _parameters_of(
    step: Apply, sketch: Sketch, drawing: ForwardDrawing
) -> tuple[TakenParameter, ...]:
    """Return the parameters that a node takes, maybe as views."""
    views = (drawing.leaves.views.get(value) for value in step.inputs)
    pairs = zip(step.inputs, views, strict=True)
    values = [view.inputs[0] if view else value for value, view in pairs]
    return tuple(_taken_by(values, sketch, drawing.notation))


def _taken_by(
    values: Iterable[Value], sketch: Sketch, notation: Notation
) -> Iterator[TakenParameter]:
    """Yield the parameters among some values, and what is moved as one."""
    params = set(notation.graph.param_values())
    for value in values:
        if value in params or value in sketch.moved:
            yield TakenParameter(value, notation, _sent(sketch.moved.get(value, ())))


def _boxed_pieces(between: bool, stage: Iterable[Piece | Opening]) -> list[Piece]:
    """Return the pieces of a stage that are drawn as one box: none of collectives or few nodes."""
    pieces = [item for item in stage if isinstance(item, Piece)]
    return pieces if not between and _is_long(pieces) else []


def _is_long(pieces: Sequence[Piece]) -> bool:
    """Return whether some nodes are drawn as one box: many, or several with a matrix product."""
    steps = [one.step for one in pieces]
    products = any(isinstance(s, Apply) and kind(s.op) is NodeKind.MATMUL for s in steps)
    return len(pieces) > (1 if products else _SHORT)


def _part_name(title: str, pieces: Sequence[Piece]) -> str:
    """Return what several nodes of a block are called that are not all of it: what is in them.

    The block's name alone would be that of the whole, or of each of its parts.
    """
    nodes = (one.operation.node for one in pieces)
    spoken = NodeKind.NONLINEAR, NodeKind.BLOCK
    names = dict.fromkeys(node.label[0].text for node in nodes if node.kind in spoken)
    return f"{title}: {', '.join(names)}" if names else title


def _mark_nodes(items: Iterable[Piece | Opening], opening: Opening) -> Iterator[Piece | Opening]:
    """Mark the nodes of an opened call as the call is, with what is said at the first."""
    remarks, first = opening.drawing.notation.remarks, True
    for item in items:
        if isinstance(item, Opening) or item.move is not None:
            yield item
            continue
        plain = item.operation.node
        node = remarks.node(plain, opening.call)
        lines = node.lines if first else plain.lines
        node = replace(node, lines=lines, mark=max(plain.mark, node.mark, key=lambda m: m.value))
        first = False
        yield replace(item, operation=replace(item.operation, node=node))
