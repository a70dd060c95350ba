"""Build graphs and the program from the tree of a printed program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from lark import Token

from ir_reader.build_steps import GraphScope, StepBuilder, Values, span_of
from ir_reader.errors import Meaningless, UnreadableIR
from ir_reader.notation import define_operators, parse_label
from ir_reader.records import (
    CarryText,
    CutText,
    EntryText,
    Expression,
    ForeignText,
    GraphText,
    LayoutText,
    LineText,
    MemoryText,
    NamesText,
    PairsText,
    ParamText,
    PlanText,
    ProgramText,
    RowsText,
    ScheduleText,
    SizesText,
    StateText,
    StepText,
    UniformText,
    WordText,
    as_dim,
    as_scalar,
)
from xg.diagnostics.diagnostic import Source
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.graph import Backward, Carry, Graph, IRProgram, Param, Start, State, Value
from xg.ir.op import Op
from xg.ir.placement import BlockId, Entry, Layout, Memory, Plan, Schedule, same
from xg.ir.tensor import Sizes
from xg.passes.ir_text import usual_label

# From the tree of a printed graph to the graph.


L = TypeVar("L", bound=LineText)


def forward_graph(text: GraphText, builder: StepBuilder, block: BlockId, title: str) -> Graph:
    """A graph that is no backward pass."""
    values = builder.values
    lines, scope = _Lines(text.lines), values.scope
    inputs = tuple(values.make(value, "input") for value in text.inputs)
    params = tuple(_param(line, values) for line in lines.of(ParamText))
    foreign = tuple(values.make(line.value, "param") for line in lines.of(ForeignText))
    pasts = [(line, values.make(line.past, "state")) for line in lines.of(StateText)]
    steps = tuple(builder.step(line) for line in lines.of(StepText))
    return Graph(
        key=str(text.key),
        block=block[1],
        file=block[0],
        title=title,
        inputs=inputs,
        outputs=scope.find_values(lines.names("return")),
        output_names=tuple(name for name, _ in text.results),
        output_types=tuple(values.type(type_, written=True) for _, type_ in text.results),
        params=params,
        steps=steps,
        sizes=values.sizes,
        span=span_of(text.key, values.source),
        foreign=foreign,
        states=tuple(State(line.name, past, scope.value(line.next)) for line, past in pasts),
        carries=tuple(
            Carry(line.name, scope.value(line.past), scope.value(line.next), as_scalar(line.start))
            for line in lines.of(CarryText)
        ),
        types=values.types,
        layouts={scope.value(line.value): _cuts(line) for line in lines.of(LayoutText)},
        aliases=tuple((str(name), scope.value(value)) for name, value in lines.pairs("alias")),
        placement_requests=values.placement_requests,
        placements=values.placements,
        memory={
            name: cast("Memory", word)
            for line in lines.of(MemoryText)
            for name, word in line.said.items()
        },
        reusable=scope.find_values(lines.names("reusable")),
    )


def backward_graph(text: GraphText, builder: StepBuilder) -> Backward:
    """The backward pass of a graph."""
    values, forward = builder.values, builder.forward
    assert forward is not None
    lines, scope = _Lines(text.lines), values.scope
    seeds = tuple(values.make(value, "cotangent") for value in text.inputs)
    saved = scope.find_values(lines.names("saved"))
    operands = scope.find_values(lines.names("operands"))
    _lend(forward, (*forward.param_values(), *saved, *operands), values)
    inputs = (*seeds, *operands)
    steps = tuple(builder.step(line) for line in lines.of(StepText))
    gradients = {scope.value(v): scope.value(total) for v, total in lines.pairs("d")}
    totals = {scope.value(v): scope.value(total) for v, total in lines.pairs("totals")}
    rows = {scope.value(v): as_dim(axis).constant for v, axis in lines.rows()}
    own = {*inputs, *rows, *(v for step in steps for v in (*step.inputs, *step.outputs))}
    return Backward(
        key=forward.key,
        block=forward.block,
        file=forward.file,
        title=forward.title,
        inputs=inputs,
        outputs=scope.find_values(lines.names("return")),
        output_names=tuple(name for name, _ in text.results),
        output_types=tuple(values.type(type_, written=True) for _, type_ in text.results),
        params=(),
        steps=steps,
        sizes=forward.sizes,
        span=forward.span,
        types={value: type_ for value, type_ in values.types.items() if value in own},
        placements={value: at for value, at in values.placements.items() if value in own},
        forward=forward,
        saved=saved,
        cotangents={_output_of_seed(seed, values): seed for seed in seeds},
        gradients=gradients,
        of=values.of,
        totals={**totals, **gradients},
        rows=tuple(rows.items()),
        zeros=frozenset(scope.find_values(lines.names("zeros"))),
        operands=operands,
        reusable=scope.find_values(lines.names("reusable")),
    )


def _lend(forward: Graph, lent: Iterable[Value], values: Values) -> None:
    """Add the types and placements of forward values; of these nothing is differentiated."""
    placed = bool(values.placements)
    for value in lent:
        if value in forward.types:
            values.types[value] = forward.types[value]
        if placed and value in forward.placements:
            at = forward.placements[value]
            values.placements[value] = {axis: same(state) for axis, state in at.items()}


def _output_of_seed(seed: Value, values: Values) -> Value:
    if seed not in values.of:
        message = f"expected of and the name of an output behind the cotangent {seed.name}"
        raise Meaningless(message, seed.span.line)
    return values.of[seed]


def _param(line: ParamText, values: Values) -> Param:
    if line.value.type is None:
        raise Meaningless(f"the parameter {line.value.name} has no type", line.value.name.line)
    value = values.make(line.value, "param", written=True)
    written = values.type(line.value.type, written=True)
    return Param(value, written, _start(line.start))


def _start(text: str | Expression | UniformText) -> Start:
    if isinstance(text, UniformText):
        return as_scalar(text.low), as_scalar(text.high)
    return text if isinstance(text, str) else as_scalar(text)


def _cuts(line: LayoutText) -> Mapping[str, int]:
    places = {axis: as_dim(place).constant for axis, place in line.cuts.items()}
    if None in places.values():
        raise Meaningless(f"an axis of {line.value} is a number", line.value.line)
    return {axis: place for axis, place in places.items() if place is not None}


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a graph by their kinds."""

    lines: tuple[LineText, ...]

    def of(self, kind: type[L]) -> list[L]:
        """All of a kind, in order."""
        return [line for line in self.lines if isinstance(line, kind)]

    def names(self, kind: str) -> tuple[Token, ...]:
        """Return the names on the lines of a kind, or an empty tuple."""
        return tuple(
            name for line in self.of(NamesText) if line.kind == kind for name in line.names
        )

    def rows(self) -> list[tuple[str, Expression]]:
        """The rows of a loop, with their axes."""
        return [row for line in self.of(RowsText) for row in line.axes.items()]

    def pairs(self, kind: str) -> list[tuple[Token, Token]]:
        """The pairs of all lines of pairs of a kind."""
        return [pair for line in self.of(PairsText) if line.kind == kind for pair in line.pairs]


def build(tree: ProgramText, source: Source) -> IRProgram:
    """The program of a tree; raises UnreadableIR."""
    try:
        sizes = _sizes(tree.sizes) if tree.sizes else Sizes()
        operators = define_operators((each.text, each.line) for each in tree.definitions)
    except Meaningless as error:
        raise UnreadableIR(error.line or 1, str(error)) from None
    return _Builder(source, sizes, operators).program(tree)


@dataclass(slots=True)
class _Builder:
    """The program while its graphs are built."""

    source: Source
    sizes: Sizes
    operators: Mapping[str, Op]
    graphs: dict[str, Graph] = field(default_factory=dict[str, Graph])
    backwards: dict[str, Backward] = field(default_factory=dict[str, Backward])
    scopes: dict[str, GraphScope] = field(default_factory=dict[str, GraphScope])

    def program(self, tree: ProgramText) -> IRProgram:
        """Every graph in turn: callees stand before their callers."""
        for text in tree.graphs:
            try:
                self._graph(text)
            except Meaningless as error:
                raise UnreadableIR(error.line or text.key.line or 0, str(error)) from None
        plan = None if tree.plan is None else self._plan(tree.plan)
        if tree.entry not in self.graphs:
            raise UnreadableIR(1, f"the entry {tree.entry} is no graph of the text")
        return IRProgram(
            self.graphs,
            tree.entry,
            self.backwards,
            tree.numbers,
            tree.mesh,
            plan,
            lengths=tree.lengths,
            communicators=tree.communicators,
        )

    def _graph(self, text: GraphText) -> None:
        key = str(text.key)
        if text.kind == "backward":
            if key not in self.graphs:
                raise Meaningless(f"there is no graph {key} before its backward pass")
            forward = self.graphs[key]
            values = Values(self.source, self.scopes[key], forward.sizes)
            self.backwards[key] = backward_graph(text, StepBuilder(values, self.operators, forward))
            return
        block = parse_label(_word(text, "block") or usual_label(key))
        own = [line for line in text.lines if isinstance(line, SizesText)]
        sizes = _sizes(own[0]) if own else self.sizes
        values = Values(self.source, GraphScope(), sizes)
        self.scopes[key] = values.scope
        title = _word(text, "title") or key
        steps = StepBuilder(values, self.operators)
        self.graphs[key] = forward_graph(text, steps, block, title)

    # ---- plans ----------------------------------------------------------------------------------

    def _plan(self, text: PlanText) -> Plan:
        entries = tuple(self._entry(line) for line in text.lines if isinstance(line, EntryText))
        schedules = tuple(
            Schedule(
                parse_label(str(each.block)),
                each.name,
                each.parts or None,
                each.turns,
                span_of(each.block, self.source),
            )
            for each in text.lines
            if isinstance(each, ScheduleText)
        )
        return Plan(text.name, text.title, entries, text.mesh, schedules)

    def _entry(self, text: EntryText) -> Entry:
        return Entry(
            block=parse_label(str(text.block)),
            path=tuple(text.path.split(".")),
            rest=None if text.rest is None else _layout(text.rest),
            use=None if text.use is None else _layout(text.use),
            over=text.over,
            plan=text.plan,
            span=span_of(text.block, self.source),
            memory=None if text.memory == "pad" else cast("Memory | None", text.memory),
            pads=text.memory == "pad",
        )


def _layout(text: CutText) -> Layout:
    dims = tuple(None if size is None else as_dim(size) for size, _ in text.parts)
    return Layout(dims, tuple(cuts for _, cuts in text.parts), text.open)


def _sizes(text: SizesText) -> Sizes:
    definitions = {name: as_dim(size) for name, size in text.definitions.items()}
    return Sizes(definitions, text.defaults, text.mesh, text.local)


def _word(text: GraphText, kind: str) -> str | None:
    words = (line.text for line in text.lines if isinstance(line, WordText) and line.kind == kind)
    return next(words, None)
