"""The typing rule of each primitive: from the states of its arguments on one mesh axis to its own.

The rules are sound: run on every rank with its own part, a primitive gives parts of the global
result in the state that its rule says. They are the whole type system: an operator's rule is that
of its body, so operators defined in a file have one too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xg.ir.placement import (
    CONSTANT,
    GATE,
    INVARIANT,
    LARGEST,
    PARTIAL,
    REPLICATED,
    AxisState,
    shard,
)
from xg.ir.prim import COMPARE, Expr
from xg.sharding import indexing
from xg.sharding.argument import IllTyped, PlacedArgument, Rule
from xg.sharding.reshaping import moved

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
        raise IllTyped("one part meets the whole of another", expr, wrong)
    return shard(axis)


def _same(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """The state of something made of values that are the same everywhere."""
    kinds = {arg.state.kind for arg in args}
    if "M" in kinds:
        raise IllTyped("a maximum of one part", expr, _places(args, "M"))
    if "P" in kinds:
        raise IllTyped("one term of a sum", expr, _places(args, "P"))
    if {"I", "R"} <= kinds:
        raise IllTyped("what is computed once meets what each rank uses", expr, _places(args, "I"))
    return INVARIANT if "I" in kinds else REPLICATED if "R" in kinds else CONSTANT


def _places(args: Sequence[PlacedArgument], kind: str) -> list[int]:
    return [place for place, arg in enumerate(args) if arg.state.kind == kind]


def _nonlinear(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    return _cut_along(expr, args) or _same(expr, args)


def _sum_of(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    if all(arg.state == PARTIAL for arg in args):
        return PARTIAL
    return _cut_along(expr, args) or _same(expr, args)


def _factor(expr: Expr, args: Sequence[PlacedArgument], places: Sequence[int]) -> AxisState:
    """Linear in each of some arguments, the others being the same everywhere."""
    partial = _places(args, "P")
    if len(partial) == 1 and partial[0] in places:
        others = [p for p in range(len(args)) if p not in partial]
        wrong = [p for p in others if args[p].state not in (REPLICATED, CONSTANT)]
        if wrong:
            raise IllTyped("one term of a sum meets a part", expr, wrong)
        return PARTIAL
    return _cut_along(expr, args) or _same(expr, args)


def _where(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Linear in both values at once; a literal 0 is a term like any other."""
    values = [arg for arg in args[1:] if not is_zero(arg.expr)]
    if values and all(arg.state == PARTIAL for arg in values):
        if args[0].state not in (REPLICATED, CONSTANT):
            raise IllTyped("one term of a sum meets a part", expr, [0])
        return PARTIAL
    return _cut_along(expr, args) or _same(expr, args)


def is_zero(expr: Expr) -> bool:
    """Whether an expression is the literal 0."""
    return expr.prim == "const" and str(expr.attr("value")) == "0"


# ---- reductions and products --------------------------------------------------------------------


def _reduced(whole: AxisState) -> Rule:
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
        if arg.state.kind != "S" and not _beside(arg, letters[place], letter)
    ]
    if wrong:
        raise IllTyped("one part meets the whole of another", expr, wrong)
    return shard(out.index(letter) - len(out)) if letter in out else PARTIAL


def _beside(arg: PlacedArgument, letters: str, letter: str) -> bool:
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
        raise IllTyped("a maximum of one part", expr, [0])
    return args[0].state


def _concat(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    axis = expr.typed("axis", int)
    joined = [p for p, arg in enumerate(args) if arg.state == shard(axis)]
    if joined:
        raise IllTyped("the axis along which parts are joined is cut", expr, joined)
    return _sum_of(expr, args)


def _stretch(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    if args[0].state == shard(expr.typed("axis", int)):
        raise IllTyped("the axis of which a stretch is taken is cut", expr, [0])
    return _kept(expr, args)


def _windows(grown: int) -> Rule:
    """A cut axis that no window is along keeps its part; those in front are renumbered."""

    def rule(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
        state, axis = args[0].state, expr.typed("axis", int)
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


def _summed_elsewhere(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """A sum over the ranks of another mesh axis is linear, and says nothing of this one's."""
    return _kept(expr, args)


def _largest_elsewhere(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    return args[0].state if args[0].state.kind == "M" else _nonlinear(expr, args)


def moved_elsewhere(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Another mesh axis cuts an axis or joins it: this one must be outside of that."""
    touched = [value for key, value in expr.attrs if key in ("axis", "cut", "joined")]
    if args[0].state.kind == "S" and args[0].state.axis in touched:
        raise IllTyped("an axis is cut by two mesh axes in the other order", expr, [0])
    return _kept(expr, args)


def _gathered_around(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Parts go round the mesh axis that cuts this axis: each rank uses the whole."""
    cut = args[0].state == shard(expr.typed("axis", int))
    return REPLICATED if cut else _kept(expr, args)


def _scattered_around(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """The transpose: terms of a sum come together while they go round."""
    state = args[0].state
    return shard(expr.typed("axis", int)) if state == PARTIAL else _kept(expr, args)


def _constant(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    return CONSTANT


RULES: Final[Mapping[str, Rule]] = {
    "const": _constant,
    "iota": _constant,
    "neg": _sum_of,
    "stop": _sum_of,
    "add": _sum_of,
    "sub": _sum_of,
    "mul": lambda expr, args: _factor(expr, args, (0, 1)),
    "div": lambda expr, args: _factor(expr, args, (0,)),
    **dict.fromkeys(("exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "pow"), _nonlinear),
    **dict.fromkeys(("maximum", "minimum", *COMPARE), _nonlinear),
    "where": _where,
    "as_float": _sum_of,
    "sum": _reduced(PARTIAL),
    "mean": _reduced(PARTIAL),
    "max": _reduced(LARGEST),
    "contract": _contract,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _kept,
    "concat": _concat,
    "cut": _stretch,
    "pad": _stretch,
    "window": _windows(grown=1),
    "overlap": _windows(grown=-1),
    "gather": indexing.gather,
    "top": _along_the_last("the axis of which the largest are taken is cut"),
    "earlier": _along_the_last("the axis along which equal ids are counted is cut"),
    "scatter_add": indexing.scatter_add,
    "pick": indexing.pick,
    "place": indexing.place,
    "dropout_keep": _dropout_keep,
    "draw": _constant,
    "all_reduce": _summed_elsewhere,
    "first_rank_only": _summed_elsewhere,
    "all_reduce_max": _largest_elsewhere,
    "gather_around": _gathered_around,
    "scatter_around": _scattered_around,
    **dict.fromkeys(
        ("all_gather", "reduce_scatter", "all_to_all", "shard_slice", "pad_from_shard"),
        moved_elsewhere,
    ),
    **dict.fromkeys(("owns_index", "to_local_index"), _nonlinear),
    "dropout_apply": lambda expr, args: _factor(expr, args, (0,)),
}
