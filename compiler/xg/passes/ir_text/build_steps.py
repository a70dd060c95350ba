"""From the tree of a printed step to the step."""

from __future__ import annotations

from lark import Token

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.body import Body
from xg.ir.graph import Apply, Call, Graph, Loop, Role, Step, Value
from xg.ir.op import Op
from xg.ir.prim import ShapeError
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs, Misuse
from xg.passes.ir_text.attributes import attribute
from xg.passes.ir_text.build_operator import defined
from xg.passes.ir_text.build_values import Values
from xg.passes.ir_text.errors import Meaningless
from xg.passes.ir_text.expression import as_dim
from xg.passes.ir_text.operators import Vocabulary, gradients
from xg.passes.ir_text.records import ApplyText, CallText, LoopText, StepText, ValueText


@dataclass(slots=True)
class StepBuilder:
    """Makes the steps of a graph in their order; of a backward pass, behind its forward pass."""

    values: Values
    vocabulary: Vocabulary
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
        inputs = scope.all(use.inputs)
        sizes = {name: as_dim(dim) for name, dim in use.sizes.items()}
        count = None if use.count is None else as_dim(use.count)
        origin: Call | None = None
        if use.verb != "call":
            origin = self._forward_call(use.origin, use.verb)
            outputs, saved = self._made(text.outputs, "cotangent"), origin.saved
        elif text.again:
            saved = self._forward_call(text.first, use.verb).saved
            outputs = self._before(text.outputs)
        else:
            outputs, saved = self._made(text.outputs, "edge"), Value(None, "saved", span)
            if text.outputs:
                scope.values[f"{text.outputs[0].name}~saved"] = saved
        call = Call(use.callee, use.path, inputs, outputs, saved, span, count, sizes, origin)
        return replace(call, loop=_loop(use.loop), first=use.first)

    def _forward_call(self, name: Token | None, near: Token) -> Call:
        if name is None:
            raise Meaningless(
                "expected from and the name of what the forward step makes", near.line
            )
        call = self.values.scope.maker(name)
        if not isinstance(call, Call):
            raise Meaningless("expected the name of what a call makes", near.line)
        return call

    def _made(self, texts: tuple[ValueText, ...], role: Role) -> tuple[Value, ...]:
        return tuple(self.values.make(text, role) for text in texts)

    def _before(self, texts: tuple[ValueText, ...]) -> tuple[Value, ...]:
        """The values of the forward pass that a step makes again."""
        return tuple(self.values.again(text) for text in texts)

    # ---- operators ------------------------------------------------------------------------------

    def _apply(self, text: StepText, use: ApplyText) -> Apply:
        scope = self.values.scope
        inputs = scope.all(use.inputs)
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
        if op := self.vocabulary.operators.get(glyph):
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
        op = self.vocabulary.operators.get(str(use.glyph))
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
