"""Tensors that a model makes without numbers and writes part by part: `new_empty`, `copy_`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.dim import ZERO
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Ref
from xg_torch.importing.known import Blank, BlankPart, Known
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.rules_join import joined
from xg_torch.importing.rules_layout import place_of, start_of
from xg_torch.importing.views import View, expand

MADE: Final = frozenset({"empty", "new_empty", "empty_like"})


def blank(lowering: Lowering, name: str, operands: Sequence[Known]) -> Known | None:
    """The result of a call on a tensor that is not written yet; None for a call that has none."""
    if name in MADE:
        return Blank(lowering.shape_of_output())
    first = operands[0] if operands else None
    if name == "slice" and isinstance(first, Blank):
        return _part(lowering, first)
    if name == "copy_":
        return _write(lowering, first)
    return None


def _part(lowering: Lowering, whole: Blank) -> Known:
    """A stretch of a tensor along one axis."""
    argument = lowering.argument("self")
    axis = place_of(lowering, "dim", len(whole.shape), 0)
    length, taken = whole.shape[axis], lowering.shape_of_output()[axis]
    if lowering.integer_of("step", 1) != 1 or not isinstance(argument, Ref):
        raise Unspeakable("it writes every other position of a tensor")
    if taken == length:
        return whole
    return BlankPart(argument.name, axis, start_of(lowering, length), taken)


def _write(lowering: Lowering, known: Known | None) -> View:
    """Write numbers into a tensor; where it has all its parts, they are put together."""
    if not isinstance(known, Blank | BlankPart):
        raise Unspeakable("it writes into a tensor that has numbers already")
    view = expand(lowering.view_of("src"), lowering.shape_of_output(), lowering.sizes)
    if view.value.kind == "int":
        raise Unspeakable("it writes integers into a tensor")
    if isinstance(known, BlankPart):
        whole = lowering.known[known.name]
        if not isinstance(whole, Blank) or any(_meet(known, part) for part, _ in whole.written):
            raise Unspeakable("it writes into a tensor twice")
        written = (*whole.written, (known, view))
        lowering.known[known.name] = _whole(lowering, Blank(whole.shape, written))
    return view


def _meet(one: BlankPart, other: BlankPart) -> bool:
    """Whether two stretches are not certain to be apart."""
    gaps = (one.start - other.start - other.length, other.start - one.start - one.length)
    return one.axis != other.axis or all(
        (gap.constant or 0) < 0 or None is gap.constant for gap in gaps
    )


def _whole(lowering: Lowering, blank: Blank) -> Known:
    """A tensor as what its parts are together, if they are all there and side by side."""
    axis, end = blank.written[0][0].axis, ZERO
    waiting = list(blank.written)
    views: list[View] = []
    while waiting:
        found = next((each for each in waiting if each[0].start == end), None)
        if found is None:
            return blank
        waiting.remove(found)
        views.append(found[1])
        end = end + found[0].length
    if end != blank.shape[axis]:
        return blank
    return View.of(joined(lowering, views, axis, lowering.sizes.make(end)))
