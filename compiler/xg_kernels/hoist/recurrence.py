"""Linear recurrences: loops whose states are multiplied and added to by what needs no state.

Where ``h_t = a_t ⊙ h_{t-1} + b_t``, all a and b are made for all rounds before the loop, which
keeps this one step, and what reads the states is made for all of them behind it. Backends have a
kernel for a loop of this one step.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body, topological
from xg.ir.content import prune
from xg.ir.dim import ONE
from xg.ir.graph import Apply, Carry, Graph, Step, Value
from xg.ir.op import Op
from xg.ir.prim import Expr, broadcast, concat, const, cut, operand, reshape
from xg.ir.tensor import TensorType
from xg.ir.use import Data
from xg_kernels.hoist.all_rounds import NotForAllRounds, for_all_rounds
from xg_kernels.hoist.lifting import Lifting
from xg_kernels.hoist.linear import linear, narrow, of_rank

MOVES: Final = frozenset({"BC", "⊙", "scale"})  # what is written into a and b, if read once


def _round(a: Expr, b: Expr, h: Expr) -> Expr:
    return a * h + b


RECURRENCE: Final = Op(
    glyph="Recurrence",
    name="recurrence",
    family="multiply",
    data=(Data("a"), Data("b"), Data("h")),
    forward=_round,
    derived=True,
    meaning="a state times a factor, and a summand",
    formula="h_t = a_t ⊙ h_{t-1} + b_t",
    gradient="da_t = dh_t ⊙ h_{t-1}, db_t = dh_t, dh_{t-1} = a_t ⊙ dh_t",
)


@dataclass(slots=True)
class Unrolled(Lifting):
    """A loop over linear recurrences, while it is taken apart; `callees` grow."""

    callees: dict[str, Graph] = field(default_factory=dict[str, Graph])
    reads: Counter[Value] = field(default_factory=Counter[Value])

    def steps(self) -> list[Step] | None:
        """The steps in the place of the loop; None where it is no linear recurrence."""
        callee = self.callee
        self.makers = {value: step for step in callee.steps for value in step.outputs}
        self.reads = Counter(value for step in callee.steps for value in step.inputs)
        self.reads.update([*callee.outputs, *(carry.next for carry in callee.carries)])
        self.states = {v for carry in callee.carries for v in (carry.past, carry.next)}
        if not callee.carries or len(callee.steps) > 200:
            return None
        try:
            self._given()
            for carry in callee.carries:
                self._above(carry.next)
            visible = len(callee.outputs) - self.loop.states
            for number, value in enumerate(callee.outputs[:visible]):
                self._give(value, self.call.outputs[number], self.loop.outputs[number])
            if not {v for step in self.made for v in step.outputs}.issuperset(self.call.outputs):
                raise NotForAllRounds  # a state that rounds only fill has a last value, too
        except NotForAllRounds:
            return None
        return self.made

    def _give(self, value: Value, out: Value, axis: int | None) -> None:
        """A result, with the axis where the loop puts it."""
        found = self._above(value)
        if axis is None or value not in self.apart:
            raise NotForAllRounds
        rank = len(self.types[found].shape)
        rest = [*range(1, rank)]
        rest.insert(rank + axis, 0)
        self._moved(found, tuple(rest), out)

    def _state(self, value: Value) -> Value:
        """A state of all rounds, before them or behind them."""
        for carry in self.callee.carries:
            if value is carry.next:
                self._recur(carry)
                return self.above[value]
            if value is carry.past:
                return self._before(carry)
        raise NotForAllRounds

    def _recur(self, carry: Carry) -> None:
        """The loop of one state: factors and summands before it, all its states behind."""
        leaves: dict[Value, Expr] = {}
        state = operand("h", self.callee.types[carry.past].shape)
        composed = {carry.past: state}
        factor, summand = linear(self._composed(carry.next, carry.past, composed, leaves), state)
        if factor is None:
            raise NotForAllRounds
        a = self._part("factor", narrow(factor, state.rank), leaves)
        summand = summand or const(0.0)
        b = self._part("summand", broadcast(of_rank(summand, state.rank), state.shape), leaves)
        after = carry.next
        number = self.callee.carries.index(carry)
        start = self.call.inputs[len(self.call.inputs) - self.loop.states + number]
        last = self.call.outputs[len(self.call.outputs) - self.loop.states + number]
        every = Value(after.name, "edge", after.span)
        self.types[every] = TensorType((self.loop.length, *state.shape))
        callee = self._callee(carry, a, b)
        rank = len(state.shape) + 1
        self.callees[callee.key] = callee
        self.made.append(
            replace(
                self.call,
                callee=callee.key,
                inputs=(a, b, start),
                outputs=(every, last),
                saved=Value(None, "saved", self.call.span),
                loop=replace(
                    self.loop, inputs=(-rank, -rank, None), outputs=(-rank, None), states=1
                ),
            )
        )
        self.above[after] = every
        self.apart.add(after)

    def _callee(self, carry: Carry, a: Value, b: Value) -> Graph:
        """The round that is left: one step."""
        span = carry.next.span
        inputs = (Value("a", "input", span), Value("b", "input", span), carry.past)
        after = Value(carry.next.name or "y", "edge", span)
        shapes = [self.types[a].shape[1:], self.types[b].shape[1:], self.types[b].shape[1:]]
        types = {v: TensorType(shape) for v, shape in zip(inputs, shapes, strict=True)}
        params = {p.value: p.type for p in self.callee.params}
        types |= {**params, after: TensorType(shapes[2])}
        return prune(
            replace(
                self.callee,
                key=f"{self.callee.key}, recurrence {len(self.callees)}",
                inputs=inputs,
                outputs=(after, after),
                output_names=("y", carry.name),
                output_types=(types[after],) * 2,
                steps=(Apply(RECURRENCE, inputs, (after,), {}, span),),
                carries=(replace(carry, next=after),),
                types=types,
                foreign=(),
                claims=(),
                aliases=(),
            )
        )

    def _before(self, carry: Carry) -> Value:
        """The states that the rounds find: the first one, and of the others all but the last."""
        every = self._above(carry.next)
        number = self.callee.carries.index(carry)
        start = self.call.inputs[len(self.call.inputs) - self.loop.states + number]
        length, rank = self.loop.length, len(self.types[every].shape)
        turned = self.loop.reverse

        def forward(states: Expr, start: Expr) -> Expr:
            first = reshape(start, (ONE, *start.shape))
            one, all_ = ONE, length
            if turned:
                return concat([cut(states, -rank, one, all_), first], -rank)
            return concat([first, cut(states, -rank, one - one, all_ - one)], -rank)

        op = Op(
            glyph="past",
            name="past_states",
            family="layout",
            forward=forward,
            data=(Data("states"), Data("start")),
            derived=True,
            meaning="the state that each round finds",
            gradient="the part of each state",
        )
        self.apart.add(carry.past)
        return self._emit(op, [every, start], {}, carry.past)

    def _composed(
        self, value: Value, past: Value, known: dict[Value, Expr], leaves: dict[Value, Expr]
    ) -> Expr:
        """A value as an expression of the state before it, and of values that need no state."""
        if value in known:
            return known[value]
        step = self.makers.get(value)
        if not isinstance(step, Apply) or not (
            step.op.glyph == "BC"
            or (step.op.glyph in MOVES and self.reads[value] == 1)
            or self._needs(value, past)
        ):
            known[value] = operand(f"x_{len(leaves) + 1}", self.callee.types[value].shape)
            leaves[value] = known[value]
            return known[value]
        body = step.body(self.callee.types)
        inputs = [self._composed(v, past, known, leaves) for v in step.inputs]
        found = Body(body.operands, body.outputs[:1]).on(inputs)
        assert isinstance(found, list)
        known[value] = found[0]
        return found[0]

    def _needs(self, value: Value, past: Value) -> bool:
        """Whether a value needs the state of the round before."""
        pending, seen = [value], set[Value]()
        while pending:
            each = pending.pop()
            if each is past:
                return True
            if each not in seen and each in self.makers:
                seen.add(each)
                pending += self.makers[each].inputs
        return False

    def _part(self, name: str, part: Expr, leaves: dict[Value, Expr]) -> Value:
        """The factors or the summands of all rounds."""
        mentioned = {id(expr) for expr in topological([part])}
        used = {value: leaf for value, leaf in leaves.items() if id(leaf) in mentioned}
        inputs = [self._above(value) for value in used]
        apart = [number for number, value in enumerate(used) if value in self.apart]
        if part.prim == "operand" and apart:
            return inputs[0]
        op = Op(
            glyph=name,
            name=f"recurrence {name}",
            family="multiply",
            forward=lambda: None,
            meaning=f"the {name} of a recurrence",
            gradient="the product rule",
        )
        op = for_all_rounds(op, Body(tuple(used.values()), (part,)), apart, self.loop.length)
        made = Value(None, "edge", self.call.span)
        self._step(op, inputs, {}, made)
        return made
