"""Infer the states of a whole body: of every expression in it, from its operands' states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body
from xg.ir.collectives import AROUND, PRIMITIVES
from xg.ir.functions import STEPS, UNARY
from xg.ir.op import Op
from xg.ir.placement import (
    CONSTANT,
    GATE,
    INVARIANT,
    LARGEST,
    PARTIAL,
    REPLICATED,
    AxisState,
    axes_over,
)
from xg.ir.prim import ARITHMETIC, COMPARE, RANDOM, Expr
from xg.sharding.primitive_rules import (
    RULES,
    IllTyped,
    PlacedArgument,
    Rule,
    is_zero,
    moved_elsewhere,
)

# Typing of gates: of a sum, what each rank adds is 0 where none of its own parts counts.
#
# A derived gradient keeps a condition beside a sum (`xg.ir.cotangent`): it counts where any of its
# terms was chosen, and is 0 elsewhere, whatever the slope may be there. Of terms that are cut each
# rank has its own condition. Where that is false its term of the sum is 0, so each rank shuts its
# own term, and no rank asks the others.
#
# The condition comes from a maximum that only a derivation makes (`any_open`). A program that asks
# for the largest of its own values gets the maximum over all ranks.


# The largest of these is made of the largest of the parts.
_MAXIMA = frozenset({"reshape", "transpose", "broadcast", "max", "maximum"})


def gate_rule(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Return the state of what is made with a gate: a gate, or a term that it shuts."""
    gates = [arg.state == GATE for arg in args]
    others = [arg.state for arg, one in zip(args, gates, strict=True) if not one]
    is_monotone = expr.prim in _MAXIMA or (expr.prim == "gt" and gates == [True, False])
    if is_monotone and all(state == CONSTANT for state in others):
        return GATE
    if expr.prim == "where" and gates == [True, False, False] and is_zero(args[2].expr):
        if args[1].state == PARTIAL:
            return PARTIAL
        if args[1].expr.prim == "const":
            return GATE
    raise IllTyped("a condition of one part", expr, [n for n, one in enumerate(gates) if one])


@dataclass(frozen=True, slots=True)
class Typing:
    """The states of a body on one mesh axis.

    `states` has every expression by `id`. `collected` are expressions whose parts are reduced
    inside the body, with the state they have before: a sum or a maximum over ranks. `local` are the
    bodies of one rank, by the states of their outputs and the order of the ranks.
    """

    states: Mapping[int, AxisState]
    collected: Mapping[int, AxisState] = field(default_factory=dict[int, AxisState])
    local: dict[tuple[tuple[AxisState, ...], str], Body] = field(
        default_factory=dict[tuple[tuple[AxisState, ...], str], Body], compare=False
    )

    def of(self, expr: Expr) -> AxisState:
        """The state of an expression."""
        return self.states[id(expr)]

    def before(self, expr: Expr) -> AxisState:
        """Its state before parts are brought together."""
        return self.collected.get(id(expr), self.states[id(expr)])


def type_step(op: Op, body: Body, operands: Sequence[AxisState], axis: str) -> Typing:
    """Type the body of one use of an operator, or raise IllTyped."""
    collects, adjoint = op.sums_over_ranks, op.is_adjoint
    return type_body(body, operands, axis, collects=collects, adjoint=adjoint)


def type_body(
    body: Body,
    operands: Sequence[AxisState],
    axis: str,
    *,
    collects: bool = False,
    adjoint: bool = False,
) -> Typing:
    """Type a body's expressions over a mesh axis, or raise IllTyped.

    `collects` lets the body sum over ranks where a nonlinear primitive needs the global value. The
    sum is computed once in meaning, if its result is, as a loss; else each rank uses it. In an
    `adjoint` nothing is differentiated again, so both mean the same. Operands are not summed here,
    nor expressions linear in them: both passes read them, so that is done once, before the step.

    A body is typed once: plans share it, and passes ask one after the other.
    """
    question = "typing", tuple(operands), axis, collects, adjoint
    known = body.found.get(question)
    if isinstance(known, Typing):
        return known
    typing = _type_body(body, operands, axis, collects=collects, adjoint=adjoint)
    body.found[question] = typing
    return typing


def _type_body(
    body: Body, operands: Sequence[AxisState], axis: str, *, collects: bool, adjoint: bool
) -> Typing:
    if not collects or any(state.kind in "PM" for state in operands):
        return _Typer(axis, None).typing(body, operands)
    if not adjoint:
        with suppress(IllTyped):
            return _Typer(axis, INVARIANT).typing(body, operands)
        return _Typer(axis, REPLICATED).typing(body, operands)
    with suppress(IllTyped):
        return _Typer(axis, CONSTANT).typing(body, operands)
    # A gate shuts a term on each rank. Where the gradient reads the whole sum instead, as that of
    # a log-sum-exp does, no term is left to shut, and ranks have to agree on the condition.
    return _Typer(axis, CONSTANT, gated=False).typing(body, operands)


@dataclass(slots=True)
class _Typer:
    axis: str
    whole: AxisState | None  # of what is brought together, None where nothing may be
    gated: bool = True  # whether each rank shuts its own terms
    states: dict[int, AxisState] = field(default_factory=dict[int, AxisState])
    active: dict[int, bool] = field(default_factory=dict[int, bool])  # a gradient goes through
    collected: dict[int, AxisState] = field(default_factory=dict[int, AxisState])

    def typing(self, body: Body, operands: Sequence[AxisState]) -> Typing:
        """Type a whole body."""
        for expr, state in zip(body.operands, operands, strict=True):
            self.states[id(expr)] = state
            varies = state != CONSTANT and self.whole != CONSTANT
            self.active[id(expr)] = varies and expr.kind == "float"
        for expr in body.order():
            if id(expr) not in self.states:
                self.settle(expr)
        return Typing(self.states, self.collected)

    def settle(self, expr: Expr) -> None:
        """Type one expression whose arguments are typed."""
        differentiable = expr.kind == "float" and expr.prim not in RANDOM | STEPS | {"stop"}
        self.active[id(expr)] = differentiable and any(self.active[id(a)] for a in expr.args)
        state = self._state(expr)
        if not self.active[id(expr)] and state in (INVARIANT, REPLICATED):
            state = CONSTANT  # of what is not differentiated both mean the same
        self.states[id(expr)] = state

    def _state(self, expr: Expr) -> AxisState:
        while True:
            args = [PlacedArgument(arg, self.states[id(arg)]) for arg in expr.args]
            try:
                if any(arg.state == GATE for arg in args):
                    return gate_rule(expr, args)
                found = self._rule(expr)(expr, args)
                return found if self.gated or found != GATE else LARGEST
            except IllTyped as error:
                every = [place for place, arg in enumerate(args) if arg.state.kind in "PM"]
                parts = [place for place in error.places if place in every] or every
                if not parts or self.whole is None:
                    raise
                for place in parts:
                    self._collect(expr.args[place], self.whole)

    def _rule(self, expr: Expr) -> Rule:
        """The rule of a primitive; to what goes round another axis this one is a bystander."""
        if expr.prim in AROUND and self.axis not in axes_over(expr.typed_attr("over", str)):
            return moved_elsewhere
        return RULES[expr.prim]

    def _collect(self, arg: Expr, whole: AxisState) -> None:
        """Bring the parts of an argument together: from here on it is whole."""
        self.collected[id(arg)] = self.states[id(arg)]
        differentiable = self.states[id(arg)].kind == "P" and self.active[id(arg)]
        self.states[id(arg)] = whole if differentiable else CONSTANT


ELEMENTWISE = frozenset(
    UNARY
    | ARITHMETIC
    | {"pow", "as_float", "where"}
    | COMPARE
    | {name for name, one in PRIMITIVES.items() if not one.axes}
)
