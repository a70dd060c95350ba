"""How a small change of one value propagates: not at all, uniformly along axes, or anyhow.

A bias added to every key changes each row of scores by one number; softmax subtracts the row's
maximum, which changes by the same number, and nothing is left. This analysis follows such changes
primitive by primitive: a change is known by its source, by the axes along which it is uniform, and
by the part of a concatenation that it stays in. Positions that are -inf stay so, whatever is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.body import topological
from xg.ir.dim import ONE, ZERO, Dim, product
from xg.ir.prim import COMPARE, RANDOM, Expr, batch_of
from xg.ir.tensor import Shape

Axes = frozenset[int]  # counted from the end: -1 is the last


@dataclass(frozen=True, slots=True)
class Part:
    """Positions start … stop-1 of an axis counted from the end."""

    axis: int
    start: Dim
    stop: Dim

    def misses(self, axis: int, start: Dim, stop: Dim) -> bool:
        """Whether these positions are certainly none of the part's."""
        gaps = ((start - self.stop).constant, (self.start - stop).constant)
        return axis == self.axis and any(gap is not None and gap >= 0 for gap in gaps)


@dataclass(frozen=True, slots=True)
class Perturbation:
    """A change. Equal `source` means an equal change, up to repetition along `uniform` axes.

    With a `part` nothing changes outside it.
    """

    source: object
    uniform: Axes
    part: Part | None = None


Perturbations = Mapping[
    int, Perturbation
]  # by the `id` of an expression; what is not there does not change


def propagate(
    outputs: tuple[Expr, ...], operands: Mapping[str, Perturbation]
) -> list[Perturbation | None]:
    """The changes of a body's outputs when these operands change."""
    perturbations: dict[int, Perturbation] = {}
    for expr in topological(outputs):
        if expr.prim == "operand":
            perturbation = operands.get(str(expr.attr("name")))
        elif any(id(arg) in perturbations for arg in expr.args):
            perturbation = _RULES.get(expr.prim, _arbitrary)(expr, perturbations)
        else:
            perturbation = None
        if perturbation is not None:
            perturbations[id(expr)] = perturbation
    return [perturbations.get(id(output)) for output in outputs]


def _arbitrary(expr: Expr, known: Perturbations) -> Perturbation | None:
    """A change of which nothing is known."""
    return Perturbation(expr, frozenset())


def _none(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Nothing changes, or nothing that a gradient sees."""
    return None


def _all_axes(expr: Expr) -> Axes:
    return frozenset(range(-expr.rank, 0))


def _repeated(arg: Expr, expr: Expr) -> Axes:
    """Axes of `expr` along which an operand is repeated."""
    own = {axis: arg.shape[axis] for axis in range(-arg.rank, 0)}
    return frozenset(axis for axis in range(-expr.rank, 0) if axis not in own or own[axis] == ONE)


def _uniform_axes(arg: Expr, expr: Expr, known: Perturbations) -> Axes:
    """Axes of `expr` along which the change that one operand brings is the same."""
    change = known.get(id(arg))
    return _all_axes(expr) if change is None else (change.uniform | _repeated(arg, expr))


def _sum(expr: Expr, known: Perturbations) -> Perturbation | None:
    """``a + b`` and ``a - b``; equal changes of both sides of a difference cancel."""
    left, right = (known.get(id(arg)) for arg in expr.args)
    uniform = _uniform_axes(expr.args[0], expr, known) & _uniform_axes(expr.args[1], expr, known)
    if left and right:
        if expr.prim == "sub" and left.source == right.source:
            return None
        return Perturbation((expr.prim, left.source, right.source), uniform)
    if left:
        return Perturbation(left.source, uniform)
    assert right
    return Perturbation(right.source if expr.prim == "add" else ("neg", right.source), uniform)


def _product(expr: Expr, known: Perturbations) -> Perturbation | None:
    """``a * b``, and ``a / b`` where b does not change: uniform where the fixed factor is."""
    changing = [arg for arg in expr.args if id(arg) in known]
    if len(changing) != 1 or (expr.prim == "div" and changing[0] is expr.args[1]):
        return _arbitrary(expr, known)
    (fixed,) = (arg for arg in expr.args if arg is not changing[0])
    return Perturbation(expr, _uniform_axes(changing[0], expr, known) & _repeated(fixed, expr))


def _negated(expr: Expr, known: Perturbations) -> Perturbation | None:
    change = known[id(expr.args[0])]
    return Perturbation(("neg", change.source), change.uniform)


def _where(expr: Expr, known: Perturbations) -> Perturbation | None:
    """A branch of -inf takes no part; a test against -inf replaces nothing that counts.

    Of a choice between a run of training and another, it is the run of training.
    """
    condition, yes, no = expr.args
    if _tests_training(condition):
        return known.get(id(yes))
    if id(yes) in known and (_is_minus_infinity(no) or _tests_infinity(condition, yes)):
        return Perturbation(known[id(yes)].source, _uniform_axes(yes, expr, known))
    if id(yes) not in known and id(no) not in known:
        return None
    uniform = (
        _uniform_axes(yes, expr, known)
        & _uniform_axes(no, expr, known)
        & _repeated(condition, expr)
    )
    return Perturbation(expr, uniform)


def _is_minus_infinity(expr: Expr) -> bool:
    if expr.prim != "const":
        return False
    return getattr(expr.attr("value"), "constant", None) == float("-inf")


def _tests_infinity(condition: Expr, value: Expr) -> bool:
    return (
        condition.prim == "gt"
        and condition.args[0] is value
        and _is_minus_infinity(condition.args[1])
    )


def _tests_training(condition: Expr) -> bool:
    """Whether this holds in every run with a seed: a number is drawn as 1, and else as its mean."""
    if condition.prim != "gt" or condition.args[0].prim != "draw":
        return False
    drawn = condition.args[0]
    scale = getattr(drawn.attr("scale"), "constant", None)
    return (drawn.attr("law"), scale) == ("bernoulli", 1)


def _reduced(expr: Expr, known: Perturbations) -> Perturbation | None:
    """The mean and the maximum of numbers that change uniformly change as they do.

    Without `keep` that is so where the axes in front are reduced: others would move.
    """
    (arg,) = expr.args
    change = known[id(arg)]
    gone = frozenset(axis for axis in expr.axes())
    same = expr.prim in ("mean", "max") and gone <= change.uniform
    if expr.attr("keep"):
        return Perturbation(change.source if same else expr, change.uniform | gone)
    left = [axis for axis in range(-arg.rank, 0) if axis not in gone]
    uniform = frozenset(i - len(left) for i, axis in enumerate(left) if axis in change.uniform)
    same = same and all(axis < left[0] for axis in gone) if left else False
    return Perturbation(change.source if same else expr, uniform)


def _contraction(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Uniform along axes that only the changing operand has, where it changes uniformly."""
    changing = [place for place, arg in enumerate(expr.args) if id(arg) in known]
    if len(changing) != 1:
        return _arbitrary(expr, known)
    (place,) = changing
    inputs, output = str(expr.attr("spec")).split("->")
    letters = inputs.split(",")
    own, fixed = letters[place], letters[1 - place]
    change = known[id(expr.args[place])]
    free = {own[axis] for axis in change.uniform} - set(fixed)
    return Perturbation(
        expr, frozenset(i - len(output) for i, at in enumerate(output) if at in free)
    )


def _transposed(expr: Expr, known: Perturbations) -> Perturbation | None:
    rank = expr.rank
    uniform = known[id(expr.args[0])].uniform
    order = enumerate(expr.axes("order"))
    return Perturbation(expr, frozenset(i - rank for i, axis in order if axis - rank in uniform))


def _reshaped(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Split axes stay uniform in all parts; merged ones are if all of their parts are."""
    (arg,) = expr.args
    uniform = {axis + arg.rank for axis in known[id(arg)].uniform}
    axes: set[int] = set()
    for old, new in _groups(arg.shape, expr.shape):
        if all(axis in uniform for axis in old if arg.shape[axis] != ONE):
            axes.update(new)
    return Perturbation(expr, frozenset(axis - expr.rank for axis in axes))


def _groups(old: Shape, new: Shape) -> list[tuple[range, range]]:
    """The smallest runs of axes with the same number of elements on both sides."""
    groups: list[tuple[range, range]] = []
    i = j = 0
    for end in range(1, len(old) + 1):
        size = product(old[i:end])
        stop = next((k for k in range(j, len(new) + 1) if product(new[j:k]) == size), None)
        if stop is not None:
            groups.append((range(i, end), range(j, stop)))
            i, j = end, stop
    if i < len(old) or j < len(new):
        groups.append((range(i, len(old)), range(j, len(new))))
    return groups


def _broadcast(expr: Expr, known: Perturbations) -> Perturbation | None:
    (arg,) = expr.args
    return Perturbation(known[id(arg)].source, _uniform_axes(arg, expr, known))


def _gathered(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Rows of a table that changes: uniform along the ids' axes if the rows change uniformly."""
    table, ids = expr.args
    change = known.get(id(table))
    if change is None:
        return None
    if batch_of(expr):
        return _arbitrary(expr, known)
    uniform = {axis for axis in change.uniform if axis > -table.rank}
    if -table.rank in change.uniform:
        uniform |= {axis - (expr.rank - ids.rank) for axis in range(-ids.rank, 0)}
    return Perturbation(expr, frozenset(uniform))


def _concatenated(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Changes from the first part that changes to the last."""
    axis = expr.typed("axis", int)
    start = ZERO
    ends: list[Dim] = []
    for arg in expr.args:
        stop = start + arg.shape[axis]
        if change := known.get(id(arg)):
            inner = change.part if change.part and change.part.axis == axis else None
            ends += (start + inner.start, start + inner.stop) if inner else (start, stop)
        start = stop
    uniform = _all_axes(expr).intersection(*(_uniform_axes(a, expr, known) for a in expr.args))
    return Perturbation(expr, uniform - {axis}, Part(axis, ends[0], ends[-1]))


def _cut(expr: Expr, known: Perturbations) -> Perturbation | None:
    """Does not change if only other positions do."""
    change = known[id(expr.args[0])]
    start, stop = expr.typed("start", Dim), expr.typed("stop", Dim)
    if change.part and change.part.misses(expr.typed("axis", int), start, stop):
        return None
    return Perturbation(expr, change.uniform)


Rule = Callable[[Expr, Perturbations], Perturbation | None]
_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(COMPARE, _none),
    "as_float": _none,
    "stop": _none,
    **dict.fromkeys(RANDOM, _none),
    "top": _none,
    "earlier": _none,
    "add": _sum,
    "sub": _sum,
    "mul": _product,
    "div": _product,
    "neg": _negated,
    "where": _where,
    "mean": _reduced,
    "max": _reduced,
    "sum": _reduced,
    "contract": _contraction,
    "transpose": _transposed,
    "reshape": _reshaped,
    "broadcast": _broadcast,
    "gather": _gathered,
    "concat": _concatenated,
    "cut": _cut,
}
