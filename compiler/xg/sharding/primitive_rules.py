"""The typing rule of each primitive: from the states of its arguments on one mesh axis to its own.

The rules are sound: run on every rank with its own part, a primitive gives parts of the global
result in the state that its rule says. They are the whole type system: an operator's rule is that
of its body, so operators defined in a file have one too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import Body
from xg.ir.collectives import AROUND, PRIMITIVES
from xg.ir.dim import ONE, Dim, product
from xg.ir.functions import FUNCTIONS, STEPS, UNARY
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
    shard,
)
from xg.ir.placement import Rule as RankRule
from xg.ir.prim import ARITHMETIC, COMPARE, RANDOM, Expr, batch_of
from xg.ir.tensor import Shape

# The arguments of a typing rule, and how it refuses them.


class IllTyped(Exception):
    """Arguments that a primitive cannot take in these states.

    `places` are the arguments to blame.
    """

    def __init__(self, reason: str, expr: Expr, places: Sequence[int] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.expr = expr
        self.places = tuple(places)


@dataclass(frozen=True, slots=True)
class PlacedArgument:
    """An argument with its state."""

    expr: Expr
    state: AxisState

    def can_be_cut(self, axis: int) -> bool:
        """Whether it can be combined with an operand sharded along an axis of the result.

        It can at no cost if it lacks the axis, or is a constant that every rank can compute its
        part of.
        """
        lacks = -axis > self.expr.rank or self.expr.shape[axis] == ONE
        if self.state == CONSTANT:
            return True
        return self.state == REPLICATED and lacks


Rule = Callable[[Expr, Sequence[PlacedArgument]], AxisState]


# Where a sharded axis goes when axes are split and merged.


@dataclass(frozen=True, slots=True)
class Group:
    """Axes of the source that become axes of the target, by their places from the front."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def groups(source: Shape, target: Shape) -> Iterator[Group]:
    """The smallest groups of neighboring axes with equal products; axes of size 1 join none."""
    left = [place for place, size in enumerate(source) if size != ONE]
    right = [place for place, size in enumerate(target) if size != ONE]
    behind, before = _products(source, left), _products(target, right)
    start = end = 0
    for stop, size in enumerate(behind, 1):
        if size in before[end:]:
            new = before.index(size, end) + 1
            yield Group(tuple(left[start:stop]), tuple(right[end:new]))
            start, end = stop, new


def _products(shape: Shape, places: Sequence[int]) -> list[Dim]:
    """The product of the first size, of the first two, and so on."""
    return [product(shape[place] for place in places[:end]) for end in range(1, len(places) + 1)]


def moved(source: Shape, target: Shape, axis: int) -> int | None:
    """The target's axis (from the end) that takes over a sharded axis, None if none can.

    The slices of a merged axis are contiguous only if its first part was cut; a split axis is cut
    along its first part. An axis of size 1 is not cut.
    """
    place = axis + len(source)
    for group in groups(source, target):
        if place == group.source[0]:
            return group.target[0] - len(target)
    return None


# Typing rules of primitives that read and write by ids.


def gather(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Rows by their ids; of a table that is cut by rows each rank has some, zeros elsewhere."""
    table, ids = args
    batch, rank = batch_of(expr), table.expr.rank
    inner = rank - 1 - batch
    if ids.state.kind == "S":
        shared = ids.state.axis + ids.expr.rank - rank  # the axis of the table, if it has it
        of_batch = shared < batch - rank
        fits = (shard(shared), CONSTANT) if of_batch else (REPLICATED, CONSTANT)
        if table.state not in fits:
            raise IllTyped("the rows of the table are cut, and so are the ids", expr, [0])
        return shard(ids.state.axis - inner)
    _require_constant(expr, ids, 1)
    if table.state.kind == "S" and table.state.axis < -inner:
        shared = table.state.axis + rank
        return PARTIAL if shared == batch else shard(shared - expr.rank)
    return table.state


def scatter_add(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Rows summed by their ids: parts of the rows give terms of the sum."""
    updates, ids = args
    inner = updates.expr.rank - ids.expr.rank
    if ids.state.kind == "S":
        if updates.state != shard(ids.state.axis - inner) and updates.state != CONSTANT:
            raise IllTyped("rows to add meet a part of the ids", expr, [0])
        return _sum_state(expr, ids.state.axis + ids.expr.rank)
    _require_constant(expr, ids, 1)
    if updates.state.kind == "S" and updates.state.axis < -inner:
        return _sum_state(expr, updates.state.axis + updates.expr.rank)  # by its part of the ids
    return updates.state


def _sum_state(expr: Expr, axis: int) -> AxisState:
    """The result of adding a part of the rows: whole tables, or a term of each."""
    return shard(axis - expr.rank) if axis < batch_of(expr) else PARTIAL


def pick(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """One element per row; of rows that are cut each rank has some, zeros elsewhere."""
    x, ids = args
    if x.state == shard(-1):
        _require_constant(expr, ids, 1)
        return PARTIAL
    if x.state.kind == "S" or ids.state.kind == "S":
        axis = x.state.axis + 1 if x.state.kind == "S" else ids.state.axis
        fits = x.state in (shard(axis - 1), CONSTANT) and ids.state in (shard(axis), CONSTANT)
        if not fits:
            raise IllTyped("the rows are cut, but the ids are whole", expr, (0, 1))
        return shard(axis)
    return x.state


def place(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """One value per row, at its id."""
    values, ids = args
    if values.state.kind == "S" or ids.state.kind == "S":
        axis = values.state.axis if values.state.kind == "S" else ids.state.axis
        ready = values.state == shard(axis) or values.can_be_cut(axis)
        if not ready or ids.state not in (shard(axis), CONSTANT):
            raise IllTyped("the rows are cut, but the ids are whole", expr, (0, 1))
        return shard(axis - 1)
    return values.state


def _require_constant(expr: Expr, arg: PlacedArgument, place: int) -> None:
    if arg.state != CONSTANT:
        raise IllTyped("ids have to be whole", expr, [place])


# ---- what all elementwise primitives share ------------------------------------------------------


def _cut_along(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState | None:
    """S where an argument is cut; None where none is."""
    cuts = {arg.state.axis for arg in args if arg.state.kind == "S"}
    if not cuts:
        return None
    if len(cuts) > 1:
        raise IllTyped("two different axes are cut", expr, range(len(args)))
    (axis,) = cuts
    wrong = [
        place
        for place, arg in enumerate(args)
        if arg.state.kind != "S" and not arg.can_be_cut(axis)
    ]
    if wrong:
        raise IllTyped("one operand is cut, and another is whole", expr, wrong)
    return shard(axis)


def _uniform_state(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """The state of something made of values that are the same everywhere."""
    kinds = {arg.state.kind for arg in args}
    if "M" in kinds:
        raise IllTyped("an operand is the maximum of one part", expr, _places(args, "M"))
    if "P" in kinds:
        raise IllTyped("one term of a sum", expr, _places(args, "P"))
    if {"I", "R"} <= kinds:
        raise IllTyped("what is computed once meets what each rank uses", expr, _places(args, "I"))
    return INVARIANT if "I" in kinds else REPLICATED if "R" in kinds else CONSTANT


def _places(args: Sequence[PlacedArgument], kind: str) -> list[int]:
    return [place for place, arg in enumerate(args) if arg.state.kind == kind]


def _nonlinear(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    return _cut_along(expr, args) or _uniform_state(expr, args)


def _sum_of(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    if all(arg.state == PARTIAL for arg in args):
        return PARTIAL
    return _cut_along(expr, args) or _uniform_state(expr, args)


def _factor(expr: Expr, args: Sequence[PlacedArgument], places: Sequence[int]) -> AxisState:
    """Linear in each of some arguments, the others being the same everywhere."""
    partial = _places(args, "P")
    if len(partial) == 1 and partial[0] in places:
        others = [p for p in range(len(args)) if p not in partial]
        wrong = [p for p in others if args[p].state not in (REPLICATED, CONSTANT)]
        if wrong:
            raise IllTyped("a partial sum meets a cut operand", expr, wrong)
        return PARTIAL
    return _cut_along(expr, args) or _uniform_state(expr, args)


def _where(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Linear in both values at once; a literal 0 is a term like any other."""
    values = [arg for arg in args[1:] if not is_zero(arg.expr)]
    if values and all(arg.state == PARTIAL for arg in values):
        if args[0].state not in (REPLICATED, CONSTANT):
            raise IllTyped("a partial sum meets a cut operand", expr, [0])
        return PARTIAL
    return _cut_along(expr, args) or _uniform_state(expr, args)


def is_zero(expr: Expr) -> bool:
    """Whether an expression is the literal 0."""
    return expr.prim == "const" and str(expr.attr("value")) == "0"


# ---- reductions and products --------------------------------------------------------------------


def _reduction_rule(whole: AxisState) -> Rule:
    """`whole` is what becomes of a cut axis that is reduced."""

    def rule(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
        state = args[0].state
        if state.kind == "M" or (state == PARTIAL and expr.prim == "max"):
            raise IllTyped("one term of a sum", expr, [0])
        if state.kind != "S":
            return state
        rank = args[0].expr.rank
        gone = {axis % rank - rank for axis in expr.axes()}
        if state.axis in gone:
            return GATE if ("gate", True) in expr.attrs else whole
        if expr.attr("keep"):
            return state
        return shard(state.axis + sum(axis > state.axis for axis in gone))

    return rule


def _contract(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    inputs, out = str(expr.attr("spec")).split("->")
    letters = inputs.split(",")
    cut = {letters[p][arg.state.axis] for p, arg in enumerate(args) if arg.state.kind == "S"}
    if not cut:
        return _factor(expr, args, (0, 1))
    if len(cut) > 1:
        raise IllTyped("two different axes are cut", expr, (0, 1))
    (letter,) = cut
    wrong = [
        place
        for place, arg in enumerate(args)
        if arg.state.kind != "S" and not _can_combine(arg, letters[place], letter)
    ]
    if wrong:
        raise IllTyped("one operand is cut, and another is whole", expr, wrong)
    return shard(out.index(letter) - len(out)) if letter in out else PARTIAL


def _can_combine(arg: PlacedArgument, letters: str, letter: str) -> bool:
    """Whether an operand can be combined with one that is cut along a letter."""
    return arg.state == CONSTANT or (arg.state == REPLICATED and letter not in letters)


# ---- views --------------------------------------------------------------------------------------


def _reshape(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    state = args[0].state
    if state.kind != "S":
        return _kept(expr, args)
    axis = moved(args[0].expr.shape, expr.shape, state.axis)
    if axis is None:
        raise IllTyped("only the first part of a merged axis can be cut", expr, [0])
    return shard(axis)


def _transpose(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    state = args[0].state
    if state.kind != "S":
        return _kept(expr, args)
    order = [int(str(axis)) for axis in expr.axes("order")]
    return shard(order.index(state.axis + expr.rank) - expr.rank)


def _kept(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    if args[0].state.kind == "M":
        raise IllTyped("an operand is the maximum of one part", expr, [0])
    return args[0].state


def _concat(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    axis = expr.typed_attr("axis", int)
    joined = [p for p, arg in enumerate(args) if arg.state == shard(axis)]
    if joined:
        raise IllTyped("the axis that is joined is cut", expr, joined)
    return _sum_of(expr, args)


def _stretch(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    if args[0].state == shard(expr.typed_attr("axis", int)):
        raise IllTyped("the axis that is sliced is cut", expr, [0])
    return _kept(expr, args)


def _running_sum(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    if args[0].state == shard(expr.typed_attr("axis", int)):
        raise IllTyped("the axis of the running sum is cut", expr, [0])
    return _kept(expr, args)


def _windows(grown: int) -> Rule:
    """Keep a cut axis that no window is along; the axes before a window are renumbered."""

    def rule(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
        state, axis = args[0].state, expr.typed_attr("axis", int)
        if state.kind != "S":
            return _kept(expr, args)
        first = axis if grown > 0 else axis - 1  # windows, if there are, come before their elements
        if first <= state.axis <= axis:
            raise IllTyped("the axis whose windows overlap is cut", expr, [0])
        return state if state.axis > axis else shard(state.axis - grown)

    return rule


def _along_the_last(reason: str) -> Rule:
    """Each row by itself, from its end to its start: rows may be cut from each other."""

    def rule(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
        if args[0].state == shard(-1):
            raise IllTyped(reason, expr, [0])
        return _nonlinear(expr, args)

    return rule


def _dropout_keep(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    return args[0].state if args[0].state.kind == "S" else CONSTANT


# ---- across another mesh axis -------------------------------------------------------------------


def _largest_elsewhere(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    return args[0].state if args[0].state.kind == "M" else _nonlinear(expr, args)


def moved_elsewhere(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Another mesh axis cuts an axis or joins it: this one must be outside of that."""
    touched = [expr.attr(name) for name in PRIMITIVES[expr.prim].axes]
    if args[0].state.kind == "S" and args[0].state.axis in touched:
        raise IllTyped("an axis is cut by two mesh axes in the other order", expr, [0])
    return _kept(expr, args)


def _gathered_around(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Parts go round the mesh axis that cuts this axis: each rank uses the whole."""
    cut = args[0].state == shard(expr.typed_attr("axis", int))
    return REPLICATED if cut else _kept(expr, args)


def _scattered_around(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """The transpose: terms of a sum come together while they go round."""
    state = args[0].state
    return shard(expr.typed_attr("axis", int)) if state == PARTIAL else _kept(expr, args)


def _constant(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    return CONSTANT


_ACROSS: Final[Mapping[RankRule, Rule]] = {
    "linear": _kept,
    "largest": _largest_elsewhere,
    "separate": moved_elsewhere,
    "nonlinear": _nonlinear,
    "gathers": _gathered_around,
    "scatters": _scattered_around,
}

RULES: Final[Mapping[str, Rule]] = {
    "const": _constant,
    "iota": _constant,
    "neg": _sum_of,
    "stop": _sum_of,
    "add": _sum_of,
    "sub": _sum_of,
    "mul": lambda expr, args: _factor(expr, args, (0, 1)),
    "div": lambda expr, args: _factor(expr, args, (0,)),
    **dict.fromkeys((*FUNCTIONS, "pow"), _nonlinear),
    **dict.fromkeys(("maximum", "minimum", *COMPARE), _nonlinear),
    "where": _where,
    "as_float": _sum_of,
    "sum": _reduction_rule(PARTIAL),
    "mean": _reduction_rule(PARTIAL),
    "max": _reduction_rule(LARGEST),
    "cumsum": _running_sum,
    "contract": _contract,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _kept,
    "concat": _concat,
    "cut": _stretch,
    "pad": _stretch,
    "window": _windows(grown=1),
    "overlap": _windows(grown=-1),
    "gather": gather,
    "top": _along_the_last("the axis of which the largest are taken is cut"),
    "earlier": _along_the_last("the axis along which equal ids are counted is cut"),
    "scatter_add": scatter_add,
    "pick": pick,
    "place": place,
    "dropout_keep": _dropout_keep,
    "draw": _constant,
    **{name: _ACROSS[one.rule] for name, one in PRIMITIVES.items()},
    "dropout_apply": lambda expr, args: _factor(expr, args, (0,)),
}


# Infer the states of a whole body: of every expression in it, from its operands' states.


# Typing of gates: of a sum, what each rank adds is 0 where none of its own parts counts.
#
# A derived gradient keeps a condition beside a sum (`xg.ir.primitive_gradients`): it counts where
# any of its terms was chosen, and is 0 elsewhere, whatever the slope may be there. Of terms that
# are cut each rank has its own condition. Where that is false its term of the sum is 0, so each
# rank shuts its own term, and no rank asks the others.
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
