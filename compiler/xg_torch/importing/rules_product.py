"""Read products and reductions: linear layers, attention, embeddings, sums and losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import Dim, number
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Ref
from xg_torch.importing.fixed import Formula, FormulaPart, Known, Operand
from xg_torch.importing.lowering import Lowering, combine
from xg_torch.importing.recognize import bucket_indices, constant_row, positions
from xg_torch.importing.rules_elementwise import bias_scores, mask_scores, plain, show
from xg_torch.importing.rules_layout import add_bias, cut, joined, place_of, places_of
from xg_torch.importing.views import (
    Axis,
    Factor,
    ModelValue,
    Size,
    View,
    align,
    factor_pairs,
    length,
)

# An order that both operands of a product have along the axis that it sums over: it says nothing.
#
# Rotary positions leave queries and keys with the first numbers of all pairs in front, where their
# pairs are neighbors; scores are the same without that.


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
        return _order_last_axis(lowering, first), _order_last_axis(lowering, second)
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


def _order_last_axis(lowering: Lowering, view: View) -> View:
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


SCORES: Final = ("SM", "scale", "op", "defined", "⊕")  # between a product and its softmax
FEW: Final = 8  # a table of fewer rows, such as that of token types, is no vocabulary


def linear(lowering: Lowering) -> View:
    """``x W^T + b``: torch keeps the weight as [out, in], the legend as [in, out]."""
    x = lowering.view_of("input")
    weight = lowering.known_of("weight")
    if not isinstance(weight, View) or len(weight.axes) != 2:
        raise Unspeakable("its weight is no matrix")
    stored = lowering.weights.get(weight.value) if weight.plain else None
    if stored is not None and (stored.start is not None or stored.source in lowering.turned):
        matrix = lowering.weight(replace(stored, transposed=True))
    else:
        matrix = lowering.lay_out(weight, weight.axes[::-1])
    bias = lowering.argument("bias")
    return project(lowering, x, matrix, bias)


def project(lowering: Lowering, x: View, matrix: ModelValue, bias: object = None) -> View:
    """``x • W ⊕ BC(b)`` with W [in, out]; the other axes of x stay as they are seen."""
    x = lowering.isolate_last_axis(x)
    if len(x.base) < 2:
        raise Unspeakable("it multiplies a vector, and • takes two axes")
    inner, outer = matrix.axes
    last = lowering.join(x.base[-1])
    lowering.sizes.equal(inner, last)  # or both are of length 1
    if outer is not None:
        lowering.sizes.hint(outer, "D_ff", 1)
    value = lowering.emit("•", (x.value, matrix), (*x.value.axes[:-1], outer))
    if bias is not None:
        vector = lowering.view(lowering.look(bias)) if isinstance(bias, Ref) else None
        if vector is None or not vector.plain or len(vector.base) != 1:
            raise Unspeakable("its bias is no vector")
        value = add_bias(lowering, value, vector.value)
    tail: Axis = () if outer is None else (Factor.of(outer),)
    return View(value, (*x.base[:-1], tail), (*x.axes[:-1], tail))


def addmm(lowering: Lowering) -> View:
    """``b + x W``."""
    if lowering.number_of("beta", 1) != 1 or lowering.number_of("alpha", 1) != 1:
        raise Unspeakable("it scales its operands")
    matrix = lowering.materialize(lowering.view_of("mat2")).value
    return project(lowering, lowering.view_of("mat1"), matrix, lowering.argument("self"))


def matmul(lowering: Lowering) -> View:
    """`matmul`, `mm` and `bmm`."""
    second = "other" if "other" in lowering.call.args else "mat2"
    return product(lowering, lowering.view_of("self"), lowering.view_of(second))


def product(lowering: Lowering, first: View, second: View) -> View:
    """The product of the last two axes; axes before them are broadcast to each other."""
    if any(rank < 2 for rank in map(len, (first.axes, second.axes))):
        raise Unspeakable("it multiplies a vector, and • takes two axes")
    if _is_matrix(second) and second.value.param is not None:
        return project(lowering, first, lowering.lay_out(second, second.axes))
    second = _fresh(second)
    first, second = without_order(lowering, first, second)
    if not _is_matrix(second):
        one, other = align(
            first.with_axes(first.axes[:-2]), second.with_axes(second.axes[:-2]), lowering.sizes
        )
        first = one.with_axes((*one.axes, *first.axes[-2:]))
        second = other.with_axes((*other.axes, *second.axes[-2:]))
    batch, its = _batch(lowering, first), _shared(second, _batch(lowering, second))
    left, right = lowering.join(first.axes[-1]), lowering.join(second.axes[-2])
    if left is None or right is None:
        raise Unspeakable("it contracts axes of length 1")
    lowering.sizes.equal(left, right)
    _hint_product(lowering, first, second)
    a = lowering.lay_out(first, (*batch, *first.axes[-2:]))
    b = _second(lowering, second, its)
    columns = second.axes[-1]
    value = lowering.emit("•", (a, b), (*a.axes[:-1], b.axes[-1]), contracted=(left,))
    base = (*batch, first.axes[-2], columns)
    return View(value, base, (*first.axes[:-2], first.axes[-2], columns))


def _is_matrix(view: View) -> bool:
    return len(view.axes) == 2


def _batch(lowering: Lowering, view: View) -> list[Axis]:
    """The axes before the last two; heads that torch merged with a batch are apart again."""
    batch: list[Axis] = []
    for axis in view.axes[:-2]:
        numbers = all(lowering.sizes.dim(factor.size).constant for factor in axis)
        batch += [axis] if numbers else [(factor,) for factor in axis]
    return batch


def _shared(second: View, batch: list[Axis]) -> list[Axis]:
    """Return a second operand's axes without the leading ones along which it repeats."""
    while batch and batch[0] and second.repeats.issuperset(batch[0]):
        batch = batch[1:]
    return batch


def _hint_product(lowering: Lowering, first: View, second: View) -> None:
    """Names for heads, where a product has the axes of attention."""
    if len(first.axes) != 4 or len(second.axes) != 4:
        return
    contracted, heads = first.axes[-1], second.axes[1]
    if len(first.axes[1]) == 1:
        lowering.sizes.hint(first.axes[1][0].size, "N_H", 3)
    elif first.axes[1]:
        lowering.sizes.hint(lowering.sizes.join([f.size for f in first.axes[1]]), "N_H", 3)
    if len(heads) == 2 and heads[1] in second.repeats:
        lowering.sizes.hint(heads[0].size, "N_KV", 4)
    weighs = any(lowering.made_by(first, operator) for operator in ("S", "DO"))
    head = second.axes[-1] if weighs else contracted
    if len(head) == 1 and lowering.sizes.dim(head[0].size).constant:
        other = weighs and _score_width(lowering, first) not in (
            None,
            lowering.sizes.dim(head[0].size),
        )
        lowering.sizes.hint(head[0].size, "D_v" if other else "D_h", 3)
        cut = lowering.made_by(second, "slice") if other else None
        both = None if cut is None else cut.data[0].axes[-1]
        if both is not None:  # keys and values of a head from one projection
            lowering.sizes.hint(both, "D_kv", 3)


def _score_width(lowering: Lowering, weights: View) -> Dim | None:
    """Return the length of the axis that the scores of these weights sum over, if known."""
    step = lowering.producer.get(weights.value)
    while step is not None and step.operator in (*SCORES, "S", "DO"):
        step = lowering.producer.get(step.data[0])
    contracted = () if step is None else step.attrs.get("contracted", ())
    return lowering.sizes.dim(contracted[0]) if contracted else None


def _second(lowering: Lowering, second: View, batch: list[Axis]) -> ModelValue:
    """The second operand; transposed by a T of its own if needed."""
    rows, columns = second.axes[-2:]
    order = [factor for axis in second.base for factor in axis]
    straight = (*batch, columns, rows)
    turned = rows and columns and rows[0] in order and columns[0] in order
    if turned and order.index(columns[0]) < order.index(rows[0]) and second.base != straight:
        value = lowering.lay_out(second, straight)
        second = View(value, straight, second.axes)
    return lowering.lay_out(second, (*batch, rows, columns))


def _fresh(view: View) -> View:
    """The same view with factors of its own: a product of a tensor with itself has two of each."""
    new = {factor: Factor.of(factor.size) for axis in (*view.base, *view.axes) for factor in axis}

    def renew(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(tuple(new[factor] for factor in axis) for axis in axes)

    return View(view.value, renew(view.base), renew(view.axes))


def attention(lowering: Lowering) -> View:
    """`scaled_dot_product_attention`: • SM S DO •."""
    query, key, value = (lowering.view_of(name) for name in ("query", "key", "value"))
    if lowering.argument("enable_gqa", False):
        key, value = (_repeat_groups(lowering, query, view) for view in (key, value))
    _hint_heads(lowering, query)
    width = query.shape(lowering.sizes)[-1].constant
    scale = lowering.argument("scale")
    if scale is None and width is None:
        raise Unspeakable("the width of its heads is no number")
    factor = 1 / math.sqrt(width or 1) if scale is None else lowering.number_of("scale")
    turned = key.with_axes((*key.axes[:-2], key.axes[-1], key.axes[-2]))
    scores = product(lowering, query, turned)
    mask = lowering.argument("attn_mask")
    causal = bool(lowering.argument("is_causal", False))
    formula: Known | None = None if mask is None else lowering.look(mask)
    if isinstance(formula, View) and formula.value.kind == "float":
        shown = bias_scores(lowering, scores, formula, causal=causal, scale=factor)
    else:
        shown = mask_scores(lowering, scores, formula, causal=causal, scale=factor)
    weights = lowering.keep("S", lowering.isolate_last_axis(shown))
    p = lowering.number_of("dropout_p", 0.0)
    if p:
        weights = lowering.keep("DO", weights, p=p)
    return product(lowering, weights, value)


def _hint_heads(lowering: Lowering, query: View) -> None:
    if len(query.axes) == 4 and len(query.axes[1]) == 1 and len(query.axes[3]) == 1:
        lowering.sizes.hint(query.axes[1][0].size, "N_H", 8)
        lowering.sizes.hint(query.axes[3][0].size, "D_h", 8)


def _repeat_groups(lowering: Lowering, query: View, view: View) -> View:
    """Keys or values of fewer heads, each repeated for its group of queries."""
    heads, own = query.shape(lowering.sizes)[-3], view.shape(lowering.sizes)[-3]
    if heads == own:
        return view
    groups = lowering.sizes.make(heads / own)
    axes = list(view.axes)
    axes[-3] = (*axes[-3], Factor.of(groups))
    return view.with_axes(axes)


def embedding(lowering: Lowering) -> View:
    """Rows of a table, by ids of an input or by positions."""
    table = lowering.materialize(lowering.view_of("weight")).value
    rows, width = table.axes
    if rows is None or width is None:
        raise Unspeakable("its table has an axis of length 1")
    formula = lowering.known_of("indices")
    lowering.sizes.hint(width, "D", 5)
    padding = lowering.argument("padding_idx", -1)
    if isinstance(padding, int) and padding >= 0:
        name = table.param or "a table"
        lowering.notes[
            f"{name}: torch gives row {padding} no gradient (padding_idx); here it has one"
        ] = None
    row = constant_row(lowering, formula)
    if row is not None:
        lowering.sizes.hint(rows, "N", 2)
        picked = lowering.emit("pick", (table,), (width,), axis=-2, index=number(row))
        front = tuple(() for _ in lowering.shape_of_output()[:-1])
        tail: Axis = (Factor.of(width),)
        return View(picked, (tail,), (*front, tail))
    found = bucket_indices(lowering, formula, rows)
    if found is not None:
        lowering.sizes.hint(width, "N_H", 6)
        bias = _rows(lowering, found, table, width)
        front = lowering.lay_out(bias, (bias.base[-1], *bias.base[:-1]))  # as scores have heads
        return View(front, (bias.base[-1], *bias.base[:-1]), bias.axes)
    ids = positions(lowering, formula)
    few = (lowering.sizes.dim(rows).constant or 0) < FEW
    if ids is not None or not few:
        lowering.sizes.hint(rows, "S_max" if ids is not None else "V", 6)
    if ids is None:
        ids = lowering.view(formula)
        lowering.set_range(ids.value, rows)
    elif table not in lowering.weights:
        return _stretch(lowering, ids, table)
    return _rows(lowering, ids, table, width)


def _stretch(lowering: Lowering, ids: View, table: ModelValue) -> View:
    """The rows of a table that is no parameter at positions, which are neighbors."""
    view = View.of(table)
    (size,) = ids.value.axes
    start = number(lowering.producer[ids.value].attrs["start"])
    count = number(1) if size is None else lowering.sizes.dim(size)
    if count != view.shape(lowering.sizes)[0]:
        view = cut(lowering, view, 0, start, start + count)
    rows, last = view.axes
    return view.with_axes((*(rows if axis in ids.base else axis for axis in ids.axes), last))


def _rows(lowering: Lowering, ids: View, table: ModelValue, width: Size) -> View:
    """``Emb(E)`` of integers; a table that is no parameter comes by an arrow."""
    axes = (*ids.value.axes, width)
    if table in lowering.weights:
        value = lowering.emit("Emb", (ids.value,), axes, own=(table,))
    else:
        value = lowering.emit("gather", (table, ids.value), axes, over=(0,))
    last: Axis = (Factor.of(width),)
    return View(value, (*ids.base, last), (*ids.axes, last))


def one_hot(lowering: Lowering) -> View:
    """`one_hot`: a row with a single 1 for each integer."""
    ids, count = lowering.view_of("self"), lowering.integer_of("num_classes", -1)
    if count < 2 or ids.value.kind != "int":
        raise Unspeakable("its classes are not counted, or are one", "give it num_classes")
    classes = lowering.sizes.make(number(count))
    lowering.set_range(ids.value, classes)
    lowering.sizes.hint(classes, "N_C", 2)
    value = lowering.emit("onehot", (ids.value,), (*ids.value.axes, classes))
    last: Axis = (Factor.of(classes),)
    return View(value, (*ids.base, last), (*ids.axes, last))


# Reductions along an axis: softmax, norms, means, losses.


def softmax(lowering: Lowering) -> View:
    """Softmax over the last axis, or over one that is moved to the end."""
    view = _scores(lowering)
    place = place_of(lowering, "dim", len(view.axes))
    if place != len(view.axes) - 1:
        turned = view.with_axes((*view.axes[:place], *view.axes[place + 1 :], view.axes[place]))
        turned = View.of(lowering.materialize(turned).value)
        soft = lowering.keep("S", turned)
        return soft.with_axes((*soft.axes[:place], soft.axes[-1], *soft.axes[place:-1]))
    scores = show(lowering, lowering.isolate_last_axis(view), None, causal=False)
    return lowering.keep("S", scores)


def _scores(lowering: Lowering) -> View:
    """Scores, also where their largest is taken off, which changes no softmax."""
    known = lowering.known_of("self")
    match known:
        case Formula(
            (scores,), (("max" | "largest", (Operand(),)), ("sub", (Operand(), FormulaPart())))
        ):
            return scores
        case _:
            return lowering.view(known)


def layer_norm(lowering: Lowering) -> View:
    """Layer normalization of the last axis."""
    view = lowering.isolate_last_axis(lowering.view_of("input"))
    shape = lowering.argument("normalized_shape")
    if not isinstance(shape, tuple) or len(shape) != 1:
        raise Unspeakable("it normalizes several axes at once")
    last = view.value.axes[-1]
    eps = lowering.number_of("eps", 1e-5)
    if any(isinstance(lowering.maybe_known(name), Formula) for name in ("weight", "bias")):
        return _written_out(lowering, view, eps)
    own = [
        lowering.view_of(name).value
        for name in ("weight", "bias")
        if lowering.argument(name) is not None
    ]
    for each in own:
        lowering.sizes.equal(last, each.axes[0])
    if last is not None:
        lowering.sizes.hint(last, "D", 4)
    return view.on(lowering.emit("LN", (view.value,), view.value.axes, own=own, eps=eps))


def _written_out(lowering: Lowering, view: View, eps: float) -> View:
    """Layer normalization with weights such as ``1 + g``, as arithmetic."""
    centered = combine("sub", view, combine("mean", view))
    variance = combine("mean", combine("pow", centered, 2.0))
    norm = combine("mul", centered, combine("rsqrt", combine("add", variance, eps)))
    for name, function in (("weight", "mul"), ("bias", "add")):
        own = lowering.maybe_known(name)
        if own is not None:
            norm = combine(function, norm, plain(own))
    return lowering.view(norm)


def rms_norm(lowering: Lowering) -> View:
    """Root-mean-square normalization of the last axis."""
    view = lowering.view_of("input")
    shape = lowering.argument("normalized_shape")
    if not isinstance(shape, tuple) or len(shape) != 1 or lowering.argument("eps") is None:
        raise Unspeakable("it normalizes several axes, or by the precision of its numbers")
    square = combine("mean", combine("pow", view, 2.0))
    norm = combine("mul", view, combine("rsqrt", combine("add", square, lowering.number_of("eps"))))
    if lowering.argument("weight") is not None:
        norm = combine("mul", norm, lowering.view_of("weight"))
    return lowering.view(norm)


def reduction(operator: str) -> Callable[[Lowering], Known]:
    """`mean` and `sum`: over the last axis inside arithmetic, else a node."""

    def rule(lowering: Lowering) -> Known:
        formula = lowering.known_of("self")
        rank = len(lowering.exported.metas[_name(lowering)].shape or ())
        axes = places_of(lowering, rank)
        keep = bool(lowering.argument("keepdim", False))
        if keep and axes == [rank - 1]:
            return combine(operator, plain(formula))
        if axes == [rank - 1] and lowering.made_by(formula, "topk"):
            view = lowering.view(combine(operator, plain(formula)))
            return view.with_axes(view.axes[:-1])
        return reduce_axes(lowering, operator, lowering.view(formula), axes, keep=keep)

    return rule


def _name(lowering: Lowering) -> str:
    argument = lowering.argument("self")
    return argument.name if isinstance(argument, Ref) else ""


def reduce_axes(
    lowering: Lowering, operator: str, view: View, axes: list[int], *, keep: bool
) -> View:
    """A reduction of these axes."""
    if view.repeats or any(view.axes[place] not in view.base for place in axes):
        view = lowering.materialize(view)
    if not any(view.axes[place] for place in axes):
        kept = [each for place, each in enumerate(view.axes) if keep or place not in axes]
        return view.with_axes(kept)  # only axes of length 1: there is nothing to add up
    return _reduce(lowering, operator, view, axes, keep=keep)


def _reduce(
    lowering: Lowering,
    operator: str,
    view: View,
    axes: Sequence[int],
    *,
    keep: bool,
    kind: Literal["float", "int"] = "float",
) -> View:
    """A node that reduces whole axes of its operand."""
    gone = [view.base.index(view.axes[place]) for place in axes if view.axes[place]]
    rest = [place for place in range(len(view.base)) if place not in gone]
    kept = [view.value.axes[place] for place in rest]
    over = tuple(place - len(view.base) for place in sorted(gone))
    value = lowering.emit(operator, (view.value,), kept, kind=kind, over=over)
    seen: list[Axis] = [
        () if place in axes else axis
        for place, axis in enumerate(view.axes)
        if keep or place not in axes
    ]
    return View(value, tuple(view.base[place] for place in rest), tuple(seen))


def running_sum(lowering: Lowering) -> View:
    """`cumsum`: each position with all before it added."""
    view, place = _along(lowering)
    if not view.axes[place]:
        return view
    over = view.base.index(view.axes[place]) - len(view.base)
    return lowering.keep("cumsum", view, over=(over,))


def arg_max(lowering: Lowering) -> View:
    """`argmax` along an axis."""
    if lowering.argument("dim") is None:
        raise Unspeakable("it counts the places of all axes as one", "give it an axis, dim=-1")
    view, place = _along(lowering)
    return place_of_largest(lowering, view, place, keep=bool(lowering.argument("keepdim", False)))


def _along(lowering: Lowering) -> tuple[View, int]:
    """The operand of a call along one axis, which is a whole axis of its value, and the place."""
    view = lowering.view_of("self")
    if view.value.kind != "float" or not view.axes:
        raise Unspeakable("it needs an axis, and numbers that are no integers of an input")
    place = place_of(lowering, "dim", len(view.axes))
    return _whole_axis(lowering, view, place), place


def _whole_axis(lowering: Lowering, view: View, place: int) -> View:
    """A view with an axis that is one of its value."""
    apart = view.repeats or view.axes[place] not in view.base
    return lowering.materialize(view) if view.axes[place] and apart else view


def place_of_largest(lowering: Lowering, view: View, place: int, *, keep: bool) -> View:
    """``argmax[D]``: integers in the range of the axis that they are places of."""
    view = _whole_axis(lowering, view, place)
    size = lowering.join(view.axes[place])
    if size is None:
        raise Unspeakable("it looks for the largest of one number")
    found = _reduce(lowering, "argmax", view, [place], keep=keep, kind="int")
    lowering.ranges[found.value] = size
    return found


def cross_entropy(lowering: Lowering) -> View:
    """Cross-entropy of logits with targets, over all of them."""
    logits, targets = lowering.view_of("self"), lowering.view_of("target")
    if targets.value.kind != "int" or lowering.argument("weight") is not None:
        raise Unspeakable("its targets are no integers, or it weighs classes")
    if lowering.number_of("label_smoothing", 0.0):
        raise Unspeakable("it smooths labels")
    if len(logits.axes) > 2:
        logits = logits.with_axes((logits.axes[0], *logits.axes[2:], logits.axes[1]))
    logits = lowering.isolate_last_axis(logits)
    classes = logits.axes[-1]
    front, spread = _logit_rows(lowering, logits, targets)
    size = lowering.join(classes)
    assert size is not None
    lowering.sizes.hint(size, "V" if len(front.value.axes) > 2 else "N_C", 3)
    lowering.set_range(spread, size)
    value = lowering.emit(
        "CE",
        (front.value, spread),
        (),
        word=_reduction(lowering),
        ignore=lowering.integer_of("ignore_index", -100),
    )
    return View(value, (), ())


def _logit_rows(lowering: Lowering, logits: View, targets: View) -> tuple[View, ModelValue]:
    """The logits, and the targets laid out as their rows."""
    last = logits.axes[-1]
    rows, targets = align(logits.with_axes(logits.axes[:-1]), targets, lowering.sizes)
    pairs = factor_pairs(rows, targets)
    axes = tuple(tuple(pairs[factor] for factor in axis) for axis in rows.base[:-1])
    return rows.with_axes((*rows.axes, last)), lowering.lay_out(targets, axes)


def squared_error(lowering: Lowering) -> View:
    """The mean, or the sum, of squared differences."""
    main, other = lowering.broadcast_together(lowering.view_of("self"), lowering.view_of("target"))
    value = lowering.emit("MSE", (main.value, other), (), word=_reduction(lowering))
    return View(value, (), ())


def binary_cross_entropy(lowering: Lowering) -> View:
    """Binary cross-entropy with targets between 0 and 1, from logits."""
    if any(lowering.argument(name) is not None for name in ("weight", "pos_weight")):
        raise Unspeakable("it weighs its targets")
    main, other = lowering.broadcast_together(lowering.view_of("self"), lowering.view_of("target"))
    word = ", ".join(part for part in (_reduction(lowering), "form=logits") if part)
    return View(lowering.emit("BCE", (main.value, other), (), word=word), (), ())


def _reduction(lowering: Lowering) -> str:
    mode = lowering.integer_of("reduction", 1)
    if mode == 0:
        raise Unspeakable("its loss is not reduced to one number")
    return "" if mode == 1 else "sum"
