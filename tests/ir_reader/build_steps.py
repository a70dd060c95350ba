"""Build steps, their operators and their values from the tree of a printed graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from lark import Token

from ir_reader.errors import Meaningless
from ir_reader.notation import bare
from ir_reader.records import (
    ApplyText,
    CallText,
    Definition,
    LoopText,
    Names,
    PrimitiveText,
    StepText,
    TypeText,
    ValueText,
    as_dim,
    attribute,
)
from xg.diagnostics.diagnostic import Source, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body
from xg.ir.graph import Apply, Call, Graph, Loop, Role, Step, Value
from xg.ir.op import Family, Op
from xg.ir.placement import Placement, PlacementRequest
from xg.ir.prim import Attr, Expr, ShapeError, operand
from xg.ir.prim import Kind as ExprKind
from xg.ir.tensor import Sizes, TensorType
from xg.ir.use import Attrs, Data, Misuse, Tensor
from xg.passes.ir_text import gradients

# Values of a graph that is read: their names, and the tables of what is known of them.


@dataclass(slots=True)
class GraphScope:
    """The names of a graph and of its backward pass."""

    values: dict[str, Value] = field(default_factory=dict[str, Value])
    makers: dict[str, Step] = field(default_factory=dict[str, Step])  # by what they make first

    def value(self, name: str) -> Value:
        """The value of a name; the error has the line of a token."""
        if str(name) not in self.values:
            raise Meaningless(f"no value before is called {name}", getattr(name, "line", None))
        return self.values[str(name)]

    def find_values(self, names: Iterable[Token]) -> tuple[Value, ...]:
        """Return the values of several names."""
        return tuple(map(self.value, names))

    def add(self, name: Token, value: Value) -> Value:
        """A value under a name that is new."""
        if str(name) in self.values:
            raise Meaningless(f"{name} is made a second time", name.line)
        self.values[str(name)] = value
        return value

    def maker(self, name: Token) -> Step:
        """The forward step that makes a value first."""
        if str(name) not in self.makers:
            raise Meaningless(f"no forward step makes {name} first", name.line)
        return self.makers[str(name)]


@dataclass(slots=True)
class Values:
    """The values of one graph while it is made."""

    source: Source
    scope: GraphScope
    sizes: Sizes
    types: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    placements: dict[Value, Placement] = field(default_factory=dict[Value, Placement])
    placement_requests: dict[Value, Mapping[str, PlacementRequest]] = field(
        default_factory=dict[Value, Mapping[str, PlacementRequest]]
    )
    of: dict[Value, Value] = field(default_factory=dict[Value, Value])

    def make(self, text: ValueText, role: Role, *, written: bool = False) -> Value:
        """A value where it comes into being; a `written` type is how people see it as well."""
        kind = role if text.role is None else cast("Role", text.role)
        declared = None
        if text.type is not None and written:
            declared = self.type(text.type, written=True)
        if text.shown is not None:
            declared = TensorType(tuple(as_dim(dim) for dim in text.shown))
        value = Value(
            bare(text.name),
            kind,
            span_of(text.name, self.source),
            declared,
            text.frozen is not None,
        )
        self.scope.add(text.name, value)
        return self._record_value(value, text)

    def again(self, text: ValueText) -> Value:
        """A value of the forward pass where the backward pass makes it once more."""
        return self._record_value(self.scope.value(text.name), text)

    def _record_value(self, value: Value, text: ValueText) -> Value:
        """Record in the tables what the text says about a value, and return the value."""
        if text.type is not None:
            self.types[value] = self.type(text.type)
        if text.placement is not None:
            self.placements[value] = text.placement
        if text.placement_requests is not None:
            self.placement_requests[value] = text.placement_requests
        if text.of is not None:
            self.of[value] = self.scope.value(text.of)
        return value

    def type(self, text: TypeText, *, written: bool = False) -> TensorType:
        """Return a type, either as `written` or with its defined symbols expanded."""
        sizes = None if written else self.sizes
        shape = tuple(as_dim(dim, sizes) for dim in text.shape)
        return TensorType(shape, None if text.range is None else as_dim(text.range, sizes))

    def line(self, token: Token) -> Span:
        """The line that a token begins."""
        start = token.start_pos or 0
        end = self.source.text.find("\n", start)
        return Span(self.source, start, len(self.source.text) if end < 0 else end)


def span_of(token: Token, source: Source) -> Span:
    """The place of a token."""
    start = token.start_pos or 0
    return Span(source, start, start + len(token))


# From the lines below a step to the operator that it applies.


def defined(text: Definition, glyph: str, types: Sequence[TensorType], sizes: Sizes) -> Op:
    """The operator of a definition, used on operands of these types."""
    names = (*text.data, *text.own)
    if len(names) != len(types):
        line = (*names, *text.results)[0].line
        raise Meaningless(f"expected {len(types)} operands of {glyph}, not {len(names)}", line)
    operands = tuple(
        operand(bare(name) or "", type_.shape, "float" if type_.is_float else "int")
        for name, type_ in zip(names, types, strict=True)
    )
    exprs = dict(zip(map(str, names), operands, strict=True))
    for line in text.lines:
        exprs[str(line.value.name)] = _primitive(line, exprs, sizes)
    results = _all(text.results, exprs) + _all(text.caches, exprs)
    return _operator(text, glyph, operands, results)


def _operator(
    text: Definition, glyph: str, operands: tuple[Expr, ...], results: tuple[Expr, ...]
) -> Op:
    body = Body(operands, results, tuple(bare(name) or "" for name in text.caches))

    def forward(*given: Expr | None, **_: object) -> object:
        return body.on([expr for expr in given if expr is not None])

    return Op(
        glyph=glyph,
        name=text.name,
        family=cast("Family", text.family),
        forward=forward,
        data=tuple(Data(str(bare(name)), "any") for name in text.data),
        own=tuple(Tensor(str(bare(name))) for name in text.own),
        outputs=tuple(map(str, text.outputs)),
        local="local" in text.flags,
        derived="derived" in text.flags,
        differentiates=len(text.outputs) if "differentiates" in text.flags else 0,
        keeps_shape="keeps_shape" in text.flags,
    )


def _primitive(text: PrimitiveText, exprs: dict[str, Expr], sizes: Sizes) -> Expr:
    value = text.value
    if value.type is None:
        raise Meaningless(f"{value.name} has no shape", value.name.line)
    return Expr(
        prim=str(text.prim),
        args=_all(text.args, exprs),
        shape=tuple(as_dim(dim, sizes) for dim in value.type.shape),
        kind=cast("ExprKind", value.role or "float"),
        attrs=tuple((key, cast("Attr", attribute(v, sizes))) for key, v in text.attrs.items()),
        name=bare(value.name),
    )


def _all(names: Names, exprs: dict[str, Expr]) -> tuple[Expr, ...]:
    return tuple(_known(name, exprs) for name in names)


def _known(name: Token, exprs: dict[str, Expr]) -> Expr:
    if str(name) not in exprs:
        raise Meaningless(f"no line before makes {name}", name.line)
    return exprs[str(name)]


@dataclass(slots=True)
class StepBuilder:
    """Builds the steps of a graph in their order; a backward pass needs its forward pass."""

    values: Values
    operators: Mapping[str, Op]
    forward: Graph | None = None

    def step(self, text: StepText) -> Step:
        """The next step."""
        try:
            step = self._step(text, text.use)
        except Meaningless as error:
            raise Meaningless(str(error), error.line or text.first.line) from None
        if text.again:
            return replace(step, again=True)
        if self.forward is None and text.outputs:
            self.values.scope.makers[str(text.outputs[0].name)] = step
        return step

    def _step(self, text: StepText, use: ApplyText | CallText) -> Step:
        return self._call(text, use) if isinstance(use, CallText) else self._apply(text, use)

    # ---- calls ----------------------------------------------------------------------------------

    def _call(self, text: StepText, use: CallText) -> Call:
        scope, span = self.values.scope, self.values.line(text.first)
        inputs = scope.find_values(use.inputs)
        sizes = {name: as_dim(dim) for name, dim in use.sizes.items()}
        count = None if use.count is None else as_dim(use.count)
        origin: Call | None = None
        if use.verb != "call":
            origin = self._forward_call(use.origin, use.verb)
            outputs, saved = self._make_values(text.outputs, "cotangent"), origin.saved
        elif text.again:
            saved = self._forward_call(text.first, use.verb).saved
            outputs = self._before(text.outputs)
        else:
            outputs, saved = self._make_values(text.outputs, "edge"), Value(None, "saved", span)
            if text.outputs:
                scope.values[f"{text.outputs[0].name}~saved"] = saved
        call = Call(use.callee, use.path, inputs, outputs, saved, span, count, sizes, origin)
        return replace(call, loop=_loop(use.loop), first=use.first, carried=use.carried)

    def _forward_call(self, name: Token | None, near: Token) -> Call:
        if name is None:
            raise Meaningless(
                "expected from and the name of what the forward step makes", near.line
            )
        call = self.values.scope.maker(name)
        if not isinstance(call, Call):
            raise Meaningless("expected the name of what a call makes", near.line)
        return call

    def _make_values(self, texts: tuple[ValueText, ...], role: Role) -> tuple[Value, ...]:
        return tuple(self.values.make(text, role) for text in texts)

    def _before(self, texts: tuple[ValueText, ...]) -> tuple[Value, ...]:
        """The values of the forward pass that a step makes again."""
        return tuple(self.values.again(text) for text in texts)

    # ---- operators ------------------------------------------------------------------------------

    def _apply(self, text: StepText, use: ApplyText) -> Apply:
        scope = self.values.scope
        inputs = scope.find_values(use.inputs)
        origin = None if use.origin is None else scope.maker(use.origin)
        if isinstance(origin, Call):
            raise Meaningless("expected the name of what an operator makes", use.glyph.line)
        attrs = self._attrs(use)
        types = [self.values.types[value] for value in inputs]
        op = self._operator(text, use, types, origin)
        body = _body(op, types, attrs, use)
        roles = self._roles(len(text.outputs), body)
        outputs = (
            self._before(text.outputs)
            if text.again
            else tuple(map(self.values.make, text.outputs, roles))
        )
        place = _place(use, outputs)
        span = self.values.line(text.first)
        parts = tuple(map(self._part, text.parts))
        return Apply(op, inputs, outputs, attrs, span, place, origin=origin, parts=parts)

    def _attrs(self, use: ApplyText) -> Attrs:
        sizes = self.values.sizes
        return {key: attribute(value, sizes) for key, value in use.attrs.items()}

    def _roles(self, count: int, body: Body) -> list[Role]:
        if count != len(body.outputs):
            return ["edge"] * count  # which a rule of the IR refuses
        visible = count - len(body.caches)
        usual: Role = "edge" if self.forward is None else "cotangent"
        return [usual if place < visible else "cache" for place in range(count)]

    def _operator(
        self, text: StepText, use: ApplyText, types: list[TensorType], origin: Apply | None
    ) -> Op:
        glyph = str(use.glyph)
        if text.definition is not None:
            return defined(text.definition, glyph, types, self.values.sizes)
        if op := self.operators.get(glyph):
            return op
        if origin is None or self.forward is None or glyph != f"d{origin.op.glyph}":
            raise Meaningless(
                f"{glyph} is no operator of the language: expected op and its body on the next"
                " line, or from and the name of what the step makes that it differentiates",
                use.glyph.line,
            )
        operands = [self.forward.types[value] for value in origin.inputs]
        chosen = gradients(origin, operands) if use.chosen is None else map(str, use.chosen)
        return origin.op.adjoint_op(operands, origin.attrs, tuple(chosen))

    def _part(self, text: StepText) -> Apply:
        """A step that a fused one replaces. Its values may be missing in the graph."""
        use = text.use
        assert isinstance(use, ApplyText)
        op = self.operators.get(str(use.glyph))
        if op is None:
            raise Meaningless(f"{use.glyph} is no operator of the language", use.glyph.line)
        inputs = tuple(self._inner(ValueText(name)) for name in use.inputs)
        outputs = tuple(self._inner(value) for value in text.outputs)
        span, place = self.values.line(text.first), _place(use, outputs)
        return Apply(op, inputs, outputs, self._attrs(use), span, place)

    def _inner(self, text: ValueText) -> Value:
        value = self.values.scope.values.get(str(text.name))
        return value or self.values.make(text, "edge")


def _body(op: Op, types: list[TensorType], attrs: Attrs, use: ApplyText) -> Body:
    """The body of an operator on operands of these types."""
    names = op.operand_names(attrs)
    if len(names) != len(types):
        message = f"expected {len(names)} operands of {use.glyph}, not {len(types)}"
        raise Meaningless(message, use.glyph.line)
    try:
        return op.body(types, attrs)
    except (ShapeError, Misuse, KeyError, TypeError) as error:
        raise Meaningless(f"{use.glyph} cannot be computed: {error}", use.glyph.line) from None


def _place(use: ApplyText, outputs: tuple[Value, ...]) -> str:
    if use.place is not None:
        return use.place
    return (outputs[0].name if outputs else None) or ""


def _loop(text: LoopText | None) -> Loop | None:
    if text is None:
        return None
    return Loop(as_dim(text.length), text.reverse, text.inputs, text.outputs, text.states)
