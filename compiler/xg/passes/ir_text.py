"""Print programs as text, for people who follow one through the passes (``xg show --as ir``).

One line per step, in order; ``%`` marks values without a name of the author's. Works after every
pass. The text leaves nothing out: `tests/ir_reader` makes the same program of it again.

This is no pass: it knows the operators of the language, and those that passes make.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, cast

from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body
from xg.ir.content import with_parts
from xg.ir.dim import Dim, Scalar
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Loop, Start, Step, Value
from xg.ir.op import Op
from xg.ir.placement import AxisState, BlockId, Entry, Layout, PlacementRequest, Plan
from xg.ir.prim import RANDOM, Expr, ShapeError
from xg.ir.tensor import Shape, Sizes, TensorType, spell_shape
from xg.ir.use import Attrs, Misuse, Tensor
from xg.packages import offers, service
from xg.passes import ring
from xg.passes.differentiate import ZEROS
from xg.passes.resolve.define import define
from xg.syntax.parse import parse

# Words that begin a line: a value of such a name is printed with a number behind it.
LINE_WORDS: Final = frozenset({
    "graph", "backward", "param", "foreign", "state", "carry", "saved", "return", "d", "totals",
    "rows", "zeros", "alias", "layout", "memory", "again", "reusable", "block", "title", "sizes",
    "op", "operands", "part",
})  # fmt: skip
CONSTANTS: Final = frozenset({"true", "false", "none"})  # no size is printed so by itself
PLAIN_NAME: Final = r"[A-Za-z_]\w*(\.\w+)*"
PLAIN_KEY: Final = r'[^\s"()]+(\([^()"\n]*\))?'

SIZE: Final = "size"  # the function whose argument is a size without a name of its own

# Names of values in the printed IR.


@dataclass(slots=True)
class ValueNames:
    """A name for everything that is asked for: the author's, made unique, or a number."""

    _names: dict[Hashable, str] = field(default_factory=dict[Hashable, str])
    _taken: Counter[str] = field(default_factory=Counter[str])

    def of(self, thing: Hashable, name: str | None) -> str:
        """The name of a thing, which would like to be called `name`."""
        if thing not in self._names:
            wish = name or "%"
            self._taken[wish] += 1
            number = self._taken[wish]
            plain = name is not None and number == 1 and name not in LINE_WORDS
            mark = "" if wish == "%" else "~"
            self._names[thing] = wish if plain else f"{wish}{mark}{number}"
        return self._names[thing]

    def call(self, thing: Hashable, name: str) -> None:
        """Give a thing a name that no author can choose."""
        self._names[thing] = name


# Blocks in the printed IR: the number of the file tells blocks of one name apart.


def label(block: BlockId) -> str:
    """The label of a block: its name in the main file, ``Layer~1`` in the first other file."""
    file, name = block
    return f"{name}~{file}" if file else name


def usual_label(key: str) -> str:
    """The label of the block that a graph of this key usually belongs to."""
    name = re.match(r"\w*", key)
    return name.group() if name else ""


# Operators that a glyph alone names in the printed IR, and those that need more.


Types = Mapping[Value, TensorType]


@cache
def lasting_operators() -> Mapping[str, Op]:
    """Return the operators of the language and of the passes, by glyph."""
    fused: tuple[Op, ...] = service("fused_operators")() if offers("fused_operators") else ()
    rest = (ring.OP, ZEROS)
    return {**ops.table(), **{op.glyph: op for op in (*fused, *rest)}}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The meaning of every glyph of a text; definitions are as in the file: ``op RMS(x) = …``."""

    operators: Mapping[str, Op]
    definitions: tuple[str, ...] = ()

    @classmethod
    def of(cls, program: IRProgram) -> Vocabulary:
        """Build the vocabulary of a program, with file operators whose glyph is unambiguous."""
        used: dict[str, dict[int, tuple[Op, bool]]] = {}
        for step, types in _applies(program):
            said = used.setdefault(step.op.glyph, {})
            if id(step.op) not in said:
                said[id(step.op)] = step.op, _matches_formula(step, types)
        alone = [
            op for (op, defined), *others in map(_values, used.values()) if defined and not others
        ]
        table = {**lasting_operators(), **{op.glyph: op for op in alone}}
        return cls(table, tuple(op.formula for op in alone))

    def names(self, op: Op) -> bool:
        """Whether the glyph of an operator means this operator."""
        return self.operators.get(op.glyph) is op


def _values(said: Mapping[int, tuple[Op, bool]]) -> Sequence[tuple[Op, bool]]:
    return tuple(said.values())


def _applies(program: IRProgram) -> Iterator[tuple[Apply, Types]]:
    for graph in (*program.graphs.values(), *program.backwards.values()):
        for step in graph.steps:
            if isinstance(step, Apply):
                yield step, graph.types
                inside = _inside(graph.types, step.parts) if step.parts else graph.types
                yield from ((part, inside) for part in step.parts)


def _inside(types: Types, parts: Iterable[Apply]) -> Types:
    """Types of values, with those inside a fused step where its parts fit its operands.

    In the program of a rank they do not: the parts are those of one device.
    """
    try:
        return with_parts(types, parts)
    except (ShapeError, Misuse):
        return types


def parse_operator(text: str) -> Op | None:
    """The operator that a file's definition makes, None for anything else."""
    try:
        module = parse(Source("program.ir", text + "\n"))
        return define(module.ops[0]) if len(module.ops) == 1 else None
    except DiagnosticError:
        return None


def _matches_formula(step: Apply, known: Types) -> bool:
    """Whether a step applies what its operator's own formula defines."""
    op = step.op
    if op.local or not op.formula.startswith(f"op {op.glyph}("):
        return False
    again = parse_operator(op.formula)
    if again is None or any(value not in known for value in step.inputs):
        return False
    types = [known[value] for value in step.inputs]
    return are_equivalent(op, again, types, step.attrs)


def are_equivalent(op: Op, other: Op, types: Sequence[TensorType], attrs: Attrs) -> bool:
    """Whether two operators are the same to all passes, on operands of these types."""

    def said(one: Op) -> object:
        slots = (one.data, one.own, one.outputs)
        return one.glyph, one.name, one.family, slots, one.local, one.keeps_shape

    try:
        return said(op) == said(other) and op.body(types, attrs).matches(other.body(types, attrs))
    except (ShapeError, Misuse):
        return False


def gradients(origin: Apply, types: Sequence[TensorType]) -> tuple[str, ...]:
    """The operands of a step whose gradients an adjoint of its operator can give."""
    if origin.op.local:
        return ()  # of what one rank computes no gradient is derived
    return origin.op.adjoint_body(types, origin.attrs).of


# Sizes, numbers and attributes of steps, every kind distinct.


def spell_scalar(scalar: Scalar) -> str:
    """Spell a number; a plain one has a point or an exponent."""
    if scalar.op == "number":
        assert isinstance(scalar.value, float)
        return repr(scalar.value).replace("inf", "1e999")
    return scalar.spell(_spell_size, lambda name, arg: f"{name}({arg})", power="^")


def _spell_size(dim: Dim) -> str:
    return dim.name or f"{SIZE}({dim})"


def spell_dim(dim: Dim, sizes: Sizes) -> str:
    """A size under the names that the file gives."""
    return str(sizes.fold(sizes.expand(dim)))


def spell_attribute(value: object, sizes: Sizes) -> str:
    """An attribute: ``2`` ``2.0`` ``true`` ``none`` ``"tanh"`` ``|S|`` ``[B, S]`` ``(0, 1)``."""
    match value:
        case None | bool():
            return "none" if value is None else str(value).lower()
        case int():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case AxisState():
            return f"@{value}"
        case Dim():
            return f"|{spell_dim(value, sizes)}|"
        case Scalar():
            text = spell_scalar(value)
            return f"size({text})" if text in CONSTANTS else text
        case tuple():
            return _spell_tuple(cast("tuple[object, ...]", value), sizes)
        case _:
            raise TypeError(f"an attribute is {value!r}")


def _spell_tuple(items: tuple[object, ...], sizes: Sizes) -> str:
    if items and all(isinstance(item, Dim) for item in items):
        return "[" + ", ".join(spell_dim(cast("Dim", item), sizes) for item in items) + "]"
    texts = [spell_attribute(item, sizes) for item in items]
    return "(" + ", ".join(texts) + ("," if len(texts) == 1 else "") + ")"


# The lines of a graph.

# The flags of an operator that its text shows.
FLAGS: Final = ("local", "derived", "keeps_shape", "differentiates")


def quoted(text: str) -> str:
    """A text between quotes."""
    return json.dumps(text, ensure_ascii=False)


def spell_key(key: str) -> str:
    """The key of a graph, between quotes where it is not plain."""
    return key if re.fullmatch(PLAIN_KEY, key) else quoted(key)


def _path(path: str) -> str:
    return path if re.fullmatch(PLAIN_NAME, path) else quoted(path)


@dataclass(slots=True)
class GraphPrinter:
    """Writes the lines of one graph; its backward pass shares its names."""

    graph: Graph
    names: ValueNames
    vocabulary: Vocabulary
    makers: dict[Value, Step] = field(init=False)

    def __post_init__(self) -> None:
        """Know the forward steps by what they make first."""
        forward = self.graph.forward if isinstance(self.graph, Backward) else self.graph
        self.makers = {step.outputs[0]: step for step in forward.steps if step.outputs}

    def lines(self) -> Iterator[str]:
        """Yield the lines of the graph: its head, its steps, and then what is rarely needed."""
        graph = self.graph
        word = "backward" if isinstance(graph, Backward) else "graph"
        role = "cotangent" if isinstance(graph, Backward) else "input"
        operands = graph.operands if isinstance(graph, Backward) else ()
        arriving = graph.inputs[: len(graph.inputs) - len(operands)]
        inputs = ", ".join(self._value(value, role) for value in arriving)
        pairs = zip(graph.output_names, graph.output_types, strict=True)
        outputs = "".join(f", {name} {type_}" for name, type_ in pairs).removeprefix(",")
        yield f"{word} {spell_key(graph.key)} ({inputs}) ->{outputs}"
        yield from (f"  {line}" for line in self._begins())
        for step in graph.steps:
            yield from (f"  {line}" for line in self._step(step, graph.types))
        yield from (f"  {line}" for line in self._ends())

    def _begins(self) -> Iterator[str]:
        graph = self.graph
        for param in graph.params:
            value = self._value(param.value, "param", written=param.type)
            yield f"param {value} = {_start(param.start)}"
        yield from (f"foreign {self._value(value, 'param')}" for value in graph.foreign)
        for state in graph.states:
            past = self._value(state.past, "state")
            yield f"state {state.name} = {past} next {self._name(state.next)}"
        for carry in graph.carries:
            past, following = self._name(carry.past), self._name(carry.next)
            yield f"carry {carry.name} = {past} next {following} start {carry.start}"
        if isinstance(graph, Backward):
            yield f"saved {self._all(graph.saved)}".rstrip()
            if graph.operands:
                yield f"operands {self._all(graph.operands)}"

    def _ends(self) -> Iterator[str]:
        graph = self.graph
        yield f"return {self._all(graph.outputs)}".rstrip()
        if isinstance(graph, Backward):
            rows = ", ".join(f"{self._name(value)} = {axis}" for value, axis in graph.rows)
            yield from [f"rows {rows}"] if rows else []
            zeros = [value for value in graph.forward.inputs if value in graph.zeros]
            yield from [f"zeros {self._all(zeros)}"] if zeros else []
            for value, gradient in graph.gradients.items():
                yield f"d {self._name(value)} = {self._name(gradient)}"
            forward, mine = graph.forward.types, graph.types
            totals = {
                value: total
                for value, total in graph.totals.items()
                if value in forward and total in mine and value not in graph.gradients
            }
            if totals:
                yield "totals " + self._pairs(totals.items())
        if graph.aliases:
            pairs = [f"{name} = {self._name(value)}" for name, value in graph.aliases]
            yield f"alias {', '.join(pairs)}"
        if graph.reusable:
            yield f"reusable {self._all(graph.reusable)}"
        for value, cuts in graph.layouts.items():
            axes = ", ".join(f"{axis} = {place}" for axis, place in cuts.items())
            yield f"layout {self._name(value)} {axes}"
        if graph.memory and not isinstance(graph, Backward):
            said = [f"{quoted(name)} {memory}" for name, memory in graph.memory.items()]
            yield f"memory {', '.join(said)}"

    # ---- values ---------------------------------------------------------------------------------

    def _name(self, value: Value) -> str:
        return self.names.of(value, value.name)

    def _all(self, values: Iterable[Value]) -> str:
        return ", ".join(map(self._name, values))

    def _pairs(self, pairs: Iterable[tuple[Value, Value]]) -> str:
        return ", ".join(f"{self._name(a)} = {self._name(b)}" for a, b in pairs)

    def _value(self, value: Value, role: str, *, written: TensorType | None = None) -> str:
        """A value where it comes into being: its type, and all that is known of it alone."""
        graph = self.graph
        text = self._name(value) + (f":{value.role}" if value.role != role else "")
        folded = graph.sizes.fold_type(graph.types[value]) if value in graph.types else None
        type_ = written or folded
        if type_ is not None or value.declared is not None:
            text += f" {type_ or value.declared}"
        if type_ is not None and (shown := self._shown(value, type_)) != type_.shape:
            text += f" as {spell_shape(shown)}"
        if graph.placements.get(value):
            states = (f"{axis}={state}" for axis, state in graph.placements[value].items())
            text += f" @({', '.join(states)})"
        if graph.placement_requests.get(value):
            placement_requests = (
                f"{axis}={_request(request)}"
                for axis, request in graph.placement_requests[value].items()
            )
            text += f" ?({', '.join(placement_requests)})"
        if isinstance(graph, Backward):
            of = graph.of.get(value)
            text += f" of {self._name(of)}" if of and of in graph.forward.types else ""
        return f"{text} frozen" if value.frozen else text

    def _shown(self, value: Value, type_: TensorType) -> Shape:
        """How people see the shape of a value."""
        return self.graph.shape(value) if value in self.graph.types else type_.shape

    # ---- steps ----------------------------------------------------------------------------------

    def _step(self, step: Step, types: Types) -> Iterator[str]:
        lines = self._apply(step, types) if isinstance(step, Apply) else iter((self._call(step),))
        yield ("again " if step.again else "") + next(lines)
        yield from lines

    def _call(self, call: Call) -> str:
        if call.origin is None and call.outputs:
            self.names.call(call.saved, f"{self._name(call.outputs[0])}~saved")
        role = "edge" if call.origin is None else "cotangent"
        outputs = ", ".join(self._value(value, role) for value in call.outputs) or "()"
        verb = "call" if call.origin is None else "backward"
        count = f" × {call.count}" if call.count is not None else ""
        count += f" behind {call.first}" if call.first else ""
        sizes = ", ".join(f"{name} = {dim}" for name, dim in call.sizes.items())
        said = f" {{{sizes}}}" if sizes else ""
        called = f"{verb} {spell_key(call.callee)}{count} as {_path(call.path)}{_loop(call.loop)}"
        if call.carried:
            called += f" carried {', '.join(f'{to} = {by}' for to, by in call.carried)}"
        return f"{outputs} = {called} ({self._all(call.inputs)}){said}{self._origin(call)}"

    def _origin(self, step: Step) -> str:
        """The forward step that a backward one differentiates, by what it makes first."""
        if step.origin is None or not step.origin.outputs:
            return ""
        first = step.origin.outputs[0]
        return f" from {self._name(first)}" if first in self.makers else ""

    def _apply(self, step: Apply, types: Types) -> Iterator[str]:
        body = self._body(step, types)
        caches = len(step.outputs) - (len(body.caches) if body else 0)
        differentiates = isinstance(self.graph, Backward) and not step.again
        usual = "cotangent" if differentiates else "edge"
        roles = [usual if place < caches else "cache" for place in range(len(step.outputs))]
        outputs = [self._value(v, role) for v, role in zip(step.outputs, roles, strict=True)]
        line = f"{', '.join(outputs) or '()'} = {self._use(step)}{self._place(step, body)}"
        line += self._origin(step)
        if self.vocabulary.names(step.op):
            yield line
        elif (chosen := self._adjoint(step, types)) is not None:
            yield line + chosen
        else:
            yield line
            if body is not None:
                yield from self._definition(step.op, body)
        yield from map(self._part, step.parts)

    def _use(self, step: Apply) -> str:
        attrs = self._attrs(sorted(step.attrs.items()))
        return f"{step.op.glyph}({self._all(step.inputs)}) {{{attrs}}}"

    def _attrs(self, attrs: Iterable[tuple[str, object]]) -> str:
        sizes = self.graph.sizes
        return ", ".join(f"{key}={spell_attribute(value, sizes)}" for key, value in attrs)

    def _place(self, step: Apply, body: Body | None) -> str:
        """Return the name under which a step draws random numbers, if its output has another."""
        if body is None or not step.place or step.place == step.outputs[0].name:
            return ""
        draws = any(expr.prim in RANDOM for expr in body.order())
        return f" at {_path(step.place)}" if draws else ""

    def _body(self, step: Apply, types: Types) -> Body | None:
        """The body of a step, where types are known."""
        if any(value not in types for value in step.inputs):
            return None
        return step.body(types)

    def _adjoint(self, step: Apply, types: Types) -> str | None:
        """Which gradients a step gives, if the step that it differentiates says the rest."""
        if not isinstance(self.graph, Backward) or step.origin is None or not step.origin.outputs:
            return None
        origin = self.makers.get(step.origin.outputs[0])
        if not isinstance(origin, Apply):
            return None
        operands = [self.graph.forward.types[value] for value in origin.inputs]
        every = gradients(origin, operands)
        chosen = tuple(name.removeprefix("d") for name in step.op.outputs)
        if not chosen or not set(chosen) <= set(every):
            return None
        adjoint = origin.op.adjoint_op(operands, origin.attrs, chosen)
        inputs = [types[value] for value in step.inputs]
        if not are_equivalent(step.op, adjoint, inputs, step.attrs):
            return None
        return "" if chosen == every else f" for {', '.join(chosen)}"

    def _part(self, step: Apply) -> str:
        """A step that a fused one replaces; its values are missing in the graph."""
        outputs = (
            self._name(value) + (f":{value.role}" if value.role != "edge" else "")
            for value in step.outputs
        )
        named = step.place == (step.outputs[0].name or "")
        draws = not named and any(value.role == "cache" for value in step.outputs)
        place = f" at {_path(step.place)}" if draws else ""
        return f"  part {', '.join(outputs)} = {self._use(step)}{place}"

    # ---- operators ------------------------------------------------------------------------------

    def _definition(self, op: Op, body: Body) -> Iterator[str]:
        """The body of an operator that is not of the language."""
        names = ValueNames()
        own = {each.name for each in op.own if isinstance(each, Tensor)}
        operands = [(names.of(expr, expr.name), expr.name in own) for expr in body.operands]
        data = ", ".join(name for name, is_own in operands if not is_own)
        rest = ", ".join(name for name, is_own in operands if is_own)
        flags = [word for word in FLAGS if getattr(op, word)]
        head = " ".join([quoted(op.name), op.family, *flags])
        takes = f"{data}; {rest}" if rest else data
        yield f"  op {head} ({takes}) -> {', '.join(op.outputs)}".rstrip()
        for expr in body.order():
            if expr.prim != "operand":
                yield f"    {self._primitive(expr, names)}"
        results = [names.of(expr, expr.name) for expr in body.outputs]
        first = len(results) - len(body.caches)
        caches = f"; {', '.join(results[first:])}" if body.caches else ""
        yield f"    return {', '.join(results[:first])}{caches}"

    def _primitive(self, expr: Expr, names: ValueNames) -> str:
        args = ", ".join(names.of(arg, arg.name) for arg in expr.args)
        kind = "" if expr.kind == "float" else f":{expr.kind}"
        shape = spell_shape(self.graph.sizes.fold_shape(expr.shape))
        name = names.of(expr, expr.name)
        return f"{name}{kind} {shape} = {expr.prim}({args}) {{{self._attrs(expr.attrs)}}}"


def _start(start: Start) -> str:
    if isinstance(start, tuple):
        return f"uniform({', '.join(map(spell_scalar, start))})"
    return start if isinstance(start, str) else f"normal({spell_scalar(start)})"


def _request(request: PlacementRequest) -> str:
    return str(request.rest) + (f">{request.use}" if request.use is not None else "")


def _loop(loop: Loop | None) -> str:
    """`` over S reversed [-2, none] -> [-2, none] states 1``."""
    if loop is None:
        return ""
    backwards = " reversed" if loop.reverse else ""
    inputs, outputs = (
        ", ".join("none" if axis is None else str(axis) for axis in axes)
        for axes in (loop.inputs, loop.outputs)
    )
    return f" over {loop.length}{backwards} [{inputs}] -> [{outputs}] states {loop.states}"


def spell_program(program: IRProgram, passes: Collection[str] = ("forward", "backward")) -> str:
    """Every graph, callees first, and its backward graph; or only one of these `passes`."""
    vocabulary = Vocabulary.of(program)
    parts = ["\n".join(_head(program, vocabulary))]
    for key, graph in program.graphs.items():
        names = ValueNames()
        printer = GraphPrinter(graph, names, vocabulary)
        lines = {"forward": [*printer.lines(), *_known_of(graph, program)]}
        if key in program.backwards:
            printer = GraphPrinter(program.backwards[key], names, vocabulary)
            lines["backward"] = list(printer.lines())
        parts += ["\n".join(lines[each]) for each in lines if each in passes]
    return "\n\n".join(parts) + "\n"


def _head(program: IRProgram, vocabulary: Vocabulary) -> Iterator[str]:
    yield f"program {spell_key(program.entry)}"
    yield from _sizes_line(program.main.sizes, Sizes())
    if program.numbers:
        yield f"  numbers {_counts(program.numbers)}"
    if program.mesh:
        yield f"  mesh {_counts(program.mesh)}"
    if program.lengths:
        yield f"  padded {_counts(program.lengths)}"
    if program.communicators:
        yield f"  communicators {', '.join(program.communicators)}"
    yield from (f"  define {quoted(text)}" for text in vocabulary.definitions)
    if program.plan is not None:
        yield from _plan_lines(program.plan)


def _known_of(graph: Graph, program: IRProgram) -> Iterator[str]:
    """Yield the lines after the steps of a graph, which hold for its backward pass too."""
    block = label(graph.block_id)
    if block != usual_label(graph.key):
        yield f"  block {block}"
    if graph.title != graph.key:
        yield f"  title {quoted(graph.title)}"
    yield from _sizes_line(graph.sizes, program.main.sizes)


def _sizes_line(sizes: Sizes, usual: Sizes) -> Iterator[str]:
    """The line of sizes, where they are not the usual ones."""
    if sizes == usual:
        return
    definitions = ", ".join(f"{name} = {dim}" for name, dim in sizes.definitions.items())
    tables: Mapping[str, Iterable[str]] = {
        "defaults": [f"{name} = {value}" for name, value in sizes.defaults.items()],
        "mesh": sizes.mesh,
        "local": sorted(sizes.local),
    }
    rest = "".join(f" {word} {', '.join(said)}" for word, said in tables.items() if said)
    yield f"  sizes {{{definitions}}}{rest}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {count}" for name, count in counts.items())


# ---- plans --------------------------------------------------------------------------------------


def _plan_lines(plan: Plan) -> Iterator[str]:
    """A plan, and what it says of each value."""
    axes = [axis if count is None else f"{axis} = {count}" for axis, count in plan.mesh.items()]
    over = f" over {', '.join(axes)}" if axes else ""
    yield f"  plan {quoted(plan.name)} {quoted(plan.title)}{over}"
    yield from (f"    {_entry(entry)}" for entry in plan.entries)
    for each in plan.schedules:
        counts = f"parts {each.parts or 0} turns {each.turns}"
        yield f"    schedule {label(each.block)} {quoted(each.name)} {counts}"


def _entry(entry: Entry) -> str:
    use = f" use {_layout(entry.use)}" if entry.use is not None else ""
    rest = f" {_layout(entry.rest)}" if entry.rest is not None else ""
    lies = f"{quoted('.'.join(entry.path))}{rest}{use}"
    over = ", ".join(sorted(entry.over))
    word = "pad" if entry.pads else entry.memory
    memory = f" memory {word}" if word else ""
    return f"entry {label(entry.block)} {lies} over {over} in {quoted(entry.plan)}{memory}"


def _layout(layout: Layout) -> str:
    """Like a file's, but mesh axes are apart from the size: ``[D_ff|N_T, ..]``."""
    parts = [
        ("_" if dim is None else str(dim)) + (f"|{'*'.join(cuts)}" if cuts else "")
        for dim, cuts in zip(layout.dims, layout.cuts, strict=True)
    ]
    return "[" + ", ".join([*parts, *([".."] if layout.open else [])]) + "]"
