"""Compute numbers that depend only on sizes once, before all calls that read them.

A rotation by position has the same cosines in every layer, for queries and for keys. Where blocks
are called they become inputs, which the entry makes. Only steps of generation with kernels ask for
it: they are short, and few of their numbers are products.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import count
from typing import Final, Literal

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import LEAVES, VIEWS, Body, map_sizes, same, substitute, topological
from xg.ir.content import prune
from xg.ir.graph import Apply, Graph, IRProgram, Step, Value
from xg.ir.op import Op
from xg.ir.prim import RANDOM, Expr, operand
from xg.ir.tensor import TensorType
from xg.ir.use import Data
from xg.ir.walk import PREPARED, inside

# Compute numbers that depend on sizes or parameters alone once, apart from their readers.
#
# For one new position every operation of torch costs a microsecond or more, whatever it computes;
# 32 of the 45 operations of RoPE only depend on the position. A cache in the module would be wrong
# as soon as two texts, or two sets of parameters, take turns.


FREE: Final = (
    LEAVES | VIEWS | {"iota", "as_float", "stop"}
)  # what takes no time, or is no computation


def known_parts(
    body: Body,
    known: Container[int] = (),
    fits: Callable[[Expr], bool] = lambda _: True,
) -> tuple[Expr, ...]:
    """The largest parts that compute floats from sizes alone; of an operator with caches none.

    They are beside something that is computed from operands: an operator without any is whole.
    With operands that are `known`, by their `id`, those that compute from such ones and that fit.
    """
    order = body.order()
    reads: dict[int, bool] = {}
    uses: dict[int, bool] = {}
    for expr in order:
        below, given = [id(arg) for arg in expr.args], id(expr) in known
        free = expr.prim in RANDOM | {"operand"} and not given
        reads[id(expr)] = free or any(reads[arg] for arg in below) or not fits(expr)
        uses[id(expr)] = given or any(uses[arg] for arg in below)
    if body.caches:
        return ()
    inner = [arg for expr in order if reads[id(expr)] for arg in expr.args]
    wanted = [e for e in inner if not reads[id(e)] and e.kind == "float" and works(e)]
    return tuple({id(e): e for e in wanted if uses[id(e)] or (not known and _counts(e))}.values())


def _counts(expr: Expr) -> bool:
    """Whether it is an array: one is made by counting, and what has none is a number of Python."""
    return any(each.prim == "iota" for each in topological([expr]))


def works(expr: Expr) -> bool:
    """Whether an expression takes time."""
    return any(each.prim not in FREE for each in topological([expr]))


def reading(
    step: Apply, types: Mapping[Value, TensorType], parts: Sequence[Expr], values: Sequence[Value]
) -> Apply:
    """The step that is given these parts of its body as values."""
    body = step.body(types)
    names = [str(expr.name) for expr in body.operands]
    for value in values:
        names.append(fresh(str(value.name), names))
    op = step.op.computing(Body((*body.operands, *parts), body.outputs), names)
    attrs = {key: value for key, value in step.attrs.items() if key != "absent"}
    return replace(step, op=op, inputs=(*step.inputs, *values), attrs=attrs)


def fresh(wanted: str, taken: Container[str]) -> str:
    """A name that is not taken: the wanted one, or that with a number."""
    names = (wanted if n == 1 else f"{wanted}_{n}" for n in count(1))
    return next(name for name in names if name not in taken)


# The numbers that a graph is given or makes, each list of them once.


@dataclass(slots=True, eq=False)
class SizeTable:
    """Expressions of sizes alone, the values that they are in a graph, and how many read them."""

    parts: tuple[Expr, ...]
    values: tuple[Value, ...]
    span: Span
    readers: int = 0

    def step(self) -> Apply:
        """The step that makes them."""
        names = tuple(str(value.name) for value in self.values)
        op = Op(
            glyph="tables",
            name="tables",
            family="source",
            forward=lambda: list(self.parts),
            data=(),
            outputs=names,
            derived=True,
            meaning="numbers that depend on sizes alone, for all who read them",
        )
        return Apply(op, (), self.values, {}, self.span)


@dataclass(slots=True)
class SizeTables:
    """Collect the size tables of one graph: their values have `role`, its steps read `used`."""

    graph: Graph
    role: Literal["edge", "input"]
    known: list[SizeTable] = field(default_factory=list[SizeTable])
    used: list[SizeTable] = field(default_factory=list[SizeTable])
    names: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        """Begin with the names that are taken."""
        self.names |= {name for name, _ in self.graph.names()}
        self.names |= {state.name for state in self.graph.states}

    def count(self, parts: Sequence[Expr], readers: int) -> None:
        """Note what some steps read."""
        for table in self.known:
            if same(table.parts, parts):
                table.readers += readers
                return
        self.known.append(SizeTable(tuple(parts), self._values(parts), self.graph.span, readers))

    def table(self, parts: Sequence[Expr]) -> SizeTable:
        """The table of what was noted."""
        return next(table for table in self.known if same(table.parts, parts))

    def use(self, table: SizeTable) -> None:
        """Have the graph make a table, or be given it."""
        if table not in self.used:
            self.used.append(table)

    def types(self) -> dict[Value, TensorType]:
        """The types of what is used."""
        return {
            value: TensorType(part.shape)
            for table in self.used
            for value, part in zip(table.values, table.parts, strict=True)
        }

    def _values(self, parts: Sequence[Expr]) -> tuple[Value, ...]:
        values: list[Value] = []
        for part in parts:
            name = fresh(part.name or "table", self.names)
            self.names.add(name)
            values.append(Value(name, self.role, self.graph.span))
        return tuple(values)


# Numbers that depend on parameters alone, apart from the operators that read them.
#
# Those of one position are short, so what is computed from weights in each step counts: the shares
# of a mixing, the rates of a decay. Apart they are numbers that a module can compute once, where it
# prepares its parameters.


def prepare(program: IRProgram) -> IRProgram:
    """The program whose operators read such numbers as values of their own."""
    graphs = {key: _Apart(graph).graph_apart() for key, graph in program.graphs.items()}
    return replace(program, graphs=graphs)


@dataclass(slots=True)
class _Apart:
    """One graph: what its values are in parameters, and the numbers that were found."""

    graph: Graph
    leaves: dict[Value, Expr] = field(default_factory=dict[Value, Expr], init=False)
    composed: dict[Value, Expr] = field(default_factory=dict[Value, Expr], init=False)
    makers: dict[Value, str] = field(default_factory=dict[Value, str], init=False)
    made: list[tuple[Expr, Apply]] = field(default_factory=list[tuple[Expr, Apply]], init=False)
    names: set[str] = field(default_factory=set[str], init=False)
    sizes: set[str] = field(default_factory=set[str], init=False)

    def graph_apart(self) -> Graph:
        """The graph that makes them first of all."""
        graph = self.graph
        if not graph.params:
            return graph
        self.names |= {name for name, _ in graph.names()}
        self.names |= {state.name for state in graph.states}
        self.leaves = {p.value: operand(str(p.value.name), p.type.shape) for p in graph.params}
        self.composed |= self.leaves
        dims = (dim for param in graph.params for dim in param.type.shape)
        self.sizes |= {name for dim in dims for name in dim.symbols()}
        steps = [self._apart(step) for step in graph.steps]
        if not self.made:
            return graph
        numbers = [step for _, step in self.made]
        types = {step.outputs[0]: TensorType(expr.shape) for expr, step in self.made}
        types = {**graph.types, **types}
        steps = (*numbers, *self._read(steps))
        return prune(replace(graph, steps=steps, types=types))

    def _read(self, steps: Sequence[Step]) -> list[Step]:
        """The steps without those that computed what is now a number, and that nothing reads."""
        graph = self.graph
        read = {*graph.outputs, *(state.next for state in graph.states)}
        read |= {carry.next for carry in graph.carries}
        kept: list[Step] = []
        for step in reversed(steps):
            if read.isdisjoint(step.outputs) and not self.composed.keys().isdisjoint(step.outputs):
                continue
            read.update(step.inputs)
            kept.append(step)
        return kept[::-1]

    def _apart(self, step: Step) -> Step:
        """Make a step read prepared numbers, unless its output depends on parameters only."""
        if isinstance(step, Apply):
            self._compose(step)
            step = self._extract_numbers(step)
        if not self.composed.keys().isdisjoint(step.outputs):
            return step  # who reads it reads the numbers
        inputs = tuple(self._number(value) for value in step.inputs)
        return step if inputs == step.inputs else replace(step, inputs=inputs)

    def _compose(self, step: Apply) -> None:
        """Note the value of a step that reads parameters alone."""
        known = [self.composed.get(value) for value in step.inputs]
        body = step.body(self.graph.types)
        if len(body.outputs) > 1 or body.caches or not known or None in known:
            return
        found = _on(body, [expr for expr in known if expr is not None])
        if found.kind == "float" and all(map(self._has_param_sizes, topological([found]))):
            self.composed[step.outputs[0]] = found
            self.makers[step.outputs[0]] = step.op.name

    def _extract_numbers(self, step: Apply) -> Apply:
        """A step whose body has no such part that does more than to read a number."""
        body = step.body(self.graph.types)
        pairs = list(zip(step.inputs, body.operands, strict=True))
        known = {id(expr): self.composed[v] for v, expr in pairs if v in self.composed}
        if not known or len(known) == len(pairs) or step.op.derived:
            return step
        parts = known_parts(body, known, self._has_param_sizes)
        values = [
            self._prepare_number(_in_params(part, body, known), step.op.name) for part in parts
        ]
        if not parts:
            return step
        return _reading(step, body, parts, values)

    def _number(self, value: Value) -> Value:
        """The number that a value is, if that has to be computed."""
        expr = self.composed.get(value)
        if expr is None or not works(expr):
            return value
        return self._prepare_number(expr, self.makers[value])

    def _has_param_sizes(self, expr: Expr) -> bool:
        """Whether an expression has the sizes of parameters, and none of an input."""
        return all(self.sizes.issuperset(dim.symbols()) for dim in expr.shape)

    def _prepare_number(self, expr: Expr, maker: str) -> Value:
        """The value of an expression in parameters, made once."""
        for known, step in self.made:
            if _is_equal(known, expr):
                return step.outputs[0]
        read = {id(each) for each in topological([expr])}
        values = [value for value, leaf in self.leaves.items() if id(leaf) in read]
        name = fresh(f"{values[0].name}_prepared", self.names)
        self.names.add(name)
        value = Value(name, "edge", self.graph.span)
        step = _maker(expr, {v: self.leaves[v] for v in values}, f"{maker} of parameters", value)
        self.made.append((expr, step))
        return value


def _is_equal(left: Expr, right: Expr) -> bool:
    return Body((), (left,)).matches(Body((), (right,)))


def _in_params(part: Expr, body: Body, known: Mapping[int, Expr]) -> Expr:
    """A part of a body with the parameters in the place of its operands."""
    operands = [known.get(id(expr), expr) for expr in body.operands]
    return _on(Body(body.operands, (part,)), operands)


def _on(body: Body, operands: Sequence[Expr]) -> Expr:
    """The output of a body without caches on other operands."""
    found = body.on(operands)
    assert isinstance(found, list)
    return found[0]


def _reading(step: Apply, body: Body, parts: Sequence[Expr], values: Sequence[Value]) -> Apply:
    """The step that is given these parts of its body, without operands that only they read."""
    names = [str(expr.name) for expr in body.operands]
    given: dict[int, Expr] = {}
    for part in parts:
        names.append(fresh(PREPARED, names))
        given[id(part)] = operand(names[-1], part.shape)
    outputs = [out for out in substitute(body.outputs, given) if out is not None]
    operands = dict(zip((*body.operands, *given.values()), (*step.inputs, *values), strict=True))
    read = Body(tuple(operands), tuple(outputs)).free()
    op = step.op.computing(Body(read, tuple(outputs)), [str(expr.name) for expr in read])
    attrs = {key: value for key, value in step.attrs.items() if key != "absent"}
    return replace(step, op=op, inputs=tuple(operands[expr] for expr in read), attrs=attrs)


def _maker(expr: Expr, leaves: Mapping[Value, Expr], name: str, value: Value) -> Apply:
    """The step that makes a number; one function serves parameters of several names."""
    body = Body(tuple(leaves.values()), (expr,))
    names = ["w"] if len(leaves) == 1 else [f"w_{n}" for n in range(1, len(leaves) + 1)]
    op = Op(
        glyph=PREPARED,
        name=name,
        family="multiply",
        forward=lambda *operands: body.on(operands),
        data=tuple(map(Data, names)),
        derived=True,
        meaning="a number that depends on parameters alone",
    )
    return Apply(op, tuple(leaves), (value,), {}, value.span)


def share(program: IRProgram) -> IRProgram:
    """The program whose blocks are given what depends on sizes alone."""
    graphs: dict[str, Graph] = {}
    given: dict[str, tuple[SizeTable, ...]] = {}
    loops = {call.callee for graph in program.graphs.values() for call in graph.calls if call.loop}
    for key, graph in program.graphs.items():  # callees come first
        asked = {step: list(_find_numbers(step, graph, graphs, given)) for step in graph.steps}
        if key in loops or key in program.entries:
            graphs[key], given[key] = _making(graph, asked), ()
        else:
            graphs[key], given[key] = _taking(graph, asked)
    return replace(program, graphs=graphs)


Asked = Mapping[Step, list[tuple[Expr, ...]]]


def _find_numbers(
    step: Step,
    graph: Graph,
    graphs: Mapping[str, Graph],
    given: Mapping[str, tuple[SizeTable, ...]],
) -> list[tuple[Expr, ...]]:
    """The numbers that a step reads, in the sizes of its graph."""
    if isinstance(step, Apply):
        parts = known_parts(step.body(graph.types))
        return [parts] if parts else []
    callee = graphs[step.callee]
    symbols = inside(step, graph, callee, {})
    return [
        map_sizes(table.parts, lambda dim: callee.sizes.expand(dim).substitute(symbols))
        for table in given[step.callee]
    ]


def _making(graph: Graph, asked: Asked) -> Graph:
    """A graph that makes them itself, first of all; not what only one operator of it reads."""
    tables = SizeTables(graph, "edge")
    for step, lists in asked.items():
        for parts in lists:
            tables.count(parts, 1 if isinstance(step, Apply) else 2)
    steps = _steps(graph, asked, tables, least=2)
    made = [table.step() for table in tables.used]
    return _with(graph, (*made, *steps), tables) if made else graph


def _taking(graph: Graph, asked: Asked) -> tuple[Graph, tuple[SizeTable, ...]]:
    """A graph that is given them, and what it is given."""
    tables = SizeTables(graph, "input")
    for lists in asked.values():
        for parts in lists:
            tables.count(parts, 1)
    steps = _steps(graph, asked, tables, least=1)
    if not tables.used:
        return graph, ()
    inputs = (*graph.inputs, *(value for table in tables.used for value in table.values))
    return _with(replace(graph, inputs=inputs), steps, tables), tuple(tables.used)


def _steps(graph: Graph, asked: Asked, tables: SizeTables, least: int) -> tuple[Step, ...]:
    """Return the steps, which read the tables with at least `least` readers."""
    steps: list[Step] = []
    for step in graph.steps:
        read = [(parts, tables.table(parts)) for parts in asked[step]]
        read = [(parts, table) for parts, table in read if table.readers >= least]
        values = tuple(value for _, table in read for value in table.values)
        for _, table in read:
            tables.use(table)
        if isinstance(step, Apply):
            steps += [reading(step, graph.types, parts, table.values) for parts, table in read]
            steps += [] if read else [step]
        else:
            steps.append(replace(step, inputs=(*step.inputs, *values)) if values else step)
    return tuple(steps)


def _with(graph: Graph, steps: tuple[Step, ...], tables: SizeTables) -> Graph:
    return prune(replace(graph, steps=steps, types={**graph.types, **tables.types()}))
