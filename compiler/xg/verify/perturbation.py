"""How a small change of one value reaches others: not at all, alike along some axes, or anyhow.

A bias added to every key changes each row of scores by one number; softmax subtracts the row's
maximum, which changes by the same number, and nothing is left. That is what is followed here,
primitive by primitive: a change is known by where it came from and by the axes along which it is
the same everywhere. Positions that are -inf stay so, whatever is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from xg.ir.body import topological
from xg.ir.dim import ONE, product
from xg.ir.prim import COMPARE, Expr
from xg.ir.tensor import Shape

Axes = frozenset[int]  # counted from the end: -1 is the last


@dataclass(frozen=True, slots=True)
class Shift:
    """A change. Equal `source` means equal change, up to repetition along `alike` axes."""

    source: object
    alike: Axes


Shifts = Mapping[int, Shift]  # by the `id` of an expression; what is not there does not change


def spread(outputs: tuple[Expr, ...], operands: Mapping[str, Shift]) -> list[Shift | None]:
    """What happens to the outputs of a body when these operands change."""
    known: dict[int, Shift] = {}
    for expr in topological(outputs):
        if expr.prim == "operand":
            found = operands.get(str(expr.attr("name")))
        elif any(id(arg) in known for arg in expr.args):
            found = _RULES.get(expr.prim, _anyhow)(expr, known)
        else:
            found = None
        if found is not None:
            known[id(expr)] = found
    return [known.get(id(output)) for output in outputs]


def _anyhow(expr: Expr, known: Shifts) -> Shift | None:
    """A change of which nothing is known."""
    return Shift(expr, frozenset())


def _none(expr: Expr, known: Shifts) -> Shift | None:
    """Nothing changes, or nothing that a gradient sees."""
    return None


def _all_axes(expr: Expr) -> Axes:
    return frozenset(range(-expr.rank, 0))


def _repeated(arg: Expr, expr: Expr) -> Axes:
    """Axes of `expr` along which an operand is repeated."""
    own = {axis: arg.shape[axis] for axis in range(-arg.rank, 0)}
    return frozenset(axis for axis in range(-expr.rank, 0) if axis not in own or own[axis] == ONE)


def _alike(arg: Expr, expr: Expr, known: Shifts) -> Axes:
    """Axes of `expr` along which the change that one operand brings is the same."""
    shift = known.get(id(arg))
    return _all_axes(expr) if shift is None else (shift.alike | _repeated(arg, expr))


def _sum(expr: Expr, known: Shifts) -> Shift | None:
    """``a + b`` and ``a - b``; equal changes of both sides of a difference cancel."""
    left, right = (known.get(id(arg)) for arg in expr.args)
    alike = _alike(expr.args[0], expr, known) & _alike(expr.args[1], expr, known)
    if left and right:
        if expr.prim == "sub" and left.source == right.source:
            return None
        return Shift((expr.prim, left.source, right.source), alike)
    if left:
        return Shift(left.source, alike)
    assert right
    return Shift(right.source if expr.prim == "add" else ("neg", right.source), alike)


def _product(expr: Expr, known: Shifts) -> Shift | None:
    """``a * b``, and ``a / b`` where b does not change: alike where the fixed factor is."""
    changing = [arg for arg in expr.args if id(arg) in known]
    if len(changing) != 1 or (expr.prim == "div" and changing[0] is expr.args[1]):
        return _anyhow(expr, known)
    (fixed,) = (arg for arg in expr.args if arg is not changing[0])
    return Shift(expr, _alike(changing[0], expr, known) & _repeated(fixed, expr))


def _negated(expr: Expr, known: Shifts) -> Shift | None:
    shift = known[id(expr.args[0])]
    return Shift(("neg", shift.source), shift.alike)


def _where(expr: Expr, known: Shifts) -> Shift | None:
    """A branch of -inf takes no part; a test against -inf replaces nothing that counts."""
    condition, yes, no = expr.args
    if id(yes) in known and (_is_minus_infinity(no) or _tests_infinity(condition, yes)):
        return Shift(known[id(yes)].source, _alike(yes, expr, known))
    if id(yes) not in known and id(no) not in known:
        return None
    alike = _alike(yes, expr, known) & _alike(no, expr, known) & _repeated(condition, expr)
    return Shift(expr, alike)


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


def _reduced(expr: Expr, known: Shifts) -> Shift | None:
    """Of numbers that change alike, the mean and the maximum change as they do."""
    (arg,) = expr.args
    shift = known[id(arg)]
    gone = frozenset(axis for axis in _axes_of(expr))
    same = expr.prim in ("mean", "max") and gone <= shift.alike and bool(expr.attr("keep"))
    if not expr.attr("keep"):
        left = [axis for axis in range(-arg.rank, 0) if axis not in gone]
        alike = frozenset(i - len(left) for i, axis in enumerate(left) if axis in shift.alike)
        return Shift(expr, alike)
    return Shift(shift.source if same else expr, shift.alike | gone)


def _axes_of(expr: Expr) -> list[int]:
    axes = expr.attr("axes")
    assert isinstance(axes, tuple)
    return [axis for axis in axes if isinstance(axis, int)]


def _contraction(expr: Expr, known: Shifts) -> Shift | None:
    """Alike along an axis that only the changing operand has, and along which it changes alike."""
    changing = [place for place, arg in enumerate(expr.args) if id(arg) in known]
    if len(changing) != 1:
        return _anyhow(expr, known)
    (place,) = changing
    inputs, output = str(expr.attr("spec")).split("->")
    letters = inputs.split(",")
    own, fixed = letters[place], letters[1 - place]
    shift = known[id(expr.args[place])]
    free = {own[axis] for axis in shift.alike} - set(fixed)
    return Shift(expr, frozenset(i - len(output) for i, at in enumerate(output) if at in free))


def _transposed(expr: Expr, known: Shifts) -> Shift | None:
    order = expr.attr("order")
    assert isinstance(order, tuple)
    rank = expr.rank
    alike = known[id(expr.args[0])].alike
    return Shift(
        expr, frozenset(i - rank for i, axis in enumerate(order) if _int(axis) - rank in alike)
    )


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _reshaped(expr: Expr, known: Shifts) -> Shift | None:
    """Axes that are split stay alike in all parts, merged ones if all of their parts are."""
    (arg,) = expr.args
    alike = {axis + arg.rank for axis in known[id(arg)].alike}
    found: set[int] = set()
    for old, new in _groups(arg.shape, expr.shape):
        if all(axis in alike for axis in old if arg.shape[axis] != ONE):
            found.update(new)
    return Shift(expr, frozenset(axis - expr.rank for axis in found))


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


def _broadcast(expr: Expr, known: Shifts) -> Shift | None:
    (arg,) = expr.args
    return Shift(known[id(arg)].source, _alike(arg, expr, known))


def _gathered(expr: Expr, known: Shifts) -> Shift | None:
    """Rows of a table that changes: alike along the axes of the ids if the rows change alike."""
    table, ids = expr.args
    shift = known.get(id(table))
    if shift is None:
        return None
    alike = {axis for axis in shift.alike if axis > -table.rank}
    if -table.rank in shift.alike:
        alike |= {axis - (expr.rank - ids.rank) for axis in range(-ids.rank, 0)}
    return Shift(expr, frozenset(alike))


Rule = Callable[[Expr, Shifts], Shift | None]
_RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(COMPARE, _none),
    "as_float": _none,
    "dropout_keep": _none,
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
}
