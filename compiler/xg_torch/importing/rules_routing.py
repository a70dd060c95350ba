"""Routed experts: a model computes k of them for each token, the diagram says the sum over all.

The weight of an expert that was not chosen is 0, so that both are the same sum. A model picks the
matrices of each token's experts by their numbers (`index`), multiplies, and adds k rows up; until
then its rows are `Routed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import ONE, Dim, number, product
from xg_torch.importing import rules_elementwise as elementwise
from xg_torch.importing import rules_layout as layout
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Ref, reads
from xg_torch.importing.fixed import HIDDEN, Chosen, Fixed, Known, Routed
from xg_torch.importing.lowering import Lowering, number_text
from xg_torch.importing.recognize import single
from xg_torch.importing.rules_product import project, reduce_axes
from xg_torch.importing.views import (
    Axis,
    Factor,
    ModelValue,
    Size,
    View,
    Weight,
    WrittenOperator,
    align,
    divides,
    factor_pairs,
    length,
    split,
)

# A choice by `topk` as numbers of its own: 1 at what was chosen, hiding the rest; and `gather`.
#
# A model marks the best groups of experts by `scatter`, spreads the marks over the experts of each
# group, and hides the scores of all others; the diagram picks the groups in one operator.


SAME: Final = frozenset({"to", "_to_copy", "type_as", "contiguous", "clone"})
SIGNATURE: Final = "(s [.., N_gr, n], j [.., k] in N_gr)"
WITHIN: Final = """select(sum[k](hits) > 0, s, {})
    where hits = select(equal(range[N_gr], j), 1, 0)"""


def chosen(lowering: Lowering, name: str, operands: Sequence[Known]) -> Known | None:
    """The result of a call on a choice, or of one that picks by it; None for any other call."""
    if name in ("scatter", "scatter_"):
        return _marks(lowering)
    if name == "gather":
        return _gather_numbers(lowering)
    marks = [each for each in operands if isinstance(each, Chosen)]
    if not marks:
        return None
    if name in SAME:
        return marks[0]
    if name in ("bitwise_not", "logical_not"):
        return replace(marks[0], negated=not marks[0].negated)
    if name in layout.RULES:
        return _laid_out(lowering, name, marks[0])
    if name in ("masked_fill", "masked_fill_") and marks[0] is operands[-1]:
        return _mask_groups(lowering, marks[0])
    raise Unspeakable("it computes with which were chosen")


def _picks(lowering: Lowering) -> View:
    """The operand `index`: what a topk has chosen along the last axis."""
    index = lowering.known_of("index")
    rank = len(lowering.shape_of_output())
    last = layout.place_of(lowering, "dim", rank) == rank - 1
    if not isinstance(index, View) or lowering.made_by(index, "topk") is None or not last:
        raise Unspeakable("its indices are not what topk chose along the last axis")
    return index


def _marks(lowering: Lowering) -> Chosen:
    """1 at what was chosen, in zeros."""
    index = _picks(lowering)
    one = lowering.argument("value")
    if single(lowering, lowering.known_of("self")) != 0 or one != 1:
        raise Unspeakable("it scatters other than ones into zeros")
    size = lowering.ranges[index.value]
    *front, last = lowering.shape_of_output()
    if [*index.shape(lowering.sizes)[:-1], lowering.sizes.dim(size)] != [*front, last]:
        raise Unspeakable("it scatters into another shape than was chosen from")
    of = Factor.of(size)
    return Chosen(index.with_axes((*index.axes[:-1], (of,))), of)


def _laid_out(lowering: Lowering, name: str, marks: Chosen) -> Chosen:
    made = layout.RULES[name](lowering, marks.view)
    same = made.value is marks.view.value and marks.of in made.repeats
    if not same or made.base != marks.view.base:
        raise Unspeakable("it lays out which were chosen")
    return replace(marks, view=made)


def _mask_groups(lowering: Lowering, marks: Chosen) -> View:
    """Return the scores with a hiding number for all outside the chosen groups."""
    fill = lowering.number_of("value")
    if not marks.negated:
        raise Unspeakable("it hides what was chosen")
    if fill > HIDDEN:
        raise Unspeakable("it fills with a number that does not hide scores")
    scores, view = align(lowering.view_of("self"), marks.view, lowering.sizes)
    pairs = factor_pairs(view, scores)
    groups = pairs.get(marks.of)
    inside: Axis = tuple(pairs[each] for each in pairs if each in view.repeats - {marks.of})
    if groups is None or scores.repeats or len(inside) != 1:
        raise Unspeakable("what was chosen are not groups of its scores")
    its = {mine: each for each, mine in pairs.items()}
    front = [f for axis in scores.base for f in axis if f not in (groups, *inside)]
    if any(its.get(f) in (None, *view.repeats) for f in front):
        raise Unspeakable("it hides more than one choice was made for")
    s = lowering.lay_out(scores, (*((f,) for f in front), (groups,), inside))
    j = lowering.lay_out(view, (*((its[f],) for f in front), view.base[-1]))
    lowering.sizes.equal(groups.size, marks.of.size)
    lowering.sizes.hint(groups.size, "N_gr", 10)
    lowering.sizes.hint(lowering.join(view.base[-1]) or groups.size, "k_gr", 10)
    hiding = "-inf" if fill == -math.inf else number_text(fill)
    within = WrittenOperator("Within", SIGNATURE, WITHIN.format(hiding))
    count = product(lowering.sizes.dim(factor.size) for factor in view.base[-1])
    left = lowering.sizes.dim(inside[0].size) * count
    value = lowering.emit("defined", (s, j), s.axes, definition=within, box=(), left=left)
    return View(value, (*((f,) for f in front), (groups,), inside), scores.axes)


def left(lowering: Lowering, view: View) -> Dim | None:
    """Return how many numbers of the last axis a choice of groups leaves; None without one."""
    step = lowering.producer.get(view.value)
    while step is not None and step.operator == "R":
        step = lowering.producer.get(step.data[0])
    return None if step is None else step.attrs.get("left")


def _gather_numbers(lowering: Lowering) -> View:
    """Numbers along the last axis, at the places that were chosen."""
    index = _picks(lowering)
    numbers = lowering.isolate_last_axis(lowering.view_of("self"))
    count = index.axes[-1]
    lowering.sizes.equal(numbers.value.axes[-1], lowering.ranges[index.value])
    rows, places = align(
        numbers.with_axes(numbers.axes[:-1]), index.with_axes(index.axes[:-1]), lowering.sizes
    )
    pairs = factor_pairs(rows, places)
    front = tuple(tuple(pairs[factor] for factor in axis) for axis in rows.base[:-1])
    if rows.repeats or places.repeats:
        raise Unspeakable("it picks from other rows than were chosen from")
    ids = lowering.lay_out(places, (*front, count))
    axes = (*rows.value.axes[:-1], lowering.join(count))
    value = lowering.emit("gather", (rows.value, ids), axes, over=(-1,))
    return View(value, (*rows.base[:-1], count), (*rows.axes, count))


BY_SHAPE: Final = frozenset({"view", "reshape", "_unsafe_view", "unflatten", "flatten", "expand"})
UNCHANGED: Final = frozenset({"to", "_to_copy", "type_as", "contiguous", "clone", "dropout"})
ELEMENTWISE: Final = {
    **{name: elementwise.function(name) for name in ("silu", "relu", "sigmoid", "tanh")},
    "silu_": elementwise.function("silu"),
    "gelu": elementwise.gelu,
    **dict.fromkeys(("add", "add_"), elementwise.add),
    "mul": elementwise.multiply,
    "clamp": elementwise.clamp,
    **dict.fromkeys(("chunk", "split"), layout.pieces),
}


def top(lowering: Lowering) -> tuple[Known, Known]:
    """`topk` of the last axis: the values, and where they are."""
    view = lowering.view_of("self")
    last = layout.place_of(lowering, "dim", len(view.axes), -1) == len(view.axes) - 1
    if not last or not lowering.argument("largest", True):
        raise Unspeakable("it takes the least, or along an axis that is not the last")
    if not view.axes[-1]:
        return view, _only(lowering)
    view = lowering.isolate_last_axis(view)
    experts = lowering.join(view.axes[-1])
    k = lowering.integer_of("k")
    count = lowering.sizes.make(number(k))
    assert experts is not None
    _refuse_hidden(lowering, view, k)
    if not lowering.sizes.is_part(experts):
        lowering.sizes.hint(experts, "N_E", 9)
        lowering.sizes.hint(count, "k", 9)
    axes = (*view.value.axes[:-1], count)
    places = ModelValue(axes, "int")
    values = lowering.emit("topk", (view.value,), axes, also=(places,))
    lowering.ranges[places] = experts
    tail: Axis = (Factor.of(count),)
    base, seen = (*view.base[:-1], tail), (*view.axes[:-1], tail)
    return View(values, base, seen), View(places, base, seen)


def _only(lowering: Lowering) -> Fixed:
    """The place that is chosen of a single one, such as one group of all experts."""
    name, shape = lowering.call.outputs[1], lowering.shape_of_output(1)
    lowering.fixed.call(name, "full", {"size": tuple(shape), "fill_value": 0})
    return Fixed(name, shape)


def _refuse_hidden(lowering: Lowering, view: View, k: int) -> None:
    """Refuse to choose more than what a choice of groups has left: which else is up to torch."""
    several = left(lowering, view)
    if several is not None and several.constant is not None and several.constant < k:
        raise Unspeakable(
            f"it chooses {k} of {several} experts: those in the groups that were chosen first",
            "the configuration has num_experts_per_tok at most "
            "topk_group * n_routed_experts / n_group",
        )


def route_call(
    lowering: Lowering, name: str, operands: Sequence[Known]
) -> Known | tuple[Known, ...] | None:
    """The result of a call on routed rows, or of one that picks experts; None for any other."""
    rows = [each for each in operands if isinstance(each, Routed)]
    if name == "index" and not rows:
        return _pick_experts(lowering)
    if not rows:
        return None
    first = rows[0]
    if any(each.chosen != first.chosen or each.shares for each in rows[1:]):
        raise Unspeakable("it joins what differently chosen experts give")
    if name in UNCHANGED:
        return first
    if name in ("bmm", "matmul"):
        return _product(lowering, first)
    if name == "sum":
        return _added_up(lowering, first)
    if name in ("mul", "mul_") and len(rows) == 1 and len(operands) == 2:
        return _weigh_rows(lowering, first)
    if name in layout.RULES:
        return _layout_of_rows(lowering, name, first)
    if name in ELEMENTWISE:
        return _computed(lowering, name, first)
    raise Unspeakable("it computes with the rows of single experts")


def _pick_experts(lowering: Lowering) -> Routed | None:
    """The matrices of the experts of each token: a table that a choice of experts indexes."""
    table, indices = lowering.known_of("self"), lowering.argument("indices")
    if not isinstance(table, View) or not isinstance(indices, tuple) or len(indices) != 1:
        return None
    chosen = lowering.look(indices[0])
    if not isinstance(chosen, View) or lowering.made_by(chosen, "topk") is None:
        return None
    if not table.plain or table.value.axes[0] is None:
        raise Unspeakable("it picks experts from what is no parameter")
    lowering.sizes.equal(table.value.axes[0], lowering.ranges[chosen.value])
    (expert,) = table.base[0]
    slot = chosen.base[-1]
    front = [tuple(expert if (f,) == slot else f for f in axis) for axis in chosen.axes]
    return Routed(table.with_axes((*front, *table.axes[1:])), expert, chosen)


def _product(lowering: Lowering, rows: Routed) -> Routed:
    """Every token times the matrix of each expert: ``W[e] x`` of columns, ``x W[e]`` of rows."""
    one = lowering.known_of("self")
    two = lowering.known_of("other" if "other" in lowering.call.args else "mat2")
    column = isinstance(one, Routed) and one.view.value in lowering.weights
    matrix, vector = (one, two) if column else (two, one)
    if not isinstance(matrix, Routed) or matrix.view.value not in lowering.weights:
        raise Unspeakable("it multiplies what experts give by what is no matrix of theirs")
    seen, expert = _expand_to_experts(lowering, vector, rows)
    if len(seen.axes) != 3 or len(matrix.view.axes) != 3 or seen.axes[2 if column else 1]:
        raise Unspeakable("it multiplies more than one row by the matrix of an expert")
    inner = seen.axes[1 if column else 2]
    front = _expert_inside([factor for factor in seen.axes[0] if factor != expert], expert)
    x = lowering.lay_out(seen, (*front, inner))
    weight = matrix.view.value
    stored = lowering.weights[weight]
    if column and stored.source in lowering.turned:
        weight = lowering.weight(replace(stored, transposed=True))
    elif column:
        plain = View.of(weight)
        weight = lowering.lay_out(plain, (plain.axes[0], plain.axes[2], plain.axes[1]))
    for mine, its in zip(weight.axes[:2], (expert.size, lowering.join(inner)), strict=True):
        lowering.sizes.equal(mine, its)
    outer = weight.axes[2]
    if outer is None:
        raise Unspeakable("it has an axis of length 1, which is not named")
    lowering.sizes.hint(outer, "D_ff", 1)
    value = lowering.emit("•", (x, weight), (*x.axes[:-1], outer))
    tail: Axis = (Factor.of(outer),)
    axes = (seen.axes[0], tail, ()) if column else (seen.axes[0], (), tail)
    return Routed(View(value, (*front, tail), axes), expert, rows.chosen)


def _expert_inside(tokens: Sequence[Factor], expert: Factor) -> list[Axis]:
    """The axes of all experts' rows: [B, N_E, S]."""
    return [(factor,) for factor in (*tokens[:-1], expert, *tokens[-1:])]


def _expand_to_experts(lowering: Lowering, known: Known, rows: Routed) -> tuple[View, Factor]:
    """Rows of all experts, and the factor that counts them; a token is the same for each."""
    if isinstance(known, Routed):
        return known.view, known.expert
    seen, slot = _align_to_choice(lowering, lowering.view(known), rows)
    if slot not in seen.repeats:
        raise Unspeakable("what it multiplies by the matrices of experts are no tokens")
    expert = Factor.of(rows.expert.size)
    return seen.with_axes(_exchange_factor(seen.axes, slot, expert)), expert


def _exchange_factor(axes: Sequence[Axis], old: Factor, new: Factor) -> list[Axis]:
    return [tuple(new if factor == old else factor for factor in axis) for axis in axes]


def _align_to_choice(lowering: Lowering, view: View, rows: Routed) -> tuple[View, Factor]:
    """A view whose first axis has the factors of the choice, and its factor of the k chosen."""
    first, *others = view.axes
    if len(rows.chosen.axes) != 1:
        raise Unspeakable("its experts are chosen for more than one axis of tokens")
    chosen = rows.chosen.with_axes((*rows.chosen.axes, *(() for _ in others)))
    seen, aligned = align(view.with_axes((first, *others)), chosen, lowering.sizes)
    place = aligned.axes[0].index(rows.chosen.base[-1][0])
    return seen, seen.axes[0][place]


def _weigh_rows(lowering: Lowering, rows: Routed) -> Routed:
    """Rows times the weights of their experts, one number for each."""
    a, b = lowering.known_of("self"), lowering.known_of("other")
    seen, slot = _align_to_choice(lowering, lowering.view(b if isinstance(a, Routed) else a), rows)
    if rows.shares is not None or any(seen.axes[1:]) or seen.repeats:
        raise Unspeakable("it weighs experts by more than one number for each")
    tokens = [(factor,) for factor in seen.axes[0] if factor != slot]
    value = lowering.lay_out(seen, (*tokens, (slot,)))
    return replace(rows, shares=View.of(value))


def _added_up(lowering: Lowering, rows: Routed) -> View:
    """``Σ_n G[n] y[n]``: G is the weight of an expert where it was chosen, 0 elsewhere."""
    view, dims = rows.view, lowering.argument("dim")
    place = int(str(dims[0])) % len(view.axes) if isinstance(dims, tuple) and len(dims) == 1 else 0
    if view.axes[place] != (rows.expert,) or place != len(view.axes) - 2 or rows.shares is None:
        raise Unspeakable("it adds up other rows than the weighed ones of the experts of a token")
    tail = view.axes[-1]
    tokens = [factor for axis in view.axes[:place] for factor in axis]
    y = lowering.lay_out(view, (*_expert_inside(tokens, rows.expert), tail))
    chosen = rows.chosen.base[-1]
    its = [(f,) for axis in rows.chosen.axes for f in axis if (f,) != chosen]
    ids = lowering.lay_out(rows.chosen, (*its, chosen))
    shares = rows.shares.value
    axes = (*shares.axes[:-1], rows.expert.size)
    scattered = View.of(lowering.emit("scatter", (shares, ids), axes, over=(-1,)))
    *outer, inner, experts = scattered.base
    gates = lowering.lay_out(scattered, (*outer, experts, inner))
    for mine, token in zip(gates.axes, y.axes, strict=False):
        lowering.sizes.equal(mine, token)
    front = ", ".join((*("BCA"[: len(tokens) - 1]), "N_E", "S"))
    mix = WrittenOperator("Mix", f"(y [{front}, D], G [{front}])", "sum[N_E](y*G)")
    sizes = [factor.size for factor in tokens]
    value = lowering.emit("defined", (y, gates), (*sizes, y.axes[-1]), definition=mix, box=())
    seen = [axis for i, axis in enumerate(view.axes) if i != place]
    return View(value, (*((f,) for f in tokens), tail), tuple(seen))


def _layout_of_rows(lowering: Lowering, name: str, rows: Routed) -> Known | tuple[Known, ...]:
    """A layout of rows; where torch counts them, there are k."""
    if name not in BY_SHAPE:
        return _computed(lowering, name, rows)
    slot = Factor.of(rows.chosen.base[-1][0].size)
    seen = rows.view.with_axes(_exchange_factor(rows.view.axes, rows.expert, slot))
    made = layout.RULES[name](lowering, seen)
    if slot not in made.repeats:
        raise Unspeakable("it lays out the rows of single experts")
    return replace(rows, view=made.with_axes(_exchange_factor(made.axes, slot, rows.expert)))


def _computed(lowering: Lowering, name: str, rows: Routed) -> Known | tuple[Known, ...]:
    """A call that does to each row the same: it is done for all experts."""
    order = [factor for axis in rows.view.axes for factor in axis]
    before = {
        each: known
        for each in reads(lowering.call.args)
        if isinstance(known := lowering.known[each], Routed)
    }
    lowering.known |= {each: known.view for each, known in before.items()}
    try:
        if name in layout.RULES:
            made: object = layout.RULES[name](lowering, rows.view)
        else:
            made = ELEMENTWISE[name](lowering)
    finally:
        lowering.known |= before
    results: list[Known] = []
    for each in made if isinstance(made, tuple) else (made,):
        view = lowering.view(each)
        flat = [factor for axis in view.axes for factor in axis]
        expert = rows.expert if rows.expert in flat else flat[order.index(rows.expert)]
        if expert not in {factor for axis in view.base for factor in axis}:
            raise Unspeakable("it repeats the rows of single experts")
        results.append(replace(rows, view=view, expert=expert))
    return tuple(results) if isinstance(made, tuple) else results[0]


# Windows of axes that may overlap: convolutions, pooling, and repeated positions.
#
# torch has channels before places and the legend behind them: a tensor is laid out once, where it
# comes in, and is seen as torch sees it from there on.


# Convolutions whose windows do not overlap: patches laid out by R, and a product.


PLACES: Final = "HW"  # names of the axes of a picture


def in_patches(lowering: Lowering, view: View, stored: Weight, kernel: Sequence[int]) -> View:
    """``x -> R : [B, h, w, (c, p, q)] -> •<=W``, where each window begins where the last one ends.

    The kernel [d, c, p, q] becomes a matrix [c p q, d].
    """
    view, outer, inner = _windows(lowering, view, kernel)
    channels = view.axes[1]
    if len(channels) == 1 and len(kernel) > 1:
        lowering.sizes.hint(channels[0].size, "C_in", 3)
    patches = view.with_axes(
        (view.axes[0], *outer, (*channels, *(factor for axis in inner for factor in axis)))
    )
    matrix = lowering.weight(replace(stored, transposed=True, flat=True))
    product = project(lowering, patches, matrix, lowering.argument("bias"))
    first, *places, last = product.axes
    return product.with_axes((first, last, *places))


def _windows(
    lowering: Lowering, view: View, kernel: Sequence[int]
) -> tuple[View, list[Axis], list[Axis]]:
    """A view whose places are taken apart: which window, and where in it."""
    for place, size in enumerate(kernel, 2):
        axis = view.axes[place]
        if size == 1 or not axis:
            continue
        if len(axis) != 1 or axis[0] in view.repeats:
            view = View.of(lowering.materialize(view).value)
            axis = view.axes[place]
        length = lowering.sizes.dim(axis[0].size)
        if not divides(number(size), length):
            raise Unspeakable(f"its windows of {size} do not cover an axis of {length}")
        if length != number(size):
            if not lowering.sizes.is_part(axis[0].size):  # else it follows from what it is part of
                lowering.sizes.hint(axis[0].size, PLACES[place - 2 : place - 1] or "S", 4)
            view = split(view, axis[0], length / size, lowering.sizes)
            lowering.sizes.hint(view.axes[place][-1].size, "P", 3)
    outer: list[Axis] = []
    inner: list[Axis] = []
    for axis, size in zip(view.axes[2:], kernel, strict=True):
        whole = size == 1
        outer.append(axis if whole else axis[:-1])
        inner.append(() if whole else axis[-1:])
    return view, outer, inner


WINDOW_PLACES: Final = {1: "S", 2: "HW"}  # names of the axes that windows are along


def convolution(lowering: Lowering) -> View:
    """A product with patches where they lie side by side, else `conv`."""
    view = lowering.view_of("input")
    weight = lowering.known_of("weight")
    stored = lowering.weights.get(weight.value) if isinstance(weight, View) else None
    if not isinstance(weight, View) or not weight.plain or stored is None:
        raise Unspeakable("its kernel is no parameter")
    if stored.start is not None or stored.transposed:
        raise Unspeakable("its kernel is no parameter as it lies")
    widths = lowering.exported.arrays[stored.source].shape[2:]
    count = len(widths)
    stride = _numbers(lowering, "stride", count, 1)
    dilation = _numbers(lowering, "dilation", count, 1)
    padding = _padding(lowering, widths, stride, dilation)
    groups = lowering.integer_of("groups", 1)
    lengths = view.shape(lowering.sizes)[-count:]
    beside = list(widths) == stride and not any(padding) and groups == 1
    whole = all(d == 1 or k == 1 for d, k in zip(dilation, widths, strict=True))
    if beside and whole and len(view.axes) == count + 2:
        fits = all(divides(number(k), n) for k, n in zip(widths, lengths, strict=True))
        free = any(n.constant is None for n in lengths)
        if fits or free or count > len(WINDOW_PLACES):
            return in_patches(lowering, view, stored, widths)
    if count not in WINDOW_PLACES:
        raise Unspeakable("it is a convolution along three axes, which has no operator")
    words = {
        "stride": _common_number(lowering, stride, 1),
        "pad": _common_number(lowering, padding, 0),
        "dilation": _common_number(lowering, dilation, 1),
    }
    return _convolve(lowering, view, stored, groups, words)


def _convolve(
    lowering: Lowering, view: View, stored: Weight, groups: int, words: dict[str, str]
) -> View:
    """``conv[H, W](K, b, stride=2, pad=1)`` with a kernel [k, .., C/groups, D]."""
    kernel = lowering.weight(replace(stored, kernel=True))
    count = len(kernel.axes) - 2
    front, channels, places = view.axes[: -count - 1], view.axes[-count - 1], view.axes[-count:]
    hint_places(lowering, places)
    value = lowering.lay_out(view, (*front, *places, channels))
    attrs: dict[str, Any] = {}
    each = value.axes[-1]
    if each is not None and groups > 1:
        attrs["groups"] = (each,)
        if kernel.axes[-2] is not None:
            parts = lowering.sizes.split(each, number(groups))
            lowering.sizes.hint(parts[0], "N_G", 3)
            attrs["groups"], each = parts[:1], parts[1]
    lowering.sizes.equal(each, kernel.axes[-2])
    own = [kernel]
    if lowering.argument("bias") is not None:
        bias = lowering.view_of("bias")
        if not bias.plain or bias.value.param is None:
            raise Unspeakable("its bias is no parameter")
        own.append(bias.value)
        lowering.sizes.equal(bias.value.axes[0], kernel.axes[-1])
    last: Axis = () if kernel.axes[-1] is None else (Factor.of(kernel.axes[-1]),)
    return _emit(lowering, "conv", value, front, places, last, words=words, own=own, **attrs)


def _emit(
    lowering: Lowering,
    operator: str,
    value: ModelValue,
    front: Sequence[Axis],
    places: Sequence[Axis],
    channels: Axis,
    *,
    words: dict[str, str],
    own: Sequence[ModelValue] = (),
    **attrs: Any,  # noqa: ANN401 - as in emit
) -> View:
    """A node along places, as torch sees what it gives: channels before places."""
    count = len(places)
    dims = lowering.shape_of_output()[-count:]
    after: list[Axis] = []
    for axis, dim in zip(places, dims, strict=True):
        before = length(axis, lowering.sizes)
        if operator == "upsample" and dim != ONE:
            after.append((*axis, Factor.of(lowering.sizes.make(dim / before))))
        elif before == dim:
            after.append(axis)
        else:
            after.append(() if dim == ONE else (Factor.of(lowering.sizes.make(dim)),))
    hint_places(lowering, after)
    base = (*front, *after, channels)
    axes: list[Size | None] = [lowering.join(axis) for axis in base]
    said = [text if name == "k" else f"{name}={text}" for name, text in words.items() if text]
    attrs["along"] = tuple(range(-count - 1, -1))
    made = lowering.emit(operator, (value,), axes, own=own, words=tuple(said), **attrs)
    return View(made, base, (*front, channels, *after))


def hint_places(lowering: Lowering, places: Sequence[Axis]) -> None:
    """Name the axes that windows are along, but for those that follow from a patch's."""
    for axis, word in zip(places, WINDOW_PLACES[len(places)], strict=True):
        if len(axis) == 1 and not lowering.sizes.is_part(axis[0].size):
            lowering.sizes.hint(axis[0].size, word, 4)


def pooling(operator: str) -> Callable[[Lowering], View]:
    """`maxpool` and `meanpool`; windows that differ between axes are pooled one after the other."""

    def rule(lowering: Lowering) -> View:
        count = int(lowering.call.target.partition("pool")[2][0])
        view = lowering.view_of("self")
        k = _numbers(lowering, "kernel_size", count, 1)
        stride = _numbers(lowering, "stride", count, 0)
        stride = k if not any(stride) else stride
        pad = _numbers(lowering, "padding", count, 0)
        dilation = _numbers(lowering, "dilation", count, 1)
        if lowering.argument("ceil_mode", False):
            raise Unspeakable(
                "its last window may end beyond the axis (ceil_mode), and those of the language "
                "end within it",
                "pad the axis, and leave out ceil_mode",
            )
        if any(pad) and not lowering.argument("count_include_pad", True):
            raise Unspeakable(
                "it leaves padding out of its means (count_include_pad=False), and zeros count in "
                "a meanpool"
            )
        if lowering.argument("divisor_override") is not None:
            raise Unspeakable("it divides by another number than that of its window")
        front, channels, places = view.axes[: -count - 1], view.axes[-count - 1], view.axes[-count:]
        hint_places(lowering, places)
        value = lowering.lay_out(view, (*front, *places, channels))
        words = {
            "k": _common_number(lowering, k, 0),
            "stride": "" if stride == k else _common_number(lowering, stride, 0),
            "pad": _common_number(lowering, pad, 0),
            "dilation": _common_number(lowering, dilation, 1),
        }
        return _emit(lowering, operator, value, front, places, channels, words=words)

    return rule


def whole_mean(lowering: Lowering) -> View:
    """`adaptive_avg_pool2d` to one position: the mean of all."""
    size = lowering.argument("output_size")
    sizes = size if isinstance(size, tuple) else (size,)
    if any(each != 1 for each in sizes):
        raise Unspeakable("it pools to more than one position, by windows of several widths")
    view = lowering.view_of("self")
    count = int(lowering.call.target.partition("pool")[2][0])
    rank = len(view.axes)
    hint_places(lowering, view.axes[-count:])
    return reduce_axes(lowering, "mean", view, list(range(rank - count, rank)), keep=True)


def upsample(lowering: Lowering) -> View:
    """Each position repeated as often along each axis."""
    view = lowering.view_of("input" if "input" in lowering.call.args else "self")
    count = len(view.axes) - 2
    front, channels, places = view.axes[:1], view.axes[1], view.axes[2:]
    before, after = view.shape(lowering.sizes)[2:], lowering.shape_of_output()[2:]
    times = {
        (new / old).constant if divides(old, new) else None
        for old, new in zip(before, after, strict=True)
    }
    k = next(iter(times))
    if len(times) > 1 or k is None or count not in WINDOW_PLACES:
        raise Unspeakable("it does not repeat each position as often along each axis")
    hint_places(lowering, places)
    value = lowering.lay_out(view, (*front, *places, channels))
    return _emit(lowering, "upsample", value, front, places, channels, words={"k": str(k)})


def _padding(
    lowering: Lowering, widths: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """The zeros at both ends of each axis."""
    word = lowering.argument("padding", 0)
    if word == "valid":
        return [0] * len(widths)
    if word != "same":
        return _numbers(lowering, "padding", len(widths), 0)
    reach = [d * (k - 1) for d, k in zip(dilation, widths, strict=True)]
    if any(each % 2 for each in reach) or any(each != 1 for each in stride):
        raise Unspeakable("its padding is not the same at both ends of an axis")
    return [each // 2 for each in reach]


def _numbers(lowering: Lowering, name: str, count: int, default: int) -> list[int]:
    """An argument for each axis; one number is for all."""
    argument = lowering.argument(name, default)
    listed = list(argument) if isinstance(argument, tuple) else [argument]
    numbers = [each for each in listed or [default] if isinstance(each, int)]
    if len(numbers) not in (1, count) or len(listed) > len(numbers):
        raise Unspeakable(f"its {name} is no list of numbers")
    return numbers * count if len(numbers) == 1 else numbers


def _common_number(lowering: Lowering, numbers: Sequence[int], default: int) -> str:
    """The number that is the same for all axes, or nothing where it is the default."""
    if len(set(numbers)) > 1:
        name = lowering.call.target.split(".")[1]
        raise Unspeakable(
            f"its numbers differ between axes ({numbers}), and {name} has one of each"
        )
    return "" if numbers[0] == default else str(numbers[0])


# Batch normalization by running statistics: of a model in evaluation.


OWN: Final = ("weight", "bias", "running_mean", "running_var")


def batch_norm(lowering: Lowering) -> View:
    """``BN(γ, β, μ, v)`` over all axes but the channels, which torch has second."""
    if lowering.argument("training", False):
        raise Unspeakable(
            "it is in training, where its running statistics change as it runs",
            "export the model in evaluation, model.eval(): the diagram's BN has both",
        )
    view = lowering.view_of("input")
    front, channels, places = view.axes[:1], view.axes[1], view.axes[2:]
    if len(places) in (1, 2):
        hint_places(lowering, places)
    value = lowering.lay_out(view, (*front, *places, channels))
    given = {name: _parameter(lowering, name) for name in OWN}
    own = {name: each for name, each in given.items() if each is not None}
    if len(own) < len(OWN) and "weight" in own:
        raise Unspeakable("it has no bias, or no running statistics")
    for each in own.values():
        lowering.sizes.equal(value.axes[-1], each.axes[0])
    eps = lowering.number_of("eps", 1e-5)
    momentum = lowering.number_of("momentum", 0.1)
    made = lowering.emit(
        "BN", (value,), value.axes, own=list(own.values()), eps=eps, momentum=momentum
    )
    base = (*front, *places, channels)
    return View(made, base, view.axes)


def _parameter(lowering: Lowering, name: str) -> ModelValue | None:
    """An own tensor: a parameter, or a buffer, which becomes a frozen one."""
    argument = lowering.argument(name)
    if argument is None:
        return None
    held = {each.name: each for each in lowering.exported.entries if each.kind != "user"}
    entry = held.get(argument.name) if isinstance(argument, Ref) else None
    if entry is None:
        raise Unspeakable(f"its {name} is no tensor of the model")
    frozen = entry.frozen or name.startswith("running")
    return lowering.weight(Weight(entry.target, frozen=frozen))
