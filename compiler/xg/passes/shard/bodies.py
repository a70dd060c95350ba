"""The typing of operators' bodies, each question answered once.

The same steps occur under many plans, in many choices of options and on several mesh axes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body
from xg.ir.content import Recent, frozen
from xg.ir.graph import Apply
from xg.ir.op import Op
from xg.ir.placement import AxisState
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs
from xg.sharding.primitive_rules import IllTyped
from xg.sharding.type_body import type_step


@dataclass(slots=True)
class Asked:
    """A body on operands of given types, with all that was found of it.

    `op` and `attrs` are kept alive: they are known by identity.
    """

    op: Op
    attrs: Attrs
    body: Body
    answers: dict[tuple[str, tuple[AxisState, ...]], list[AxisState] | IllTyped]


@dataclass(slots=True)
class Bodies:
    """Every body that was asked for: by the step's attributes themselves, and by what they say."""

    asked: Recent[tuple[int, int, tuple[TensorType, ...]], Asked] = field(
        default_factory=Recent[tuple[int, int, tuple[TensorType, ...]], Asked]
    )
    alike: Recent[Hashable, Asked] = field(default_factory=Recent[Hashable, Asked])

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.asked.next_round()
        self.alike.next_round()

    def typed(
        self, step: Apply, types: Sequence[TensorType], states: Sequence[AxisState], axis: str = ""
    ) -> list[AxisState]:
        """The states of the outputs of an operator over a mesh axis, or IllTyped.

        All axes are one to an operator that names none.
        """
        axis = axis if "around" in step.attrs else ""
        key = id(step.op), id(step.attrs), tuple(types)
        asked = self.asked.get(key)
        if asked is None:
            asked = self.asked.put(key, self._asked(step, key[2]))
        arguments = axis, tuple(states)
        answer = asked.answers.get(arguments)
        if answer is None:
            answer = asked.answers[arguments] = self._answer(asked, axis, arguments[1])
        if isinstance(answer, IllTyped):  # a new one, for what is kept is to keep no frames
            raise IllTyped(answer.reason, answer.expr, answer.places)
        return answer

    def _asked(self, step: Apply, types: tuple[TensorType, ...]) -> Asked:
        """The body of a step; other steps that say the same have the same."""
        key = id(step.op), frozen(step.attrs), types
        asked = self.alike.get(key)
        if asked is None:
            body = step.body(dict(zip(step.inputs, types, strict=True)))
            asked = self.alike.put(key, Asked(step.op, step.attrs, body, {}))
        return Asked(step.op, step.attrs, asked.body, asked.answers)

    @staticmethod
    def _answer(
        asked: Asked, axis: str, states: tuple[AxisState, ...]
    ) -> list[AxisState] | IllTyped:
        try:
            typing = type_step(asked.op, asked.body, states, axis)
        except IllTyped as refused:
            return refused.with_traceback(None)
        return [typing.of(out) for out in asked.body.outputs]
