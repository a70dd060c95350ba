"""The steps of a graph as statements: what is written in place, what gets a line and a name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache

from xg.codegen.emit.allowlist import REMEMBERED
from xg.codegen.emit.dialect import Kernels
from xg.codegen.emit.function import (
    BodyWriter,
    OperatorFunction,
    operator_function,
    repeats,
    rounds_a_size,
)
from xg.codegen.emit.names import Names, safe, spell_symbol
from xg.codegen.emit.spelling import Scope, Spelling, shape_text
from xg.codegen.emit.text import WIDTH, Text, add_comment, call, wrap_comment
from xg.diagnostics.diagnostic import Source, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body, has_unsafe_choice, is_inline, remove_stops
from xg.ir.graph import Apply, Call, Graph, Step, Value
from xg.ir.labels import snake
from xg.ir.tensor import TensorType

_BEFORE_COMMENT = re.compile(r'(?:"[^"]*"|[^"#])*')
PENDING_WIDTH = 56  # an expression that waits to be used is not longer than this


def function_name(operator: str) -> str:
    """The name for the function of an operator: ``d_softmax``."""
    return snake(operator.replace("gradient of ", "d_"))


@dataclass(slots=True)
class Functions:
    """The operator functions of a module: equal ones are one, different ones differ in name.

    One without backward passes has no gradient that a body could stop: it `learns` nothing.
    """

    spelling: Spelling
    names: Names
    kernels: Kernels | None = None
    always: Kernels | None = None
    learns: bool = True
    sources: dict[tuple[str, tuple[str, ...]], str] = field(
        default_factory=dict[tuple[str, tuple[str, ...]], str]
    )
    written: dict[str, OperatorFunction] = field(default_factory=dict[str, OperatorFunction])
    support: dict[str, None] = field(default_factory=dict[str, None])

    def kernel(
        self, step: Apply, body: Body, spent: Container[str]
    ) -> tuple[str, OperatorFunction] | None:
        """The kernel for a step and its name, if there is one."""
        tables = [table for table in (self.kernels, self.always) if table]
        return next(filter(None, (table.find(step, body, spent) for table in tables)), None)

    def name(self, wanted: str, function: OperatorFunction) -> str:
        """The name under which a function is called."""
        key = (function.head, function.lines)
        if key not in self.sources:
            self.sources[key] = self.names.fresh(wanted)
            self.written[self.sources[key]] = function
            self.support.update(dict.fromkeys(function.support))
        return self.sources[key]


def _move(step: Apply) -> str:
    """The name of a step that is no gradient: it moves, joins or fills in."""
    if step.op.family == "collective":
        return step.op.name
    return "sum over uses" if step.inputs else "zeros"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A value that is written where it is used, and the steps that went into it."""

    text: Text
    steps: tuple[Apply, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """The lines from `first` up to `end` compute these steps; lines are counted from 0."""

    first: int
    end: int
    steps: tuple[Step, ...]

    def moved(self, by: int) -> Mark:
        """Shift the mark down by a number of lines."""
        return Mark(self.first + by, self.end + by, self.steps)


@dataclass(slots=True)
class Statements:
    """Writes the operator steps of one function.

    `fixed` are values that must have a name of their own: outputs, labeled or saved ones.
    `texts` say how a value is mentioned, `begun` what has to be awaited before; `wanted` what it
    should be called, `again` which value takes over the name of which; `unread` values get none;
    `reusable` may be overwritten; `quoted` are the lines of the diagram in the last comment;
    `direct` is the text of a step that is no operator's; `marks` say which lines compute which
    steps.
    """

    spelling: Spelling
    functions: Functions
    scope: Scope
    names: Names
    types: Mapping[Value, TensorType]
    wanted: Mapping[Value, str]
    fixed: frozenset[Value]
    uses: Counter[Value]
    backward: bool
    place: str = '"{}"'
    reusable: frozenset[Value] = frozenset()
    quoted: tuple[str, ...] = ()
    again: Mapping[Value, Value] = field(default_factory=dict[Value, Value])
    unread: set[Value] = field(default_factory=set[Value])
    direct: dict[Apply, Text] = field(default_factory=dict[Apply, Text])
    texts: dict[Value, Text] = field(default_factory=dict[Value, Text])
    waiting: dict[Value, Waiting] = field(default_factory=dict[Value, Waiting])
    producers: dict[Value, Apply] = field(default_factory=dict[Value, Apply])
    begun: dict[Value, tuple[str, Apply]] = field(default_factory=dict[Value, tuple[str, Apply]])
    lines: list[str] = field(default_factory=list[str])
    marks: list[Mark] = field(default_factory=list[Mark])
    random: bool = False

    def name(self, value: Value) -> str:
        """A fresh name for a value, and from now on its text."""
        if value in self.again:
            self.texts[value] = self.texts[self.again[value]]
        else:
            self.texts[value] = Text(self.names.fresh(self.wanted.get(value) or "part"))
        return self.texts[value].text

    def mention(self, value: Value) -> Text:
        """A value as an operand."""
        self._await(value)
        return self.waiting[value].text if value in self.waiting else self.texts[value]

    def materialize(self, value: Value) -> Text:
        """A value under a name, on a line of its own if it was waiting."""
        self._await(value)
        if value in self.waiting:
            waited = self.waiting.pop(value)
            self._assign([value], waited.text, waited.steps)
        return self.texts[value]

    def apply(self, step: Apply, needed: Sequence[Value]) -> None:
        """One operator; `needed` are its outputs that anything reads."""
        if not needed:
            return
        for value in step.outputs:
            self.producers[value] = step
        body = self._body(step, needed)
        inline = self._inline(step, body)
        text = self._text(step, body, inline=inline)
        while len(text.text) > WIDTH - 20 and any(v in self.waiting for v in step.inputs):
            longest = max(
                (v for v in step.inputs if v in self.waiting),
                key=lambda v: len(self.waiting[v].text.text),
            )
            self.materialize(longest)
            text = self._text(step, body, inline=inline)
        if len(text.text) > WIDTH - 20 and inline:
            text = self._in_steps(step, body)
        steps = self._inlined_steps(step)  # a value that got a line above has its steps there
        alone = len(needed) == 1 and self.uses[needed[0]] == 1 and needed[0] not in self.fixed
        if alone and len(text.text) <= PENDING_WIDTH and (inline or not self.backward):
            self.waiting[needed[0]] = Waiting(text, steps)
        else:
            self._assign(needed, text, steps)

    def _body(self, step: Apply, needed: Sequence[Value]) -> Body:
        """The computation of the outputs of a step that are needed."""
        body = step.body(self.types)
        if len(needed) < len(step.outputs):
            pairs = zip(body.outputs, step.outputs, strict=True)
            expressions = tuple(out for out, value in pairs if value in needed)
            caches = tuple(str(v.name) for v in step.outputs if v in needed and v.role == "cache")
            body = Body(body.operands, expressions, caches)
        return body if self.functions.learns else remove_stops(body)

    def begin(self, step: Apply) -> None:
        """Begin a sum over ranks that continues while others compute; awaited where it is read."""
        (value,) = step.outputs
        body = step.body(self.types)
        text = self._text(step, body, inline=self._inline(step, body))
        handle = self.names.fresh(f"{self.wanted.get(value, 'part')}_sum")
        self.begun[value] = handle, step
        comment = self._comment([value], [step])
        self.add(add_comment(f"{handle} = start_{text.text}", comment), [step])

    def _await(self, value: Value) -> None:
        """The line that awaits a sum, before what reads it first."""
        if value in self.begun:
            handle, step = self.begun.pop(value)
            self.add([f"{self.name(value)} = {handle}.wait()"], [step])

    def _inlined_steps(self, step: Apply) -> tuple[Apply, ...]:
        inner = [s for v in step.inputs if v in self.waiting for s in self.waiting[v].steps]
        return (*inner, step)

    # ---- texts ----------------------------------------------------------------------------------

    def _text(self, step: Apply, body: Body, *, inline: bool) -> Text:
        if step in self.direct:
            return self.direct[step]
        if inline:
            elementwise = step.op.family in ("add", "multiply")
            inputs, body = _read_operands(step, body)
            operands = [
                self._operand(value, step, elementwise and repeats(body, operand))
                for value, operand in zip(inputs, body.operands, strict=True)
            ]
            text = self._writer().inline(body, operands)
            self.functions.support.update(self.scope.support)
            return text
        return self._call(step, body)

    def _inline(self, step: Apply, body: Body) -> bool:
        """Whether a step is written in place; what a kernel computes is not."""
        if self.spelling.quiet and has_unsafe_choice(body):
            return False
        if rounds_a_size(body, self.spelling):
            return False
        if self.spelling.wide and self._reads_cache(step):
            return False
        return is_inline(body) and self._kernel(step, body) is None

    def _kernel(self, step: Apply, body: Body) -> tuple[str, OperatorFunction] | None:
        """The kernel for a step; it may overwrite the values that the graph says are reusable."""
        pairs = zip(body.operands, step.inputs, strict=True)
        spent = {str(expr.name) for expr, value in pairs if value in self.reusable}
        return self.functions.kernel(step, body, spent)

    def _in_steps(self, step: Apply, body: Body) -> Text:
        """The text of an operator that is too long for one line, its first parts on lines."""
        writer = self._writer()
        writer.temporary = f"{function_name(step.op.name)}_part"
        inputs, body = _read_operands(step, body)
        for expr, value in zip(body.operands, inputs, strict=True):
            writer.texts[id(expr)] = self.mention(value)
        (text,) = writer.write(body.outputs)
        comment = ", ".join(self._origins([step]))
        for line in writer.lines:
            self.add(add_comment(line, comment), (step,))
        return text

    def _writer(self) -> BodyWriter:
        return BodyWriter(self.spelling, self.scope, self.names)

    def _operand(self, value: Value, step: Apply, repeated: bool) -> Text:
        """An operand's text; the repetition by BC is left to an operator that repeats by itself."""
        producer = self._repeater(value)
        if not repeated or producer is None:
            return self.mention(value)
        if all(self._repeater(other) for other in step.inputs):
            return self.mention(value)  # one operand has to have the whole shape
        body = producer.body(self.types)
        (expression,) = body.outputs
        aligned = expression.args[0] if expression.prim == "broadcast" else expression
        return self._writer().inline(
            Body(body.operands, (aligned,)), [self.mention(v) for v in producer.inputs]
        )

    def _repeater(self, value: Value) -> Apply | None:
        """The BC that makes a value which is still to be written, if nothing but it is needed."""
        producer = self.producers.get(value)
        if value not in self.waiting or producer is None or producer.op.glyph != "BC":
            return None
        return producer if producer.attrs.get("shape") == producer.attrs.get("atoms") else None

    def _call(self, step: Apply, body: Body) -> Text:
        inputs, body = _read_operands(step, body)
        kernel = None if step.op.differentiates else self._kernel(step, body)
        name, function = kernel or (function_name(step.op.name), self._function(step, body))
        args = [self.mention(value).text for value in inputs]
        for place in function.absent:
            args.insert(place, "None")
        args += [
            f'"{own}"' if isinstance(own, str) else self.scope.number(own).text
            for own in function.own
        ]
        args += map(spell_symbol, function.sizes)
        self.scope.needed.update(dict.fromkeys(function.sizes))
        if function.random:
            self.random = True
            args += ["seed", self.place.format(step.place)]
        if function.cuts:
            args.append(function.cuts)
        if function.dtype:
            args.append(self.scope.float_type())
        if function.device:
            args.append(self.scope.place())
        called = self.functions.name(name, function)
        turned = call(called, *args[::-1]).text if function.turns else None
        return Text(call(called, *args).text, turned=turned)

    def _function(self, step: Apply, body: Body) -> OperatorFunction:
        """The function of an operator without a kernel."""
        kernels = self.functions.kernels
        frees = kernels is not None and kernels.releasing
        sizes = self.scope.sizes
        wide = self._reads_cache(step)
        return operator_function(
            step.op, body, step.attrs, sizes, self.spelling, frees=frees, wide=wide
        )

    def _reads_cache(self, step: Apply) -> bool:
        """Whether a step reads floats that an operator saved, which of half types are float32."""
        body = step.body(self.types)
        masks = [expr.args[1] for expr in body.order() if expr.prim == "dropout_apply"]
        pairs = zip(step.inputs, body.operands, strict=True)
        saved = [operand for value, operand in pairs if value.role == "cache"]
        return any(each.kind == "float" and each not in masks for each in saved)

    # ---- lines ----------------------------------------------------------------------------------

    def _assign(self, values: Sequence[Value], text: Text, steps: Sequence[Apply]) -> None:
        targets = ", ".join("_" if v in self.unread else self.name(v) for v in values)
        comment = self._comment(values, steps)
        self.add(add_comment(f"{targets} = {text.text}", comment), steps)

    def add(self, lines: Sequence[str], steps: Sequence[Step]) -> None:
        """Lines that compute some steps, below a quoted line of the diagram if it is a new one."""
        self._quote(steps)
        self.marks.append(Mark(len(self.lines), len(self.lines) + len(lines), tuple(steps)))
        self.lines += lines

    def _comment(self, values: Sequence[Value], steps: Sequence[Apply]) -> str:
        """Shape and role in a backward pass."""
        shape = shape_text(self.types[values[0]].shape, self.scope.sizes)
        fused = [] if self.backward else _fusion_note(steps)
        return ", ".join([shape, *self._origins(steps), *fused])

    def _origins(self, steps: Sequence[Apply]) -> list[str]:
        """The roles of the steps of a backward pass; none in a forward pass."""
        if not self.backward:
            return []
        if all(step.again for step in steps):
            return ["again"]
        moves = [step for step in steps if step.origin is None or step.op.family == "collective"]
        grads = [step.origin.op.name for step in steps if step.origin and step not in moves]
        names = ", ".join(dict.fromkeys(grads))
        others = dict.fromkeys(map(_move, moves))
        return [*([f"grad of {names}"] if names else []), *others]

    def _quote(self, steps: Sequence[Step]) -> None:
        """Add the lines of the diagram that some steps come from, unless they were the last ones.

        The text of a line stays true when the line moves, but its number doesn't. Sums of gradients
        and collectives come from no line of the diagram.
        """
        origins = [
            step.origin if isinstance(step, Apply) and self.backward else step for step in steps
        ]
        parts = (part for step in origins if step for part in _written_parts(step))
        lines = tuple(dict.fromkeys(filter(None, (quote(part.span) for part in parts))))
        prefix = "backward of " if self.backward else ""
        for line in lines:
            if line not in self.quoted:
                self.lines += wrap_comment(f"{prefix}{line}")
        self.quoted = lines or self.quoted


def _read_operands(step: Apply, body: Body) -> tuple[Sequence[Value], Body]:
    """The inputs that code mentions: a gradient has its loss for proofs and figures alone."""
    if not step.op.differentiates:
        return step.inputs, body
    read = body.free()
    inputs = [v for v, e in zip(step.inputs, body.operands, strict=True) if e in read]
    return inputs, replace(body, operands=read)


def _written_parts(step: Step) -> Sequence[Step]:
    """The parts of a step that the diagram has; it has no collectives."""
    if isinstance(step, Call):
        return (step,)
    return [part for part in step.parts or (step,) if part.op.family != "collective"]


def quote(span: Span) -> str:
    """Return the diagram's line at a place, without comment and alignment."""
    return _quote_line(span.source, span.line)


@lru_cache(REMEMBERED)
def _quote_line(source: Source, number: int) -> str:
    """Quote a line by its number, once for all its operators: a line may be long."""
    text = _BEFORE_COMMENT.match(source.line_text(number))
    return safe(" ".join(text[0].split())) if text else ""


def describe(graph: Graph) -> str:
    """Return a block's title and name, without its file, which may be renamed."""
    if graph.title in ("", graph.block):
        return f"Block {graph.block}"
    return f"{graph.title}: block {graph.block}"


def _fusion_note(steps: Sequence[Apply]) -> list[str]:
    """Which labeled edges fused steps have no array for."""
    inner = [value for step in steps for part in step.parts[:-1] for value in part.outputs]
    names = [str(value.name) for value in inner if value.name and value.role == "edge"]
    return [f"fuses {', '.join(names)}"] if names else []
