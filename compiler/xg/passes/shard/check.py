"""Every step of a placed program typed once more, forward and backward; nothing is inserted.

The backward pass was derived without a thought of ranks. That its states come out dual to those of
the forward pass proves that every sum which the gradients need is there, and no sum is twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Value, gradient_ports
from xg.ir.placement import CONSTANT, PARTIAL, AxisState, axes_over, dual, same, serves
from xg.ir.tensor import TensorType
from xg.passes.shard.calls import in_all_rounds, stacked_along, taken_along
from xg.sharding.primitive_rules import IllTyped
from xg.sharding.type_body import type_step


class Unsound(Exception):
    """A placed program that differs from the single-device one: an error of the compiler."""


def check(program: IRProgram, axis: str) -> IRProgram:
    """The program with the states of its backward passes; raises Unsound."""
    for key in program.entries:
        _check_ports(program.graphs[key], axis)
    backwards: dict[str, Backward] = {}
    for key, graph in program.graphs.items():
        _PlacementChecker(axis, graph, program.graphs).forward()
        if key in program.backwards:
            checker = _PlacementChecker(axis, graph, program.graphs)
            backwards[key] = checker.backward(program.backwards)
    return replace(program, backwards=backwards)


def _check_ports(main: Graph, axis: str) -> None:
    """Inputs and outputs of a program must be replicated or sharded."""
    for value in (*main.inputs, *main.param_values(), *main.outputs):
        state = _state(main, value, axis)
        if state.kind not in "SIC":
            raise Unsound(f"{value.name} is {state} over {axis} at the edge of the program")


@dataclass(slots=True)
class _PlacementChecker:
    axis: str
    graph: Graph
    graphs: Mapping[str, Graph]
    states: dict[Value, AxisState] = field(default_factory=dict[Value, AxisState])
    types: Mapping[Value, TensorType] = field(default_factory=dict[Value, TensorType])
    reverse: bool = False

    def forward(self) -> None:
        """Hold every step of the forward pass against the states that it was given."""
        self.states = {value: self._placed_state(value) for value in self.graph.types}
        self.types = dict(self.graph.types)
        for step in self.graph.steps:
            if isinstance(step, Call):
                callee = self.graphs[step.callee]
                operands = zip(callee.inputs, taken_along(step, callee), strict=True)
                results = zip(callee.outputs, stacked_along(step, callee), strict=True)
                self._meet(step.inputs, [self._around(v, axis, callee) for v, axis in operands])
                self._meet(step.outputs, [self._around(v, axis, callee) for v, axis in results])
                continue
            for value, state in zip(step.outputs, self._output_states(step), strict=True):
                expected = self.states[value]
                if state != expected and not (state.is_uniform and expected.kind == "S"):
                    raise Unsound(
                        f"{step.op.glyph} makes {state}, not {expected}, over {self.axis}"
                    )

    def backward(self, backwards: Mapping[str, Backward]) -> Backward:
        """The backward pass with its states."""
        backward = backwards[self.graph.key]
        self.reverse = True
        self.types = backward.types
        self.states = {value: same(self._placed_state(value)) for value in self.graph.types}
        for value, seed in backward.cotangents.items():
            self.states[seed] = self._expected_state(value)
        for step in backward.steps:
            if isinstance(step, Apply):
                self._step(step, backward)
            else:
                self._call(step, backwards[step.callee])
        for value, gradient in backward.gradients.items():
            if self.states[gradient] != self._expected_state(value):
                self._refuse(value, self.states[gradient])
        placements = {
            value: {**backward.placements.get(value, {}), self.axis: self.states[value]}
            for value in backward.types
        }
        return replace(backward, placements=placements)

    def _step(self, step: Apply, backward: Backward) -> None:
        typed_states = self._output_states(step)
        if step.again:
            self._meet_again(step, typed_states)
            return
        for value, state in zip(step.outputs, typed_states, strict=True):
            of = backward.of.get(value)
            self.states[value] = state
            if of is None:
                continue
            expected = self._expected_state(of)
            if not step.inputs or (state == CONSTANT and expected.kind == "S"):
                self.states[value] = expected  # zeros are anything; of the same each takes its part
            elif state != expected:
                self._refuse(of, state)

    def _meet_again(self, step: Apply, found: Sequence[AxisState]) -> None:
        """A forward step that is run again must make its values where they were."""
        for value, state in zip(step.outputs, found, strict=True):
            before = self.states[value]
            if state != before and not (state.is_uniform and before.kind == "S"):
                raise Unsound(f"{step.op.glyph} makes {state}, not {before}, again")

    def _call(self, step: Call, backward: Backward) -> None:
        callee = self.graphs[step.callee]
        operands = [*zip(callee.inputs, taken_along(step, callee), strict=True)]
        if step.again:
            self._meet(step.inputs, [same(self._around(v, axis, callee)) for v, axis in operands])
            return
        results = [*zip(callee.outputs, stacked_along(step, callee), strict=True)]
        taken, given = gradient_ports(step, backward)
        seeded = [results[number] for number in taken]
        self._meet(
            step.inputs[len(seeded) :],
            [same(_state(callee, value, self.axis)) for value in backward.operands],
        )
        for (value, axis), cotangent in zip(seeded, step.inputs, strict=False):
            if self.states[cotangent] != _dual(self._around(value, axis, callee)):
                self._refuse(value, self.states[cotangent])
        learned = (operands[number] for number in given)
        for (value, axis), gradient in zip(learned, step.outputs, strict=True):
            self.states[gradient] = _dual(self._around(value, axis, callee))

    def _around(self, value: Value, axis: int | None, callee: Graph) -> AxisState:
        """The state of a callee's value where it is called, be it over an axis."""
        return in_all_rounds(_state(callee, value, self.axis), axis)

    # ---- states ---------------------------------------------------------------------------------

    def _placed_state(self, value: Value) -> AxisState:
        return _state(self.graph, value, self.axis)

    def _expected_state(self, value: Value) -> AxisState:
        return _dual(self._placed_state(value))

    def _output_states(self, step: Apply) -> list[AxisState]:
        states = [self.states[value] for value in step.inputs]
        if step.op.family == FAMILY:
            return [self._state_after_move(step, states[0])]
        body = step.body(self.types)
        try:
            typing = type_step(step.op, body, states, self.axis)
        except IllTyped as error:
            listing = ", ".join(map(str, states))
            raise Unsound(f"{step.op.glyph} cannot take {listing} over {self.axis}") from error
        return [typing.of(out) for out in body.outputs]

    def _state_after_move(self, step: Apply, state: AxisState) -> AxisState:
        if self.axis not in axes_over(step.attrs["over"]):
            return state
        source, target = step.attrs["source"], step.attrs["target"]
        if self.reverse:
            source, target = same(source), same(target)
        if state != source:
            raise Unsound(f"{step.op.glyph}({self.axis}) takes {source}, not {state}")
        return target

    def _meet(self, values: Sequence[Value], wanted: Sequence[AxisState]) -> None:
        for value, state in zip(values, wanted, strict=True):
            if not serves(self.states[value], state):
                raise Unsound(f"{value.name} is {self.states[value]}, not {state}")

    def _refuse(self, value: Value, found: AxisState) -> None:
        expected = self._expected_state(value) if value in self.graph.types else "its dual"
        name = value.name or "a value"
        raise Unsound(f"the gradient of {name} is {found} over {self.axis}, not {expected}")


def _state(graph: Graph, value: Value, axis: str) -> AxisState:
    return graph.placements[value][axis]


def _dual(state: AxisState) -> AxisState:
    dual_state = dual(state)
    return PARTIAL if dual_state == PARTIAL else same(dual_state or CONSTANT)
