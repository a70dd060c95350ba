"""Values and steps of a round of a loop, and those of the caller that stand for all rounds."""

from __future__ import annotations

from collections.abc import Sequence

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Step, Value
from xg.ir.op import Op
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs
from xg_kernels.hoist.all_rounds import NotForAllRounds, for_all_rounds
from xg_kernels.hoist.loop_in_caller import ELEMENTWISE, LoopInCaller


@dataclass(slots=True)
class Lifting(LoopInCaller):
    """The values of a round, while those of all rounds are made.

    `above` has for values of a round those of the caller; those in `apart` have the axis of rounds
    in front. `made` are the steps of the caller; `states` are the values that rounds hand on.
    """

    above: dict[Value, Value] = field(default_factory=dict[Value, Value])
    apart: set[Value] = field(default_factory=set[Value])
    made: list[Step] = field(default_factory=list[Step])
    makers: dict[Value, Step] = field(default_factory=dict[Value, Step])
    waiting: set[Value] = field(default_factory=set[Value])
    states: set[Value] = field(default_factory=set[Value])

    def _given(self) -> None:
        """Operands that the loop takes apart, with the axis in front; shared ones as they are."""
        loop = self.loop
        ports = zip(self.callee.inputs, self.call.inputs, loop.inputs, strict=True)
        for port, value, axis in [*ports][: len(loop.inputs) - loop.states]:
            self.above[port] = value
            if axis is not None:
                place = len(self.types[value].shape) + axis
                rest = [n for n in range(len(self.types[value].shape)) if n != place]
                self.above[port] = self._moved(value, (place, *rest))
                self.apart.add(port)

    def _above(self, value: Value) -> Value:
        """The value of all rounds for one of a round; made, if it is not there."""
        if value in self.above:
            return self.above[value]
        if value in self.waiting:  # states that need one another
            raise NotForAllRounds
        self.waiting.add(value)
        if value in self.states:
            return self._state(value)
        if value in self.params():
            self.above[value] = self.param(value)
            return self.above[value]
        step = self.makers.get(value)
        if not isinstance(step, Apply) or len([v for v in step.outputs if v.role != "cache"]) > 1:
            raise NotForAllRounds
        return self._lifted(step, value)

    def _state(self, value: Value) -> Value:
        """A state of all rounds, before them or behind them."""
        raise NotForAllRounds

    def _lifted(self, step: Apply, value: Value) -> Value:
        """A step for all rounds; for those that share all its operands once."""
        inputs = [self._above(operand) for operand in step.inputs]
        places = [n for n, operand in enumerate(step.inputs) if operand in self.apart]
        body = step.body(self.callee.types)
        if not places:
            for_all_rounds(step.op, body, (), self.loop.length)  # it must not draw
            return self._emit(step.op, inputs, step.attrs, value)
        self.apart.add(value)
        if step.op.glyph in ELEMENTWISE and not {"axis", "axes"} & set(step.attrs):
            whole = [
                above if own in self.apart else self._repeated(above)
                for own, above in zip(step.inputs, inputs, strict=True)
            ]
            return self._emit(step.op, whole, step.attrs, value)
        if step.op.glyph == "•":
            sides, out = str(step.attrs["spec"]).split("->")
            new = next(letter for letter in "zyxwv" if letter not in sides)
            each = [new * (n in places) + side for n, side in enumerate(sides.split(","))]
            return self._emit(step.op, inputs, {"spec": f"{','.join(each)}->{new}{out}"}, value)
        first = Body(body.operands, body.outputs[:1])
        op = for_all_rounds(step.op, first, places, self.loop.length)
        return self._emit(op, inputs, {}, value)

    def _emit(self, op: Op, inputs: Sequence[Value], attrs: Attrs, value: Value) -> Value:
        """A step of the caller in the place of what makes a value in each round."""
        made = Value(value.name, "edge", value.span)
        self.above[value] = made
        self._step(op, inputs, attrs, made, self.callee.types[value].range)
        return made

    def _step(
        self,
        op: Op,
        inputs: Sequence[Value],
        attrs: Attrs,
        made: Value,
        below: Dim | None = None,
    ) -> None:
        types = [self.types[value] for value in inputs]
        body = op.body(types, attrs)
        self.types[made] = TensorType(body.outputs[0].shape, below)
        caches = tuple(Value(name, "cache", made.span) for name in body.caches)
        for cache, out in zip(caches, body.outputs[1:], strict=True):
            self.types[cache] = TensorType(out.shape)
        place = f"{self.call.path}.{made.name or len(self.made)}"
        outputs = (made, *caches)
        self.made.append(Apply(op, tuple(inputs), outputs, attrs, made.span, place))

    def _repeated(self, value: Value) -> Value:
        """A value that all rounds share, once for each."""
        shape = self.types[value].shape
        atoms = (self.loop.length, *shape)
        attrs = {"operand": shape, "atoms": atoms, "new": (0,), "shape": atoms}
        made = Value(value.name, "edge", value.span)
        self._step(ops.table()["BC"], [value], attrs, made)
        return made

    def _moved(self, value: Value, order: tuple[int, ...], out: Value | None = None) -> Value:
        """A value with its axes in another order."""
        if out is None and order == tuple(range(len(order))):
            return value
        made = out or Value(value.name, "edge", value.span)
        self._step(ops.table()["T"], [value], {"order": order}, made, self.types[value].range)
        return made
