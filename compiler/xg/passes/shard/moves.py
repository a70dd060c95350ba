"""Values with their states on one mesh axis, and the moves that bring one into another state.

A value that was moved once is moved for all later uses. A move goes in front of a step that only
lays out its operand (a bias is cast before it is repeated, a table before it is transposed): the
backward pass then sends the smaller of the two, and one cast serves all uses.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from xg import ops
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.diagnostics.source import Span
from xg.ir.collective import FAMILY, move
from xg.ir.graph import Apply, Call, Value
from xg.ir.placement import CONSTANT, INVARIANT, PARTIAL, REPLICATED, AxisState, serves, shard
from xg.ir.tensor import TensorType
from xg.passes.shard.bodies import Bodies
from xg.passes.shard.divisions import Divisions, Question
from xg.sharding.primitive_rules import IllTyped


@dataclass(slots=True)
class Moves:
    """The steps of a graph as they are placed.

    `elsewhere` are the states on other mesh axes; `divisions` say what this one can cut, and
    `divided` is all that they said.
    """

    axis: str
    divisions: Divisions
    types: dict[Value, TensorType]
    elsewhere: dict[Value, Mapping[str, AxisState]]
    states: dict[Value, AxisState] = field(default_factory=dict[Value, AxisState])
    steps: list[Apply | Call] = field(default_factory=list[Apply | Call])
    made: dict[Value, Apply] = field(default_factory=dict[Value, Apply])
    aliases: dict[Value, Value] = field(default_factory=dict[Value, Value])
    resharded: dict[Value, dict[AxisState, Value]] = field(
        default_factory=dict[Value, dict[AxisState, Value]]
    )
    bodies: Bodies = field(default_factory=Bodies)
    divided: dict[Question, tuple[int, ...]] = field(
        default_factory=dict["Question", "tuple[int, ...]"]
    )

    def at_hand(self, value: Value) -> AxisState:
        """The state of a value that is the same on all ranks."""
        return INVARIANT if self.types[value].is_float else CONSTANT

    def cuts(self, value: Value) -> tuple[int, ...]:
        """The axes that can be cut, counted from the end, behind the cuts of other mesh axes."""
        elsewhere = self.elsewhere.get(value, {})
        others = tuple((a, state.axis) for a, state in elsewhere.items() if state.kind == "S")
        question = self.types[value].shape, others
        answer = self.divided[question] = self.divisions.cuts(question)
        return answer

    def typed(
        self, step: Apply, inputs: Sequence[Value], states: Sequence[AxisState]
    ) -> list[AxisState]:
        """The states of an operator's outputs, or IllTyped."""
        if step.op.family == FAMILY:  # a move on another mesh axis
            return list(states)
        types = [self.types[value] for value in inputs]
        return self.bodies.typed(step, types, states, self.axis)

    def add(self, step: Apply, outputs: Sequence[AxisState]) -> None:
        """Add a step with the states of its outputs."""
        self.steps.append(step)
        for value, state in zip(step.outputs, outputs, strict=True):
            self.states[value] = state
            self.made[value] = step

    def reshard(
        self, value: Value, target: AxisState, span: Span, into: Value | None = None
    ) -> Value:
        """Bring a value into a state, once for each pair; `into` is the value that results."""
        if serves(self.states[value], target):
            return value
        values = self.resharded.setdefault(value, {})
        if target not in values:
            values[target] = (
                self._on_the_way(value, target, span)
                or self._inside_gather(value, target, span)
                or self._before(value, target, span)
                or self._moved(value, target, span, into)
            )
        return values[target]

    def made_again(self, value: Value, live: Container[Value]) -> tuple[Value, ...]:
        """The values in the place of one that nothing reads any more, of those that are live."""
        found: dict[Value, None] = {}
        for each in self.resharded.get(value, {}).values():
            found |= dict.fromkeys((each,) if each in live else self.made_again(each, live))
        return tuple(found)

    def _on_the_way(self, value: Value, target: AxisState, span: Span) -> Value | None:
        """The move from a state that it has already, or that costs less to send."""
        values = self.resharded[value]
        if target == REPLICATED and INVARIANT in values:
            return self.reshard(values[INVARIANT], target, span)
        step = self.made.get(value)
        if step is None or step.op.glyph != "BC" or self.states[value] != INVARIANT:
            return None
        if target.kind != "S" or self._needed(step, step.inputs[0], target):
            return None
        # Cast before it is repeated, it sends the sum of the small one, not parts of the large.
        return self.reshard(self.reshard(value, REPLICATED, span), target, span)

    def alias(self, value: Value) -> Value:
        """Another name for a value, to be moved apart from it."""
        alias = Value(value.name, "edge", value.span)
        self.aliases[alias] = value
        self.types[alias], self.states[alias] = self.types[value], self.states[value]
        self.elsewhere[alias] = self.elsewhere.get(value, {})
        return alias

    def _inside_gather(self, value: Value, target: AxisState, span: Span) -> Value | None:
        """Gather a value that two mesh axes cut from the inside: first over this axis."""
        step = self.made.get(value)
        if step is None or step.op.glyph != "AG" or self.states[value] != step.attrs["source"]:
            return None
        if target.kind == "S":
            return None
        operand = self.reshard(step.inputs[0], target, span)
        return self._again(step, value, (operand,), target, span)

    def _again(
        self, step: Apply, value: Value, operands: tuple[Value, ...], state: AxisState, span: Span
    ) -> Value:
        """The value of a step made once more, of operands of which one was moved."""
        result = Value(value.name, "edge", span)
        self.types[result] = self.types[value]
        self.elsewhere[result] = self.elsewhere.get(value, {})
        self.add(replace(step, inputs=operands, outputs=(result,)), [state])
        return result

    def _moved(self, value: Value, target: AxisState, span: Span, into: Value | None) -> Value:
        """The value behind a move of its own."""
        glyph, attrs = move(self.axis, self.states[value], target)
        if into is None or into in self.states:
            keeps = glyph == "cast" or self.states[value] == PARTIAL
            into = Value(value.name if keeps else None, "edge", span)
        result, value = into, self.aliases.get(value, value)
        self.types[result] = self.types[value]
        self.elsewhere.setdefault(result, self.elsewhere.get(value, {}))
        self.add(Apply(ops.table()[glyph], (value,), (result,), attrs, span), [target])
        return result

    # ---- moves in front of layout ---------------------------------------------------------------

    def _before(self, value: Value, target: AxisState, span: Span) -> Value | None:
        """The same made of an operand that was moved, where a layout has just one."""
        step = self.made.get(value)
        if step is None:
            return None
        if target == REPLICATED and self._is_lookup(step):
            return self._looked_up(step, value, span)
        if len(step.inputs) != 1 or len(step.outputs) != 1 or not self._is_layout(step):
            return None
        (operand,) = step.inputs
        state = self._needed(step, operand, target)
        if state is None:
            return None
        return self._again(step, value, (self.reshard(operand, state, span),), target, span)

    def _is_lookup(self, step: Apply) -> bool:
        """Whether a step reads a table of parameters at places that are no input's."""
        states = [self.states[value] for value in step.inputs]
        return step.op.glyph == "Emb" and states == [CONSTANT, INVARIANT]

    def _looked_up(self, step: Apply, value: Value, span: Span) -> Value:
        """The rows of a table that was cast: every parameter's gradient is summed once."""
        table = self.reshard(step.inputs[1], REPLICATED, span)
        return self._again(step, value, (step.inputs[0], table), REPLICATED, span)

    def _is_layout(self, step: Apply) -> bool:
        return step.op.family == "layout" or (
            step.op.glyph == "cast" and step.attrs["over"] != self.axis
        )

    def _needed(self, step: Apply, operand: Value, target: AxisState) -> AxisState | None:
        """Which state of the operand gives the target, if one does for nothing more."""
        if not self.states[operand].is_same:
            return None
        if target == REPLICATED:
            return target
        if target.kind != "S":
            return None
        for axis in self.cuts(operand):
            if self._gives(step, operand, shard(axis), target):
                return shard(axis)
        constant = self.states[operand] == CONSTANT
        whole = CONSTANT if constant else REPLICATED
        return whole if self._repeats(step, target.axis) else None

    def _gives(self, step: Apply, operand: Value, state: AxisState, target: AxisState) -> bool:
        try:
            return self.typed(step, [operand], [state]) == [target]
        except IllTyped:
            return False

    def _repeats(self, step: Apply, axis: int) -> bool:
        """Whether an axis is one along which BC repeats, so that any part of it can be made."""
        if step.op.glyph != "BC" or step.attrs["shape"] != step.attrs["atoms"]:
            return False
        return axis + len(step.attrs["shape"]) in step.attrs["new"]
