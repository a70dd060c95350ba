"""Tensors put one after the other: `cat` and `stack`."""

from __future__ import annotations

from collections.abc import Sequence

from xg.ir.dim import ZERO
from xg_torch.importing.diagram import ModelStep
from xg_torch.importing.exported import Argument, Ref
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.rotary_coordinates import put_together
from xg_torch.importing.rules_layout import place_of
from xg_torch.importing.sizes import Size
from xg_torch.importing.views import ModelValue, View


def concatenate(lowering: Lowering) -> View:
    """`cat`: operands laid out as they are seen."""
    items = lowering.argument("tensors")
    assert isinstance(items, tuple)
    whole = [item for item in items if not _is_empty(lowering, item)]
    if len(whole) == 1:
        return lowering.view(lowering.look(whole[0]))
    known = [lowering.look(item) for item in whole]
    rank = len(lowering.shape_of_output())
    axis = place_of(lowering, "dim", rank, 0)
    if axis == rank - 1 and (turned := put_together(lowering, known, beside=False)):
        return turned
    return _put(lowering, [lowering.view(each) for each in known], axis)


def stack(lowering: Lowering) -> View:
    """`stack`: operands one after the other along a new axis."""
    items = lowering.argument("tensors")
    assert isinstance(items, tuple)
    known = [lowering.look(item) for item in items]
    rank = len(lowering.shape_of_output())
    axis = place_of(lowering, "dim", rank, 0)
    if axis == rank - 1 and (turned := put_together(lowering, known, beside=True)):
        return turned
    views = [lowering.view(each) for each in known]
    new = [view.with_axes((*view.axes[:axis], (), *view.axes[axis:])) for view in views]
    return _put(lowering, new, axis)


def _put(lowering: Lowering, views: Sequence[View], axis: int) -> View:
    length = lowering.shape_of_output()[axis]
    return View.of(joined(lowering, views, axis, lowering.sizes.make(length)))


def joined(lowering: Lowering, views: Sequence[View], axis: int, length: Size | None) -> ModelValue:
    """The value of views one after the other along an axis, which is so long if no operand says."""
    values = [lowering.materialize(view).value for view in views]
    for other in values[1:]:
        pairs = zip(values[0].axes, other.axes, strict=True)
        for place, (mine, its) in enumerate(pairs):
            if place != axis:
                lowering.sizes.equal(mine, its)
    axes = list(values[0].axes)
    place = axis - len(axes)
    axes[axis] = _tiled(lowering, values, place)
    if axes[axis] is None:
        axes[axis] = length
    value = lowering.emit("C", values, axes, kind=values[0].kind, axis=place)
    if place == -1:
        lowering.joined[value] = tuple(views)
    return value


def _is_empty(lowering: Lowering, item: Argument) -> bool:
    """Whether an operand has an axis of length 0, as a slice of nothing."""
    return isinstance(item, Ref) and any(dim.constant == 0 for dim in lowering.shape(item.name))


def _tiled(lowering: Lowering, parts: Sequence[ModelValue], place: int) -> Size | None:
    """The axis that the parts were cut from, one behind the other, and keep their places of."""
    cuts = [_cut_before(lowering, part, place) for part in parts]
    source: Size | None = None
    end = ZERO
    before: list[Size] = []
    for part, (step, _) in zip(parts, cuts, strict=True):
        first, _ = cuts[0]
        if step is None or first is None or step.data[0] is not first.data[0]:
            return None
        source, own = step.data[0].axes[place], part.axes[place]
        if step.attrs["start"] != end or source is None or own is None:
            return None
        end = step.attrs["stop"]
    if source is None or end != lowering.sizes.dim(source):
        return None
    for part, (step, turned) in zip(parts, cuts, strict=True):
        own = part.axes[place]
        assert step is not None
        assert own is not None
        step.attrs["before"] = tuple(before)
        lowering.sizes.hint(own, "D_r" if turned else "D_p", 3)
        before.append(own)
    return source


def _cut_before(lowering: Lowering, value: ModelValue, place: int) -> tuple[ModelStep | None, bool]:
    """The slice of the last axis that a value is, laid out or turned since; whether turned."""
    step, turned = lowering.producer.get(value), False
    while step is not None and (step.operator == "RoPE" or _keeps_last(step)):
        turned = turned or step.operator == "RoPE"
        step = lowering.producer.get(step.data[0])
    fits = step is not None and step.operator == "slice" and step.attrs["axis"] == place == -1
    return (step if fits else None), turned


def _keeps_last(step: ModelStep) -> bool:
    if step.operator != "T":
        return False
    arrangement = step.attrs["arrangement"]
    return arrangement.source[-1] == arrangement.target[-1]
