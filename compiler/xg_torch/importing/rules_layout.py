"""Layout calls: views, transposes, slices, and what puts tensors together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import ONE, ZERO, Dim, DimError, as_dim, number
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Argument, Ref
from xg_torch.importing.fixed import WHOLE, Blank, BlankPart, Condition, Fixed, Known, Mask
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.recognize import positions, put_together
from xg_torch.importing.views import (
    Axis,
    Factor,
    ModelStep,
    ModelValue,
    Size,
    View,
    Weight,
    divides,
    expand,
    regroup,
    split,
)

Rule = Callable[[Lowering, View], View]


def place_of(lowering: Lowering, name: str, rank: int, default: int | None = None) -> int:
    """An axis among the arguments, counted from the front."""
    return lowering.integer_of(name, default) % max(rank, 1)


def places_of(lowering: Lowering, rank: int) -> list[int]:
    """The axes that `dim` names, counted from the front; all of them if it names none."""
    argument = lowering.argument("dim")
    if argument is None or argument == ():
        return list(range(rank))
    listed = argument if isinstance(argument, tuple) else (argument,)
    return sorted(int(str(axis)) % rank for axis in listed)


def _regroup(lowering: Lowering, view: View) -> View:
    """Merging heads into the last axis is said at once, in the module that does it.

    All axes as one are no heads: tokens and their experts, or the targets of a loss.
    """
    view = regroup(view, lowering.shape_of_output(), lowering.sizes)
    last = set(view.axes[-1]) if view.axes else set[Factor]()
    homes = [axis for axis in view.base if last & set(axis)]
    heads = len(homes) > 1 and len(view.axes) > 1
    return lowering.isolate_last_axis(view) if heads and not view.repeats else view


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
    named, rank = lowering.argument("dim", tuple(range(len(view.axes)))), len(view.axes)
    listed = named if isinstance(named, tuple) else (named,)
    gone = {int(str(each)) % max(rank, 1) for each in listed}
    return view.with_axes(axis for i, axis in enumerate(view.axes) if i not in gone or axis)


def _identity(lowering: Lowering, view: View) -> View:
    return view


def _repeat(lowering: Lowering, view: View) -> View:
    """Tiling of axes of length 1, which is repetition."""
    shape = lowering.shape_of_output()
    rank = len(shape)
    old = (ONE,) * (rank - len(view.axes)) + view.shape(lowering.sizes)
    if any(before != after and before != ONE for before, after in zip(old, shape, strict=True)):
        raise Unspeakable("it tiles an axis that is longer than 1")
    return expand(view, shape, lowering.sizes)


def _interleave(lowering: Lowering, view: View) -> View:
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
        return _strided_slice(lowering, view, axis)
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


def _strided_slice(lowering: Lowering, view: View, axis: int) -> View:
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
        part = replace(weight, axis=home, start=first, stop=behind)
        return _part_of_weight(lowering, value, part)
    last = home == len(value.axes) - 1
    projected = _part_of_projection(lowering, value, start, stop, axis) if last and axis else None
    if projected is not None:
        return projected
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
    """Declare part of a parameter as a parameter; its other axes equal the whole's."""
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
    part = replace(weight, axis=side, start=before + first, stop=before + last)
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
    vector = replace(bias, axis=0, start=before + first, stop=before + last)
    return add_bias(lowering, result, lowering.weight(vector))


def add_bias(lowering: Lowering, value: ModelValue, bias: ModelValue) -> ModelValue:
    """A value plus a vector along its last axis."""
    size, own = value.axes[-1], bias.axes[-1]
    if (size is None) != (own is None):
        raise Unspeakable("it repeats a number along an axis, and a bias is as long as the axis")
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
    **dict.fromkeys(
        ("view", "view_as", "reshape", "reshape_as", "_unsafe_view", "unflatten", "flatten"),
        _regroup,
    ),
    **dict.fromkeys(("expand", "expand_as"), _expand),
    **dict.fromkeys(("contiguous", "clone", "alias", "lift_fresh_copy", "positive"), _identity),
    "transpose": _transpose,
    "swapaxes": _transpose,
    "t": _t,
    "numpy_T": _t,
    "permute": _permute,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "repeat": _repeat,
    "repeat_interleave": _interleave,
    "select": _select,
    "slice": _slice,
}


# Layout calls on a tensor in any form: of a mask, every part is laid out.


ALL_POSITIONS = "it indexes a tensor with other than all positions"


def laid_out(lowering: Lowering, name: str) -> Known:
    """`view`, `transpose`, `expand` … of a tensor or a mask."""
    rule, formula = RULES[name], lowering.known_of("self")
    if not isinstance(formula, Mask):
        return rule(lowering, lowering.view(formula))
    parts: list[Condition | Fixed] = []
    for place, part in enumerate(formula.parts):
        if isinstance(part, Condition):
            parts.append(Condition(rule(lowering, part.view), part.positive))
        else:
            part_name = f"{lowering.call.outputs[0]}.{place}"
            lowering.fixed.call(part_name, name, {**lowering.call.args, "self": Ref(part.name)})
            parts.append(Fixed(part_name, lowering.shape_of_output()))
    return Mask(tuple(parts), formula.negated, formula.form)


def index_layout(lowering: Lowering) -> Known:
    """Indexing a mask or integers along every axis with all positions, which is a layout."""
    formula, indices = lowering.known_of("self"), lowering.argument("indices")
    assert isinstance(indices, tuple)
    shape = lowering.shape_of_output()
    if not isinstance(formula, Mask):
        return _spread(lowering, lowering.view(formula), indices, shape)
    parts: list[Condition | Fixed] = []
    for part in formula.parts:
        if isinstance(part, Fixed):
            raise Unspeakable("it indexes a mask of constants")
        parts.append(Condition(_spread(lowering, part.view, indices, shape), part.positive))
    return Mask(tuple(parts), formula.negated, formula.form)


def _spread(
    lowering: Lowering, view: View, indices: Sequence[Argument], shape: Sequence[Dim]
) -> View:
    """Every axis where the positions that index it run."""
    if len(indices) != len(view.axes):
        raise Unspeakable(ALL_POSITIONS)
    axes: list[Axis] = [() for _ in shape]
    for axis, index in zip(view.axes, indices, strict=True):
        spread = None if index is None else positions(lowering, lowering.look(index))
        if spread is None:
            raise Unspeakable(ALL_POSITIONS)
        own = [place for place, each in enumerate(spread.axes) if each == spread.base[0]]
        counted = lowering.sizes.dim(spread.base[0][0].size)
        same = counted == view.with_axes([axis]).shape(lowering.sizes)[0]
        if not own or not same or lowering.producer[spread.value].attrs["start"]:
            raise Unspeakable(ALL_POSITIONS)
        axes[own[0] + len(shape) - len(spread.axes)] = axis
    return view.with_axes(axes)


# Tensors put one after the other: `cat` and `stack`.


def concatenate(lowering: Lowering) -> View:
    """`cat`: operands laid out as they are seen."""
    items = lowering.argument("tensors")
    assert isinstance(items, tuple)
    whole = [item for item in items if not _is_empty(lowering, item)]
    if len(whole) == 1:
        return lowering.view(lowering.look(whole[0]))
    return _join_items(lowering, whole, stacked=False)


def stack(lowering: Lowering) -> View:
    """`stack`: operands one after the other along a new axis."""
    items = lowering.argument("tensors")
    assert isinstance(items, tuple)
    return _join_items(lowering, items, stacked=True)


def _join_items(lowering: Lowering, items: Sequence[Argument], *, stacked: bool) -> View:
    known = [lowering.look(item) for item in items]
    shape = lowering.shape_of_output()
    axis = place_of(lowering, "dim", len(shape), 0)
    if axis == len(shape) - 1 and (turned := put_together(lowering, known, beside=stacked)):
        return turned
    views = [lowering.view(each) for each in known]
    if stacked:
        views = [view.with_axes((*view.axes[:axis], (), *view.axes[axis:])) for view in views]
    return View.of(joined(lowering, views, axis, lowering.sizes.make(shape[axis])))


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
    axes[axis] = _source_axis(lowering, values, place)
    if axes[axis] is None:
        axes[axis] = length
    value = lowering.emit("C", values, axes, kind=values[0].kind, axis=place)
    if place == -1:
        lowering.joined[value] = tuple(views)
    return value


def _is_empty(lowering: Lowering, item: Argument) -> bool:
    """Whether an operand has an axis of length 0, as a slice of nothing."""
    return isinstance(item, Ref) and any(dim.constant == 0 for dim in lowering.shape(item.name))


def _source_axis(lowering: Lowering, parts: Sequence[ModelValue], place: int) -> Size | None:
    """Return the axis that the parts were cut from, if they cover it in order; else None."""
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


# Tensors that a model makes without numbers and writes part by part: `new_empty`, `copy_`.


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
        lowering.known[known.name] = _join_parts(lowering, Blank(whole.shape, written))
    return view


def _meet(one: BlankPart, other: BlankPart) -> bool:
    """Whether two stretches are not certain to be apart."""
    gaps = (one.start - other.start - other.length, other.start - one.start - one.length)
    return one.axis != other.axis or all(
        (gap.constant or 0) < 0 or None is gap.constant for gap in gaps
    )


def _join_parts(lowering: Lowering, blank: Blank) -> Known:
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
