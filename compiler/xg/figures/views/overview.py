"""Draw the overall flow of a program: blocks, opened repeats, gradients as dashed arrows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model.figure import (
    EdgeRole,
    EdgeStyle,
    Emphasis,
    Figure,
    FigureEdge,
    FigureGroup,
    NodeKind,
)
from xg.figures.model.richtext import RichText, before_shape, dimension, muted, plain
from xg.figures.views.arrange import Arranged, DrawnOperation, Flow, Terminal, arrange, axis_groups
from xg.figures.views.backward import read_cotangents, unused_note, with_words
from xg.figures.views.forward import ForwardDrawing, forward_drawing, rename_values
from xg.figures.views.notation import Notation
from xg.figures.views.sketch import sent_tags
from xg.figures.views.steps import call_name, plan_name, times
from xg.ir.collectives import send
from xg.ir.dim import Dim, symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.moves import operator
from xg.sharding.apply_plan import CutRow, cut_row

# Rewrite a program whose plan is a pipeline, so that its overview shows stages and their sends.
#
# A repeat becomes one call for each stage that is drawn, with a send between neighbors. If there
# are many stages, three are drawn: the first, one for all those between, and the last.


SEND: Final = operator(send.COLLECTIVE)
_MOST: Final = 3  # stages that are drawn


@dataclass(frozen=True, slots=True)
class DrawnStage:
    """A stage of a figure, or several that do the same: its label, and the results of its steps."""

    label: RichText
    results: frozenset[Value]


@dataclass(frozen=True, slots=True)
class Staged:
    """A program as its overview shows it, and its stages, which only a pipeline has.

    `tags` are the gradients that stages send each other for parameters that several of them hold.
    """

    program: IRProgram
    stages: tuple[DrawnStage, ...] = ()
    tags: Mapping[Value, RichText] = field(default_factory=dict[Value, RichText])


@dataclass(slots=True)
class _Row:
    """The calls and the sends that replace a repeat, with the types of new values."""

    graph: Graph
    row: CutRow
    steps: list[Step] = field(default_factory=list[Step])
    fresh: dict[Value, Value] = field(default_factory=dict[Value, Value])  # and what each is like

    def value_like(self, other: Value) -> Value:
        """Return a value without a name that has the type and the placement of another."""
        new = Value(None, "edge", other.span)
        self.fresh[new] = other
        return new

    def fill(self, count: int, rounds: Dim) -> None:
        """Write the calls of `count` stages, and the sends between them."""
        call = self.row.call
        stream, *rest = call.inputs
        for place in range(count):
            is_last = place == count - 1
            result = call.outputs[0] if is_last else self.value_like(call.outputs[0])
            outputs = call.outputs if is_last else (result, *map(self.value_like, call.outputs[1:]))
            self.steps.append(
                replace(call, count=rounds, first=place, inputs=(stream, *rest), outputs=outputs)
            )
            if not is_last:
                stream = self.value_like(call.inputs[0])
                attrs = {"over": self.row.axis}
                self.steps.append(Apply(SEND, (result,), (stream,), attrs, call.span))


def with_stages(program: IRProgram) -> Staged:
    """Replace the repeat that stages share by the calls of each stage."""
    row = cut_row(program) if program.plan and program.stage is None else None
    if row is None or row.call.count is None or row.ranks == 1:
        return Staged(program)
    graph = program.main
    known = row.ranks * row.turns if row.ranks else None
    count = min(known or _MOST, _MOST)
    written = _Row(graph, row)
    written.fill(count, row.call.count / (symbol(row.axis) * row.turns))
    steps = [
        new
        for step in graph.steps
        for new in (written.steps if step.outputs == row.call.outputs else (step,))
    ]
    types = {new: graph.types[old] for new, old in written.fresh.items()}
    lies = {
        new: graph.placements[old] for new, old in written.fresh.items() if old in graph.placements
    }
    main = replace(
        graph,
        steps=tuple(steps),
        types={**graph.types, **types},
        placements={**graph.placements, **lies},
    )
    labels = _labels(row, known)
    results = _results(main, row.call, [one for one in written.steps if isinstance(one, Call)])
    sent = sent_tags([(SEND.glyph, row.axis, False)])
    return Staged(
        replace(program, graphs={**program.graphs, main.key: main}),
        tuple(map(DrawnStage, labels, results)),
        dict.fromkeys(_shared(main, results), sent),
    )


def _shared(main: Graph, results: Sequence[frozenset[Value]]) -> Iterator[Value]:
    """Yield the parameters of which several stages hold a copy, and their transposes."""
    readers = [
        {v for step in main.steps if not own.isdisjoint(step.outputs) for v in step.inputs}
        for own in results
    ]
    params = (value for value in main.param_values() if not value.frozen)
    shared = {value for value in params if sum(value in read for read in readers) > 1}
    yield from shared
    for step in main.steps:
        if isinstance(step, Apply) and step.op.glyph == "T" and step.inputs[0] in shared:
            yield from step.outputs


def _labels(row: CutRow, known: int | None) -> Sequence[RichText]:
    """Return the labels of the stages that are drawn."""
    several = f"{row.turns}*{row.axis}" if row.turns > 1 else row.axis
    if known and known <= _MOST:
        return [plain(f"stage {place}") for place in range(known)]
    return [
        plain("stage 0"),
        (*plain("each of the stages 1 to "), *dimension(f"{several} - 2")),
        (*plain("stage "), *dimension(f"{several} - 1")),
    ]


def _results(main: Graph, row: Call, calls: Sequence[Call]) -> Sequence[frozenset[Value]]:
    """Return what only one stage computes: the first, the repeat's inputs; the last, the rest.

    If several need a value, each computes it by itself.
    """
    makers = {value: step for step in main.steps for value in step.outputs}
    first = _needed(row.inputs[:1], makers)
    every = _needed(row.inputs[1:], makers)
    last = _needed(main.outputs, {v: s for v, s in makers.items() if v not in calls[-1].outputs})
    own = [set(call.outputs) for call in calls]
    own[0] |= first - every - last
    own[-1] |= last - every - first
    return [frozenset(some) for some in own]


def _needed(values: Iterable[Value], makers: Mapping[Value, Step]) -> set[Value]:
    """Return the results of steps on which values depend, themselves included."""
    found: set[Value] = set()
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value in makers and value not in found:
            found.update(makers[value].outputs)
            waiting += makers[value].inputs
    return found


# The calls that an overview opens; equal names in them get the names of the calls as indices.


CallPath = tuple[str, ...]  # the names of the calls around a value, the outermost first


@dataclass(frozen=True, slots=True)
class Level:
    """A block of an overview, inside the calls of a `path`: to what `depth` it opens its own."""

    program: IRProgram
    depth: int | None
    homonyms: Mapping[CallPath, Mapping[str, str]]
    path: CallPath = ()

    @classmethod
    def of(cls, program: IRProgram, depth: int | None) -> Level:
        """Return the level of a program's entry block."""
        return cls(program, depth, _homonyms(program, depth))

    def inside(self, call: Call) -> Level:
        """Return the level of an opened call."""
        return replace(self, depth=_depth_below(self.depth), path=(*self.path, call.path))

    def is_opened(self, call: Call) -> bool:
        """Return whether a call is drawn as what it calls."""
        return _opens(call, self.program, self.depth)

    @property
    def indices(self) -> Mapping[str, str]:
        """Return the index of each name here that another thing in the figure has, too."""
        return self.homonyms.get(self.path, {})


def _opens(call: Call, program: IRProgram, depth: int | None) -> bool:
    """Return whether a call is drawn as what it calls: not where that gives what it takes.

    Nor is a loop: one round has other shapes, and a state that comes from the round before.
    """
    callee = program.graphs[call.callee]
    if call.loop is not None:
        return False
    if depth is None:
        return call.count is not None and any(isinstance(one, Call) for one in callee.steps)
    computed = [value for one in callee.steps for value in one.outputs]
    return depth > 0 and len(set(callee.outputs) & set(computed)) == len(callee.outputs)


def _depth_below(depth: int | None) -> int:
    return (depth or 1) - 1


def _homonyms(program: IRProgram, depth: int | None) -> Mapping[CallPath, Mapping[str, str]]:
    """Return the indices of names by their calls: a part of a path that no other of that name has.

    That is ``dense`` for a name in ``dense.attn``, if the other one is in ``layers.attn``.
    """
    paths: dict[str, set[CallPath]] = defaultdict(set)
    for name, path in _names(program.main, program, depth, ()):
        paths[name].add(path)
    found: dict[CallPath, dict[str, str]] = defaultdict(dict)
    for name, some in paths.items():
        for path in some:
            found[path][name] = ",".join(_least(path, some - {path}))
    return found


def _least(path: CallPath, others: set[CallPath]) -> CallPath:
    """Return the shortest part of a path that no other one has, the first of several."""
    parts = _parts(path)
    return next((part for part in parts if not any(part in {*_parts(one)} for one in others)), path)


def _parts(path: CallPath) -> Iterator[CallPath]:
    """Yield what follows each other in a path, short parts first."""
    for length in range(len(path) + 1):
        yield from (path[start : start + length] for start in range(len(path) - length + 1))


def _names(
    graph: Graph, program: IRProgram, depth: int | None, path: CallPath
) -> Iterator[tuple[str, CallPath]]:
    """Yield the names of what a block has itself, and of what is in the calls that it opens.

    Inputs and outputs of such a call have the caller's names; an input that goes round is drawn
    again, in the call.
    """
    names = dict(zip(graph.outputs, graph.output_names, strict=True))
    outside = {*graph.inputs, *graph.outputs} if path else set[Value]()
    for value in graph.types:
        name = value.name or names.get(value)
        if name and value.role != "cache" and value not in outside:
            yield name, path
    for call in graph.calls:
        if _opens(call, program, depth):
            callee, inside = program.graphs[call.callee], (*path, call.path)
            first = callee.inputs[0].name
            if call.count is not None and first:
                yield first, path if call.inputs[0].name == first else inside
            yield from _names(callee, program, _depth_below(depth), inside)


_SUBTITLE: Final = "overall flow"
_MOST_LINES: Final = 8  # with their ways back, that have room around the text of a tensor


def overview_figure(
    program: IRProgram, *, legend: bool = False, depth: int | None = None
) -> Figure:
    """Return the overall flow of a program's entry block.

    Calls are opened to a depth; without one, those of repeated blocks that call others, but none
    of a pipeline, which is drawn in stages.
    """
    flowing = with_gradients(program)
    staged = with_stages(program)
    program, depth = staged.program, 0 if staged.stages and depth is None else depth
    graph = program.main
    drawing = forward_drawing(graph, program.graphs, tags=staged.tags)
    sources = drawing.sources()
    steps = drawing.steps()
    level = Level.of(program, depth)
    parts = [_part(step, drawing, level) for step in steps]
    levels = _levels(drawing.notation, steps, parts)
    sources += (source for part in parts for source in part.sources)
    sources, parts = _drawn_again(sources, parts, drawing)
    operations = [operation for part in parts for operation in part.operations]
    inner = {copy: known for part in parts for copy, known in part.inner.items()}
    begun = [one for part in parts for one in part.begun]
    naming = Naming(drawing.notation, inner, flowing)
    results = drawing.results()
    arranged = arrange(sources, operations, results, naming)
    return Figure(
        graph.title or graph.block,
        _subtitle(program),
        "Solid arrows run forward; dashed arrows carry the gradients back along the same path.",
        arranged.nodes,
        (
            *arranged.edges,
            *gradients(arranged, (*sources, *begun, *results), operations, naming, drawing.tensors),
        ),
        (
            *_drawn_groups((*_stages(staged, steps, parts), *_groups(parts)), arranged),
            *_lanes(levels, arranged),
        ),
        legend,
    )


def _stages(
    staged: Staged, steps: Sequence[Step], parts: Sequence[_StepDrawing]
) -> Iterator[FigureGroup]:
    """Yield the frames of a pipeline's stages."""
    for number, stage in enumerate(staged.stages):
        inside = (
            part
            for step, part in zip(steps, parts, strict=True)
            if not stage.results.isdisjoint(step.outputs)
        )
        nodes = tuple(node for part in inside for node in part.nodes())
        yield FigureGroup(f"stage {number}", stage.label, nodes)


_Drawn = tuple[Notation, Mapping[Step, Sequence[DrawnOperation]]]  # a block and what it does itself


@dataclass(frozen=True, slots=True)
class _StepDrawing:
    """The drawing of one step of the entry block.

    A block may be expanded more than once, so its values are copied: `inner` maps them to the
    originals and what these are written in. A group is before those inside of it. `sources` are
    parameters with which columns begin inside, `begun` what rounds begin with, `levels` the
    operations of the opened blocks as these have them.
    """

    operations: Sequence[DrawnOperation]
    inner: Mapping[Value, tuple[Notation, Value]] = field(
        default_factory=dict[Value, tuple[Notation, Value]]
    )
    groups: Sequence[FigureGroup] = ()
    sources: Sequence[Terminal] = ()
    begun: Sequence[Terminal] = ()
    levels: Sequence[_Drawn] = ()

    def nodes(self) -> Iterator[str]:
        """Yield the ids of all its nodes."""
        yield from (source.node.id for source in self.sources)
        for one in self.operations:
            yield from (node.id for node, _ in one.beside)
            yield one.node.id


def _subtitle(program: IRProgram) -> str:
    """Return `overall flow`, which may be the title's end, and the plan if there is one."""
    title = (program.main.title or "").casefold()
    words = [] if title.endswith(_SUBTITLE) else [_SUBTITLE]
    return ", ".join([*words, *([plan_name(program.plan)] if program.plan else [])])


def _drawn_again(
    sources: list[Terminal], parts: list[_StepDrawing], drawing: ForwardDrawing
) -> tuple[list[Terminal], list[_StepDrawing]]:
    """Draw an input once for each opened call that takes it, where too many lines would leave it.

    Other nodes take it from the first.
    """
    sources, parts = list(sources), list(parts)
    for source in tuple(sources):
        value = source.value
        counts = [sum(f.value is value for o in part.operations for f in o.flows) for part in parts]
        taking = [number for number, count in enumerate(counts) if count]
        opened = [number for number in taking if parts[number].groups]
        if sum(counts) <= _MOST_LINES or len(opened) < 2:
            continue
        for number in opened if len(opened) < len(taking) else opened[1:]:
            copy = replace(value)
            flows = [[replace(f, value=copy) if f.value is value else f for f in o.flows]
                     for o in parts[number].operations]  # fmt: skip
            operations = [replace(operation, flows=tuple(some)) for operation, some in
                          zip(parts[number].operations, flows, strict=True)]  # fmt: skip
            known = {**parts[number].inner, copy: (drawing.notation, value)}
            parts[number] = replace(parts[number], operations=operations, inner=known)
            sources.append(Terminal(copy, drawing.tensor(value)))
    return sources, parts


@dataclass(frozen=True, slots=True)
class Gradients:
    """The values that a program's backward pass knows, and those that have a gradient."""

    known: frozenset[Value]
    flowing: frozenset[Value]


@dataclass(frozen=True, slots=True)
class Naming:
    """How values are written: in an opened block by its own symbols."""

    outer: Notation
    inner: Mapping[Value, tuple[Notation, Value]]
    gradients: Gradients

    def label(self, value: Value) -> RichText:
        """Return symbol and shape."""
        notation, drawn_value = self._known(value)
        return notation.label(drawn_value)

    def mark(self, value: Value) -> Emphasis:
        """Return how the value's edges are drawn."""
        notation, drawn_value = self._known(value)
        return notation.mark(drawn_value)

    def note(self, value: Value) -> RichText:
        """Return what the file says of the value."""
        notation, drawn_value = self._known(value)
        return notation.note(drawn_value)

    def has_gradient(self, value: Value) -> bool:
        """Return whether a gradient flows through a value; one that only ranks have is a float."""
        notation, drawn_value = self._known(value)
        types = notation.graph.types
        if drawn_value in self.gradients.known or drawn_value not in types:
            return drawn_value in self.gradients.flowing
        return types[drawn_value].is_float

    def origin(self, value: Value) -> tuple[int, Value]:
        """Return what tells a drawn value from others: copies of one value are the same."""
        notation, drawn_value = self._known(value)
        return id(notation), drawn_value

    def gradient(self, value: Value) -> RichText:
        """Return the gradient's symbol and shape, nothing for a value without a name of its own."""
        notation, drawn_value = self._known(value)
        is_named = notation.symbol(drawn_value) and drawn_value not in notation.same
        return notation.gradient(drawn_value) if is_named else ()

    def from_outside(self, value: Value) -> RichText:
        """Return the gradient's symbol with the words that it is the term from outside.

        Ranks stand close together: there is no room for it.
        """
        symbol, _ = before_shape(() if self.outer.rank else self.gradient(value))
        return (*symbol, *muted(plain("from outside"))) if symbol else ()

    def gives_gradient(self, value: Value, made: Collection[Value]) -> bool:
        """Return whether a node that makes these of a value gives it a gradient.

        None comes from a node whose results have none, such as a sum of which topk reads places.
        """
        return self.has_gradient(value) and (not made or any(map(self.has_gradient, made)))

    def gradient_shape(self, value: Value) -> RichText:
        """Return the shape of the gradient alone."""
        notation, drawn_value = self._known(value)
        return notation.gradient_shape(drawn_value)

    def has_partial_gradient(self, value: Value) -> bool:
        """Return whether each rank has a term of the gradient."""
        notation, drawn_value = self._known(value)
        return notation.has_partial_gradient(drawn_value)

    def _known(self, value: Value) -> tuple[Notation, Value]:
        return self.inner.get(value, (self.outer, value))


def _part(step: Apply | Call, drawing: ForwardDrawing, level: Level) -> _StepDrawing:
    """Draw a step as one node, or open it."""
    if isinstance(step, Apply) or not level.is_opened(step):
        return _StepDrawing(drawing.drawn(step))
    program, inside = level.program, level.inside(step)
    callee = program.graphs[step.callee]
    opened = forward_drawing(
        callee, program.graphs, drawing.ids, called=True, tensors=drawing.tensors
    )
    outer, folded = drawing.notation.outer, drawing.graph.sizes.fold
    sizes = {name: folded(dim).substitute(outer) for name, dim in step.sizes.items()}
    named = replace(opened.notation, outer=sizes, indices=inside.indices)
    opened = replace(opened, notation=named)
    outside = dict(zip(callee.inputs, step.inputs, strict=True))
    outside |= dict(zip(callee.outputs, step.outputs, strict=True))
    own = [v for one in callee.steps for v in one.outputs if v not in outside]
    first = {one.inputs[0] for one in opened.steps() if one.inputs}
    begun = [value for value in callee.param_values() if value in first]
    steps = opened.steps()
    parts = [_part(one, opened, inside) for one in steps]
    drawn = [one for part in parts for one in part.operations]
    round_of = _round(step, callee, drawn)
    copies = {value: replace(value) for value in (*own, *begun, *round_of)}
    outside |= copies
    operations = [rename_values(one, outside, partial(_home, drawing)) for one in drawn]
    entries = [Terminal(copies[value], opened.tensor(value)) for value in round_of]
    first_flow = (Flow(step.inputs[0]),)
    operations[:0] = [DrawnOperation(one.node, first_flow, (one.value,)) for one in entries]
    inner = {copy: (opened.notation, value) for value, copy in copies.items()}
    inner |= {copy: known for part in parts for copy, known in part.inner.items()}
    label = _label(step, callee, drawing)
    sources = [Terminal(copies[value], opened.tensor(value)) for value in begun]
    sources += (source for part in parts for source in part.sources)
    within = (node for one in operations for node in (*(n for n, _ in one.beside), one.node))
    nodes = (*(source.node.id for source in sources), *(node.id for node in within))
    group = drawing.notation.remarks.group(FigureGroup(step.path, label, nodes), step)
    entries += (entry for part in parts for entry in part.begun)
    groups, levels = (
        (group, *_groups_below(step.path, parts)),
        _levels(opened.notation, steps, parts),
    )
    return _StepDrawing(operations, inner, groups, sources, entries, levels)


def _label(step: Call, callee: Graph, drawing: ForwardDrawing) -> RichText:
    """Return the title of an opened call, its name if the title does not say it, and its count."""
    name = call_name(step, drawing.graph, drawing.graphs)
    named = (*name, *plain(" ")) if name else ()
    title = plain(f"{callee.title or callee.block} ")
    return (*title, *named, *times(step, drawing.notation))


def _levels(
    notation: Notation, steps: Sequence[Step], parts: Sequence[_StepDrawing]
) -> list[_Drawn]:
    """Return the level of a block and those below it."""
    pairs = zip(steps, parts, strict=True)
    own: dict[Step, Sequence[DrawnOperation]] = {
        step: part.operations for step, part in pairs if isinstance(step, Apply)
    }
    return [(notation, own), *(level for part in parts for level in part.levels)]


def _lanes(levels: Sequence[_Drawn], arranged: Arranged) -> Iterator[FigureGroup]:
    """Yield the lanes of what is done for each index of an axis in the blocks of all levels."""
    for number, (notation, drawn) in enumerate(levels):
        for group in axis_groups(arranged, drawn, notation):
            yield replace(group, id=f"{group.id}, {number}")


def _home(drawing: ForwardDrawing, value: Value) -> ForwardDrawing | None:
    return drawing if value in drawing.leaves else None


def _round(step: Call, callee: Graph, drawn: Sequence[DrawnOperation]) -> tuple[Value, ...]:
    """Return what goes round in a row of calls, if more than one node takes it.

    It is drawn as a tensor inside the frame: an arrow past the frame would say that each round
    takes what the first one does.
    """
    if step.count is None:
        return ()
    first = callee.inputs[0]
    return (first,) if sum(flow.value is first for one in drawn for flow in one.flows) > 1 else ()


def _drawn_groups(groups: Iterable[FigureGroup], arranged: Arranged) -> Iterator[FigureGroup]:
    """Yield groups of what is drawn as a node: not of notes that follow a label."""
    drawn = {node.id for node in arranged.nodes}
    for group in groups:
        yield replace(group, nodes=tuple(node for node in group.nodes if node in drawn))


def _groups_below(path: str, parts: Sequence[_StepDrawing]) -> Iterator[FigureGroup]:
    """Yield the groups in an opened call under the names of its calls."""
    for group in _groups(parts):
        yield replace(group, id=f"{path}.{group.id}")


def _groups(parts: Sequence[_StepDrawing]) -> Iterator[FigureGroup]:
    """Yield the groups of parts; calls that share parameters have one path, but a frame each."""
    drawn = Counter[str]()
    for part in parts:
        for number, group in enumerate(part.groups):
            path = part.groups[0].id
            drawn[path] += number == 0
            again = f"~{drawn[path]}" if drawn[path] > 1 else ""
            yield replace(group, id=f"{path}{again}{group.id.removeprefix(path)}")


def with_gradients(program: IRProgram) -> Gradients:
    """Return the values of a program that have gradients, in any of its blocks."""
    backwards = program.backwards
    values = {v for key in backwards for v in program.graphs[key].types}
    flowing = set[Value]()
    for key, read in read_cotangents(program).items():
        flowing |= {value for value, total in backwards[key].totals.items() if total in read}
        flowing |= {value for one, value in backwards[key].of.items() if one in read}
    return Gradients(frozenset(values), frozenset(flowing))


def gradients(
    arranged: Arranged,
    ends: Sequence[Terminal],
    operations: Sequence[DrawnOperation],
    naming: Naming,
    beside: Mapping[str, Value],
) -> Iterator[FigureEdge]:
    """Yield a dashed arrow back along every edge whose tensor has a gradient.

    `beside` are the values of tensors next to the nodes that take them. A node that takes a value
    twice gives one gradient. Where several give one, each is a term of the sum that bears the name,
    so that their arrows bear none: only the shape is written, once, where the column goes on, or
    at each that enters a bar, except from a lane, which has one label for both of its lines. That
    of an output beside a loss says where it enters that it may be zero.
    """
    terminals = {end.node.id: [end.value] for end in ends}
    values = terminals | {one.node.id: list(one.outputs) for one in operations}
    carried = _gradient_edges(arranged.edges, terminals, values, naming, beside)
    bars = {one.node.id for one in operations if one.node.kind is NodeKind.COMMUNICATION}
    named = _naming_edges(carried, terminals, values)
    terms = Counter(naming.origin(value) for edge, value in carried if edge.tail in values)
    for edge, value in carried:
        is_named = named.get(value) is edge
        is_apart = edge.tail in bars and bool(edge.label) and edge.role is not EdgeRole.RESIDUAL
        label = naming.gradient(value) if is_apart or is_named else ()
        is_term = terms[naming.origin(value)] > 1
        if is_term if label else is_apart and naming.has_partial_gradient(value):
            label = naming.gradient_shape(value)
        words = unused_note(value, naming.outer.graph)
        if words and terminals.get(edge.head) == [value]:
            label = with_words(label or naming.from_outside(value), words)
        back = EdgeStyle.DASHED
        yield FigureEdge(edge.head, edge.tail, back, edge.role, label, output=edge.output)


def _gradient_edges(
    edges: Iterable[FigureEdge],
    terminals: Collection[str],
    values: Mapping[str, Sequence[Value]],
    naming: Naming,
    beside: Mapping[str, Value],
) -> list[tuple[FigureEdge, Value]]:
    """Choose the edges along which gradients come back, with the value of each."""
    carried: dict[tuple[str, str, Value], FigureEdge] = {}
    for edge in edges:
        if edge.style is EdgeStyle.NOTE:
            continue
        value = beside.get(edge.tail)
        if value is None or edge.tail in values:
            value = values[edge.tail][edge.output]
        made = () if edge.head in terminals else values.get(edge.head, ())
        if naming.gives_gradient(value, made):
            carried.setdefault((edge.tail, edge.head, value), edge)
    return [(edge, value) for (_, _, value), edge in carried.items()]


def _naming_edges(
    carried: Sequence[tuple[FigureEdge, Value]], terminals: Collection[str], values: Collection[str]
) -> dict[Value, FigureEdge]:
    """Choose beside which edge the gradient of each value is named."""
    named: dict[Value, FigureEdge] = {}
    for role in (EdgeRole.MAIN, EdgeRole.BRANCH, EdgeRole.SIDE):
        for edge, value in carried:
            is_named = edge.label or edge.tail in terminals or edge.head in terminals
            if edge.role is role and is_named and edge.tail in values:
                named.setdefault(value, edge)
    return named
