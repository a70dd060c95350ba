"""An order that both operands of a product have along the axis that it sums over: it says nothing.

Rotary positions leave queries and keys with the first numbers of all pairs in front, where their
pairs are neighbours; scores are the same without that.
"""

from __future__ import annotations

from collections.abc import Sequence

from xg.ir.dim import Dim
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.rules_join import joined
from xg_torch.importing.views import Axis, Factor, View, length


def without_order(lowering: Lowering, first: View, second: View) -> tuple[View, View]:
    """Two operands of a product of first's last axis and second's last but one, as they were."""
    turned = second.with_axes((*second.axes[:-2], *second.axes[:-3:-1]))
    first, turned = _straight(lowering, first, turned) or (first, turned)
    _match(lowering, first, turned)
    return first, turned.with_axes((*turned.axes[:-2], *turned.axes[:-3:-1]))


def _straight(lowering: Lowering, first: View, second: View) -> tuple[View, View] | None:
    """The same with both last axes in the order of their values; None if they are, or differ."""
    one, other = _order(lowering, first), _order(lowering, second)
    if one is not None and one == other:
        return _ordered(lowering, first), _ordered(lowering, second)
    parts, others = (_parts(lowering, view) for view in (first, second))
    if len(parts) != len(others):
        return None
    found = False
    for place, (part, its) in enumerate(zip(parts, others, strict=True)):
        straight = _straight(lowering, part, its)
        if straight is None and part.shape(lowering.sizes)[-1] != its.shape(lowering.sizes)[-1]:
            return None
        found = found or straight is not None
        parts[place], others[place] = straight or (part, its)
    if not found:
        return None
    return _joined_again(lowering, first, parts), _joined_again(lowering, second, others)


def _match(lowering: Lowering, first: View, second: View) -> None:
    """Note that parts of equal lengths along both last axes are of one size each."""
    parts, others = ([part.axes[-1] for part in _parts(lowering, view)] for view in (first, second))
    lengths, its = ([length(axis, lowering.sizes) for axis in axes] for axes in (parts, others))
    if lengths == its:
        for one, other in zip(parts, others, strict=True):
            lowering.sizes.equal(lowering.join(one), lowering.join(other))


def _order(lowering: Lowering, view: View) -> tuple[tuple[int, Dim], ...] | None:
    """How the last axis has the factors of one axis of the value in another order."""
    last, home = view.axes[-1], _home(view)
    if home is None or home == last:
        return None
    return tuple((home.index(each), lowering.sizes.dim(each.size)) for each in last)


def _home(view: View) -> Axis | None:
    """The axis of the value that has the factors of the last one seen."""
    return next((axis for axis in view.base if set(axis) == set(view.axes[-1])), None)


def _ordered(lowering: Lowering, view: View) -> View:
    """A view whose last axis is an axis of the value as it is."""
    home = _home(view)
    size = None if home is None else lowering.join(home)
    assert size is not None
    whole: Axis = (Factor.of(size),)
    base = tuple(whole if axis == home else axis for axis in view.base)
    return View(view.value, base, (*view.axes[:-1], whole))


def _parts(lowering: Lowering, view: View) -> list[View]:
    """The parts that were put together along the last axis of a view; none for any other."""
    whole = view.axes[-1:] == view.base[-1:]
    return [*lowering.joined.get(view.value, ())] if whole else []


def _joined_again(lowering: Lowering, view: View, parts: Sequence[View]) -> View:
    """A view of the same parts, in other orders along the last axis."""
    value = joined(lowering, parts, len(parts[0].axes) - 1, view.value.axes[-1])
    lowering.sizes.equal(value.axes[-1], view.value.axes[-1])
    return view.on(value)
