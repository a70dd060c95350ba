"""Rotary positions by coordinates: ``x1 cos - x2 sin`` and ``x2 cos + x1 sin``, put together.

x1 and x2 are all first and all second numbers of pairs: the halves of an axis, or its even and odd
columns. Put together they may have the other order of the two.
"""

from __future__ import annotations

from collections.abc import Sequence

from xg.ir.dim import number
from xg_torch.importing.diagram import ModelStep
from xg_torch.importing.errors import OTHER_TABLE, Unspeakable
from xg_torch.importing.known import Known, Layout, TurnedCoordinate, Turning
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.recognise import along_positions, rotary_turns
from xg_torch.importing.rotary import rope
from xg_torch.importing.rotary_speeds import Turns
from xg_torch.importing.views import ModelValue, View, split

Origin = tuple[ModelValue, Layout, int]  # a tensor, and which numbers of its pairs


def is_coordinate(lowering: Lowering, view: View) -> bool:
    """Whether a tensor is one number of each pair of another: a half, or every other column."""
    return not view.repeats and _origin(lowering, view) is not None


def coordinate(
    lowering: Lowering, a: Known | float, b: Known | float, *, second: bool
) -> TurnedCoordinate | None:
    """A difference or a sum of two products with tables as a coordinate; None for any other."""
    if not isinstance(a, Turning) or not isinstance(b, Turning) or a.rotated or b.rotated:
        return None
    along, across = (lowering.laid_out.get(each.view.value, each.view) for each in (a, b))
    return TurnedCoordinate(along, across, a.table, b.table, second)


def put_together(lowering: Lowering, items: Sequence[Known], *, beside: bool) -> View | None:
    """The RoPE of which two tensors are the coordinates; None where there are none.

    The two of a pair come `beside` each other on an axis of their own, or all first ones in front.
    """
    if not any(isinstance(item, TurnedCoordinate) for item in items):
        return None
    problem = Unspeakable(OTHER_TABLE)
    one, two = items if len(items) == 2 else (None, None)
    if not isinstance(one, TurnedCoordinate) or not isinstance(two, TurnedCoordinate):
        raise problem
    if one.second or not two.second:
        raise problem
    x1, x2 = _origin(lowering, one.along), _origin(lowering, one.across)
    if _origin(lowering, two.along) == x1:  # the sum has its sines in front
        two = TurnedCoordinate(two.across, two.along, two.sine, two.cosine, True)
    if x1 is None or x2 != (*x1[:2], 1) or x1[2] != 0:
        raise problem
    if (x2, x1) != (_origin(lowering, two.along), _origin(lowering, two.across)):
        raise problem
    turns, again = (rotary_turns(lowering, each.cosine, each.sine, None) for each in (one, two))
    seen = {_seen(view) for view in (one.along, one.across, two.along, two.across)}
    places = seen.pop()
    if turns is None or turns != again or places is None or seen:
        raise problem
    made = _turned(lowering, one, x1, turns, places)
    return _in_order(lowering, made, x1[1], beside=beside)


def _origin(lowering: Lowering, view: View) -> Origin | None:
    """The tensor of which a view has the first (0) or the second (1) numbers of all pairs."""
    step = lowering.producer.get(view.value)
    if step is None or step.attrs.get("axis") != -1:
        return None
    if step.operator == "slice":
        size = step.data[0].axes[-1]
        start, stop = step.attrs["start"], step.attrs["stop"]
        if size is None or (stop - start) * 2 != lowering.sizes.dim(size):
            return None
        which = {0: 0, (stop - start).constant: 1}.get(start.constant)
        return None if which is None else (step.data[0], "half", which)
    pairs = lowering.producer.get(step.data[0])
    if step.operator != "pick" or pairs is None or not _apart(lowering, pairs):
        return None
    return _bare(lowering, pairs.data[0]), "interleaved", step.attrs["index"].constant


def _apart(lowering: Lowering, step: ModelStep) -> bool:
    """Whether a step only takes the last axis apart, into pairs."""
    if step.operator != "R":
        return False
    arrangement = step.attrs["arrangement"]
    source, target = (
        [axis for axis in side if axis] for side in (arrangement.source, arrangement.target)
    )
    *front, last = source
    two = lowering.sizes.dim(arrangement.sizes[last[-1]]).constant == 2
    return two and len(last) == 2 and target == [*front, last[:1], last[1:]]


def _bare(lowering: Lowering, value: ModelValue) -> ModelValue:
    """A value without axes of length 1 that an R has added."""
    step: ModelStep | None = lowering.producer.get(value)
    if step is None or step.operator != "R":
        return value
    arrangement = step.attrs["arrangement"]
    added = tuple(axis for axis in arrangement.target if axis) == arrangement.source
    return step.data[0] if added else value


def _seen(view: View) -> tuple[int | None, ...] | None:
    """The place of each axis in the value, None for one of length 1; no axis is part of another."""
    base = [axis for axis in view.base if axis]
    if any(axis not in base for axis in view.axes if axis) or view.axes[-1:] != tuple(base[-1:]):
        return None
    return tuple(base.index(axis) if axis else None for axis in view.axes)


def _turned(
    lowering: Lowering,
    one: TurnedCoordinate,
    origin: Origin,
    turns: Turns,
    places: Sequence[int | None],
) -> View:
    """The tensor turned, seen as its coordinates were."""
    value, layout, _ = origin
    view = View.of(value)
    whole = view.with_axes(axis for axis in view.axes if axis)
    along = places[along_positions(lowering, one.cosine)]
    if along is None or len(whole.axes) <= max(place or 0 for place in places):
        raise Unspeakable(OTHER_TABLE)
    x = View.of(lowering.lay_out(view, whole.axes))
    made = rope(lowering, x, along - len(x.axes), turns, layout)
    return made.with_axes(made.axes[i] if i is not None else () for i in places)


def _in_order(lowering: Lowering, view: View, layout: Layout, *, beside: bool) -> View:
    """A turned tensor as a model puts its coordinates together."""
    if layout == "half" and not beside:
        return view
    (factor,) = view.axes[-1]
    outer = lowering.sizes.dim(factor.size) / 2 if layout == "interleaved" else number(2)
    view = split(view, factor, outer, lowering.sizes)
    pair, two = view.axes[-1] if layout == "interleaved" else view.axes[-1][::-1]
    return view.with_axes((*view.axes[:-1], *(((pair,), (two,)) if beside else ((two, pair),))))
