"""The states of a whole body: of every expression in it, given those of its operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body
from xg.ir.collective_prims import AROUND
from xg.ir.mesh_axes import axes_over
from xg.ir.placement import CONSTANT, GATE, INVARIANT, REPLICATED, AxisState
from xg.ir.prim import COMPARE, RANDOM, Expr
from xg.sharding.argument import IllTyped, PlacedArgument, Rule
from xg.sharding.gates import gate_rule
from xg.sharding.primitive_rules import RULES, moved_elsewhere


@dataclass(frozen=True, slots=True)
class Typing:
    """The states of a body on one mesh axis.

    `states` has every expression by `id`. `collected` are expressions whose parts are reduced
    inside the body, with the state they have before: a sum or a maximum over ranks.
    """

    states: Mapping[int, AxisState]
    collected: Mapping[int, AxisState] = field(default_factory=dict[int, AxisState])

    def of(self, expr: Expr) -> AxisState:
        """The state of an expression."""
        return self.states[id(expr)]

    def before(self, expr: Expr) -> AxisState:
        """Its state before parts are brought together."""
        return self.collected.get(id(expr), self.states[id(expr)])


def type_body(
    body: Body, operands: Sequence[AxisState], axis: str, *, collects: bool = False
) -> Typing:
    """The states of a body's expressions over a mesh axis, or IllTyped.

    `collects` lets the body sum over ranks where a nonlinear primitive needs the global value. The
    sum is computed once in meaning, if its result is, as a loss; else each rank uses it. Operands
    are not summed here, nor expressions linear in them: both passes read them, so that is done
    once, before the step.
    """
    if not collects or any(state.kind in "PM" for state in operands):
        return _typed(body, operands, axis, None)
    try:
        return _typed(body, operands, axis, INVARIANT)
    except IllTyped:
        return _typed(body, operands, axis, REPLICATED)


def _typed(body: Body, operands: Sequence[AxisState], axis: str, whole: AxisState | None) -> Typing:
    typer = _Typer(axis, whole)
    for expr, state in zip(body.operands, operands, strict=True):
        typer.states[id(expr)] = state
        typer.active[id(expr)] = state != CONSTANT and expr.kind == "float"
    for expr in body.order():
        if id(expr) not in typer.states:
            typer.settle(expr)
    return Typing(typer.states, typer.collected)


@dataclass(slots=True)
class _Typer:
    axis: str
    whole: AxisState | None  # of what is brought together, None where nothing may be
    states: dict[int, AxisState] = field(default_factory=dict[int, AxisState])
    active: dict[int, bool] = field(default_factory=dict[int, bool])  # a gradient goes through
    collected: dict[int, AxisState] = field(default_factory=dict[int, AxisState])

    def settle(self, expr: Expr) -> None:
        """Type one expression whose arguments are typed."""
        differentiable = expr.kind == "float" and expr.prim not in RANDOM | {"stop"}
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
                return self._rule(expr)(expr, args)
            except IllTyped as error:
                every = [place for place, arg in enumerate(args) if arg.state.kind in "PM"]
                parts = [place for place in error.places if place in every] or every
                if not parts or self.whole is None:
                    raise
                for place in parts:
                    self._collect(expr.args[place], self.whole)

    def _rule(self, expr: Expr) -> Rule:
        """The rule of a primitive; to what goes round another axis this one is a bystander."""
        if expr.prim in AROUND and self.axis not in axes_over(expr.typed("over", str)):
            return moved_elsewhere
        return RULES[expr.prim]

    def _collect(self, arg: Expr, whole: AxisState) -> None:
        """Bring the parts of an argument together: from here on it is whole."""
        self.collected[id(arg)] = self.states[id(arg)]
        differentiable = self.states[id(arg)].kind == "P" and self.active[id(arg)]
        self.states[id(arg)] = whole if differentiable else CONSTANT


ELEMENTWISE = frozenset(
    {"neg", "exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "stop", "pow", "as_float"}
    | {"add", "sub", "mul", "div", "maximum", "minimum", "where"}
    | COMPARE
    | {"all_reduce", "all_reduce_max", "first_rank_only", "owns_index", "to_local_index"}
)
