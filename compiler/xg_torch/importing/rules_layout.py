"""Layout calls: views, transposes, slices, and what puts tensors together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from xg.ir.dim import ONE, ZERO, Dim, DimError, as_dim, number
from xg_torch.importing.diagram import Weight
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Argument, Ref
from xg_torch.importing.fixed import WHOLE, Fixed
from xg_torch.importing.known import Known
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.sizes import divides
from xg_torch.importing.views import Axis, Factor, ModelValue, View, expand, regroup, split

Rule = Callable[[Lowering, View], View]


def place_of(lowering: Lowering, name: str, rank: int, default: int | None = None) -> int:
    """An axis among the arguments, counted from the front."""
    return lowering.integer_of(name, default) % max(rank, 1)


def _regroup(lowering: Lowering, view: View) -> View:
    """Merging heads into the last axis is said at once, in the module that does it.

    All axes as one are no heads: tokens and their experts, or the targets of a loss.
    """
    view = regroup(view, lowering.shape_of_output(), lowering.sizes)
    last = set(view.axes[-1]) if view.axes else set[Factor]()
    homes = [axis for axis in view.base if last & set(axis)]
    heads = len(homes) > 1 and len(view.axes) > 1
    return lowering.last_whole(view) if heads and not view.repeats else view


def _expand(lowering: Lowering, view: View) -> View:
    return expand(view, lowering.shape_of_output(), lowering.sizes)


def _transpose(lowering: Lowering, view: View) -> View:
    axes = list(view.axes)
    first = place_of(lowering, "dim0", len(axes))
    second = place_of(lowering, "dim1", len(axes))
    axes[first], axes[second] = axes[second], axes[first]
    return view.with_axes(axes)


def _t(lowering: Lowering, view: View) -> View:
    return view.with_axes(view.axes[::-1])


def _permute(lowering: Lowering, view: View) -> View:
    order = lowering.argument("dims")
    assert isinstance(order, tuple)
    return view.with_axes(view.axes[int(str(axis))] for axis in order)


def _unsqueeze(lowering: Lowering, view: View) -> View:
    axes = list(view.axes)
    axes.insert(place_of(lowering, "dim", len(axes) + 1), ())
    return view.with_axes(axes)


def _squeeze(lowering: Lowering, view: View) -> View:
    gone = place_of(lowering, "dim", len(view.axes))
    return view.with_axes(axis for i, axis in enumerate(view.axes) if i != gone or axis)


def _same(lowering: Lowering, view: View) -> View:
    return view


def _repeat(lowering: Lowering, view: View) -> View:
    """Tiling of axes of length 1, which is repetition."""
    shape = lowering.shape_of_output()
    rank = len(shape)
    old = (ONE,) * (rank - len(view.axes)) + view.shape(lowering.sizes)
    if any(before != after and before != ONE for before, after in zip(old, shape, strict=True)):
        raise Unspeakable("it tiles an axis that is longer than 1")
    return expand(view, shape, lowering.sizes)


def _interleaved(lowering: Lowering, view: View) -> View:
    """Every position as often as a number says, beside itself."""
    axis = place_of(lowering, "dim", len(view.axes))
    times = Factor.of(lowering.sizes.make(number(lowering.integer_of("repeats"))))
    return view.with_axes((*a, times) if i == axis else a for i, a in enumerate(view.axes))


def _select(lowering: Lowering, view: View) -> View:
    axis = place_of(lowering, "dim", len(view.axes), 0)
    index = as_dim(_size(lowering, "index"))
    if (index.constant or 0) < 0:
        index = view.shape(lowering.sizes)[axis] + index
    cut_out = cut(lowering, view, axis, index, index + 1)
    return cut_out.with_axes(each for i, each in enumerate(cut_out.axes) if i != axis)


def _slice(lowering: Lowering, view: View) -> View:
    axis = place_of(lowering, "dim", len(view.axes), 0)
    if lowering.integer_of("step", 1) != 1:
        return _every_other(lowering, view, axis)
    length = view.shape(lowering.sizes)[axis]
    taken = lowering.shape_of_output()[axis]
    if taken == length:
        return view
    start = start_of(lowering, length)
    return cut(lowering, view, axis, start, start + taken)


def start_of(lowering: Lowering, length: Dim) -> Dim:
    """Where a slice of an axis starts, counted from the front."""
    start = as_dim(_size(lowering, "start", 0))
    return length + start if (start.constant or 0) < 0 else start


def _every_other(lowering: Lowering, view: View, axis: int) -> View:
    """The even or the odd positions of an axis: one of each pair."""
    step, start = lowering.integer_of("step"), lowering.integer_of("start", 0)
    # Merged axes, as tokens and their experts, stay apart in the value.
    merged = any(len(each) > 1 for each in view.axes) and view.base[-1:] == view.axes[axis:][:1]
    view = view if merged and not view.repeats else lowering.materialize(view)
    length = view.shape(lowering.sizes)[axis]
    whole = lowering.integer_of("end", WHOLE) >= WHOLE
    if len(view.axes[axis]) != 1 or not whole or not divides(number(step), length):
        raise Unspeakable("it takes some positions of an axis, and pairs do not cover it")
    view = split(view, view.axes[axis][0], length / step, lowering.sizes)
    outer, inner = view.axes[axis]
    view = view.with_axes((*view.axes[:axis], (outer,), (inner,), *view.axes[axis + 1 :]))
    if merged:
        lowering.sizes.hint(outer.size, "D_ff", 3)
        base = (*view.base[:-1], (outer,), (inner,))
        view = View(lowering.lay_out(view, base), base, view.axes)
    apart = cut(lowering, view, axis + 1, number(start), number(start + 1))
    return apart.with_axes(each for i, each in enumerate(apart.axes) if i != axis + 1)


def _size(lowering: Lowering, name: str, default: int | None = None) -> Dim | int:
    argument = lowering.argument(name, default)
    if argument is None and default is not None:
        return default
    if isinstance(argument, bool) or not isinstance(argument, Dim | int):
        raise Unspeakable(f"its {name} is no size")
    return 0 if isinstance(argument, int) and abs(argument) >= WHOLE else argument


def cut(lowering: Lowering, view: View, place: int, start: Dim, stop: Dim) -> View:
    """Positions `start` … `stop` - 1 of an axis that is seen."""
    axis = view.axes[place]
    if not axis:
        if stop - start != ONE:
            raise Unspeakable("it takes more or less than all of an axis of length 1")
        return view
    if start == ZERO and stop == view.shape(lowering.sizes)[place]:
        return view
    if len(axis) != 1 or axis[0] in view.repeats:
        if len(axis) == 1:
            taken = (stop - start) / 1
            new: Axis = () if taken == ONE else (Factor.of(lowering.sizes.make(taken)),)
            return view.with_axes(new if i == place else each for i, each in enumerate(view.axes))
        axes = lowering.materialize(view)
        return cut(lowering, View.of(axes.value), place, start, stop)
    (factor,) = axis
    home = next(i for i, each in enumerate(view.base) if factor in each)
    if view.base[home][0] != factor:
        seen = lowering.materialize(view)
        return cut(lowering, View.of(seen.value), place, start, stop)
    return _cut(lowering, view, home, start, stop)


def _cut(lowering: Lowering, view: View, home: int, start: Dim, stop: Dim) -> View:
    """A stretch of the outermost factor of an axis of the value."""
    sizes = lowering.sizes
    factor, *inner = view.base[home]
    within = ONE
    for each in inner:
        within = within * sizes.dim(each.size)
    taken = stop - start
    stretch: Axis = () if taken == ONE else (Factor.of(sizes.make(taken)),)
    axis = (*stretch, *inner)
    value = _stretch(lowering, view.value, home, start * within, stop * within, axis)
    base = (
        view.base[:home] + ((axis,) if axis else ()) + view.base[home + 1 :]
        if len(value.axes) == len(view.base) or not axis
        else view.base
    )
    axes = tuple(
        tuple(each for part in group for each in (stretch if part == factor else (part,)))
        for group in view.axes
    )
    return View(value, base, axes)


def _stretch(
    lowering: Lowering, value: ModelValue, home: int, start: Dim, stop: Dim, axis: Axis
) -> ModelValue:
    first, behind = start.constant, stop.constant
    weight = lowering.weights.get(value)
    whole = weight is None or weight.start is not None or weight.source in lowering.whole
    if weight is not None and not whole and axis and first is not None and behind is not None:
        return _part_of_weight(lowering, value, Weight(weight.source, False, home, first, behind))
    last = home == len(value.axes) - 1
    part = _part_of_projection(lowering, value, start, stop, axis) if last and axis else None
    if part is not None:
        return part
    place = home - len(value.axes)
    if not axis:
        axes = [size for i, size in enumerate(value.axes) if i != home]
        return lowering.emit("pick", (value,), axes, kind=value.kind, axis=place, index=start)
    axes = list(value.axes)
    axes[home] = lowering.join(axis)
    return lowering.emit(
        "slice", (value,), axes, kind=value.kind, axis=place, start=start, stop=stop
    )


def _part_of_weight(lowering: Lowering, value: ModelValue, part: Weight) -> ModelValue:
    """A part of a parameter is a parameter; its other axes are those of the whole."""
    model_value = lowering.weight(part)
    for place, (mine, its) in enumerate(zip(model_value.axes, value.axes, strict=True)):
        if place != part.axis:
            lowering.sizes.equal(mine, its)
    return model_value


def _part_of_projection(
    lowering: Lowering, value: ModelValue, start: Dim, stop: Dim, axis: Axis
) -> ModelValue | None:
    """A part of a linear layer's result is the result of a part of its weights."""
    bias: Weight | None = None
    product = lowering.producer.get(value)
    if product is not None and product.operator == "⊕":
        spread = lowering.producer.get(product.data[1])
        if spread is None or spread.operator != "BC" or spread.data[0] not in lowering.weights:
            return None
        bias = lowering.weights[spread.data[0]]
        product = lowering.producer.get(product.data[0])
    first, last = start.constant, stop.constant
    if product is None or product.operator != "•" or first is None or last is None:
        return None
    weight = lowering.weights.get(product.data[1])
    side = len(product.data[1].axes) - (2 if weight is not None and weight.transposed else 1)
    if weight is None or weight.source in lowering.whole:
        return None
    if weight.start is not None and weight.axis != side:
        return None
    before = weight.start or 0
    part = Weight(weight.source, weight.transposed, side, before + first, before + last)
    part_weight = lowering.weight(part)
    outer = part_weight.axes[-1]
    for mine, its in zip(part_weight.axes[:-1], product.data[1].axes[:-1], strict=True):
        lowering.sizes.equal(mine, its)
    size = lowering.join(axis)
    if outer is None or size is None:
        return None
    lowering.sizes.equal(outer, size)
    lowering.sizes.hint(outer, "D_ff", 1)
    axes = (*value.axes[:-1], outer)
    result = lowering.emit("•", (product.data[0], part_weight), axes)
    if bias is None:
        return result
    before = bias.start or 0
    vector = Weight(bias.source, False, 0, before + first, before + last)
    return add_bias(lowering, result, lowering.weight(vector))


def add_bias(lowering: Lowering, value: ModelValue, bias: ModelValue) -> ModelValue:
    """A value plus a vector along its last axis."""
    size, own = value.axes[-1], bias.axes[-1]
    if size is None or own is None:
        raise Unspeakable("it adds along an axis of length 1")
    lowering.sizes.equal(size, own)
    main = View.of(value)
    _, spread = lowering.broadcast_together(main, View.of(bias))
    return lowering.emit("⊕", (value, spread), value.axes)


def pieces(lowering: Lowering) -> tuple[Known, ...]:
    """`split`, `chunk` and `unbind`: one result after the other."""
    known = lowering.known_of("self")
    if isinstance(known, Fixed):
        return _of_table(lowering, known)
    view = lowering.view(known)
    axis = place_of(lowering, "dim", len(view.axes), 0)
    unbound = lowering.call.target.startswith("aten.unbind")
    lengths = [ONE if unbound else lowering.shape(name)[axis] for name in lowering.call.outputs]
    first = lengths[0]
    if all(length == first for length in lengths) and len(view.axes[axis]) == 1 and not unbound:
        if any(view.axes[axis][0] in each[1:] for each in view.base):
            view = View.of(lowering.materialize(view).value)
        (factor,) = view.axes[axis]
        if factor not in view.repeats:
            try:
                view = split(view, factor, number(len(lengths)), lowering.sizes)
            except DimError:
                raise Unspeakable("its parts have no equal lengths") from None
            return tuple(_piece(lowering, view, axis, i) for i in range(len(lengths)))
    formulas: list[Known] = []
    start = number(0)
    for length in lengths:
        part = cut(lowering, view, axis, start, start + length)
        start = start + length
        if unbound:
            part = part.with_axes(each for i, each in enumerate(part.axes) if i != axis)
        formulas.append(part)
    return tuple(formulas)


def _of_table(lowering: Lowering, table: Fixed) -> tuple[Known, ...]:
    """The parts of a table of constants, each a slice or a row of it."""
    axis = place_of(lowering, "dim", len(table.shape), 0)
    start, parts = number(0), list[Known]()
    for name in lowering.call.outputs:
        if lowering.call.target.startswith("aten.unbind"):
            call: tuple[str, dict[str, Argument]] = ("select", {"index": start})
            stop = start + 1
        else:
            stop = start + lowering.shape(name)[axis]
            call = ("slice", {"start": start, "end": stop})
        rule, args = call
        lowering.fixed.call(name, rule, {"self": Ref(table.name), "dim": axis, **args})
        parts.append(Fixed(name, lowering.shape(name)))
        start = stop
    return tuple(parts)


def _piece(lowering: Lowering, view: View, place: int, index: int) -> View:
    """One of equal parts of an axis whose outer factor counts them."""
    outer, inner = view.axes[place]
    axes = [*view.axes[:place], (outer,), (inner,), *view.axes[place + 1 :]]
    part = cut(lowering, view.with_axes(axes), place, number(index), number(index + 1))
    return part.with_axes(each for i, each in enumerate(part.axes) if i != place)


RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "unflatten", "flatten"), _regroup),
    **dict.fromkeys(("expand", "expand_as"), _expand),
    **dict.fromkeys(
        ("contiguous", "clone", "detach", "alias", "lift_fresh_copy", "positive"), _same
    ),
    "transpose": _transpose,
    "swapaxes": _transpose,
    "t": _t,
    "numpy_T": _t,
    "permute": _permute,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "repeat": _repeat,
    "repeat_interleave": _interleaved,
    "select": _select,
    "slice": _slice,
}
