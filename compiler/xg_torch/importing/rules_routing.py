"""Routed experts: a model computes k of them for each token, the diagram says the sum over all.

The weight of an expert that was not chosen is 0, so that both are the same sum. A model picks the
matrices of each token's experts by their numbers (`index`), multiplies, and adds k rows up; until
then its rows are `Routed`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import Dim, number, product
from xg_torch.importing import rules_elementwise as elementwise
from xg_torch.importing import rules_layout as layout
from xg_torch.importing.diagram import WrittenOperator
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import reads
from xg_torch.importing.fixed import HIDDEN, Chosen, Fixed, Known, Routed
from xg_torch.importing.lowering import Lowering, number_text
from xg_torch.importing.recognize import single
from xg_torch.importing.views import Axis, Factor, ModelValue, View, align

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
        return _gathered(lowering)
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
        return _within(lowering, marks[0])
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


def _within(lowering: Lowering, marks: Chosen) -> View:
    """Scores of the chosen groups; those of others are a number that hides them."""
    fill = lowering.number_of("value")
    if not marks.negated:
        raise Unspeakable("it hides what was chosen")
    if fill > HIDDEN:
        raise Unspeakable("it fills with a number that does not hide scores")
    scores, view = align(lowering.view_of("self"), marks.view, lowering.sizes)
    pairs = {
        its: mine
        for axis, other in zip(scores.axes, view.axes, strict=True)
        for mine, its in zip(axis, other, strict=True)
    }
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
    within = WrittenOperator("Within", SIGNATURE, WITHIN.format(_number(fill)))
    left = lowering.sizes.dim(inside[0].size) * _length(lowering, view.base[-1])
    value = lowering.emit("defined", (s, j), s.axes, definition=within, box=(), left=left)
    return View(value, (*((f,) for f in front), (groups,), inside), scores.axes)


def _number(fill: float) -> str:
    return "-inf" if fill == -math.inf else number_text(fill)


def _length(lowering: Lowering, axis: Axis) -> Dim:
    return product(lowering.sizes.dim(factor.size) for factor in axis)


def left(lowering: Lowering, view: View) -> Dim | None:
    """How many numbers of the last axis a choice of groups has left; None where there is none."""
    step = lowering.producer.get(view.value)
    while step is not None and step.operator == "R":
        step = lowering.producer.get(step.data[0])
    return None if step is None else step.attrs.get("left")


def _gathered(lowering: Lowering) -> View:
    """Numbers along the last axis, at the places that were chosen."""
    index = _picks(lowering)
    numbers = lowering.last_whole(lowering.view_of("self"))
    count = index.axes[-1]
    lowering.sizes.equal(numbers.value.axes[-1], lowering.ranges[index.value])
    rows, places = align(
        numbers.with_axes(numbers.axes[:-1]), index.with_axes(index.axes[:-1]), lowering.sizes
    )
    pairs: dict[Factor, Factor] = {}
    for mine, its in zip(rows.axes, places.axes, strict=True):
        pairs.update(zip(mine, its, strict=True))
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
    view = lowering.last_whole(view)
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


def routed(
    lowering: Lowering, name: str, operands: Sequence[Known]
) -> Known | tuple[Known, ...] | None:
    """The result of a call on routed rows, or of one that picks experts; None for any other."""
    rows = [each for each in operands if isinstance(each, Routed)]
    if name == "index" and not rows:
        return _picked(lowering)
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
        return _weighed(lowering, first)
    if name in layout.RULES:
        return _layout_of_rows(lowering, name, first)
    if name in ELEMENTWISE:
        return _computed(lowering, name, first)
    raise Unspeakable("it computes with the rows of single experts")


def _picked(lowering: Lowering) -> Routed | None:
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
    seen, expert = _for_all(lowering, vector, rows)
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


def _for_all(lowering: Lowering, known: Known, rows: Routed) -> tuple[View, Factor]:
    """Rows of all experts, and the factor that counts them; a token is the same for each."""
    if isinstance(known, Routed):
        return known.view, known.expert
    seen, slot = _beside(lowering, lowering.view(known), rows)
    if slot not in seen.repeats:
        raise Unspeakable("what it multiplies by the matrices of experts are no tokens")
    expert = Factor.of(rows.expert.size)
    return seen.with_axes(_exchanged(seen.axes, slot, expert)), expert


def _exchanged(axes: Sequence[Axis], old: Factor, new: Factor) -> list[Axis]:
    return [tuple(new if factor == old else factor for factor in axis) for axis in axes]


def _beside(lowering: Lowering, view: View, rows: Routed) -> tuple[View, Factor]:
    """A view whose first axis has the factors of the choice, and its factor of the k chosen."""
    first, *others = view.axes
    if len(rows.chosen.axes) != 1:
        raise Unspeakable("its experts are chosen for more than one axis of tokens")
    chosen = rows.chosen.with_axes((*rows.chosen.axes, *(() for _ in others)))
    seen, aligned = align(view.with_axes((first, *others)), chosen, lowering.sizes)
    place = aligned.axes[0].index(rows.chosen.base[-1][0])
    return seen, seen.axes[0][place]


def _weighed(lowering: Lowering, rows: Routed) -> Routed:
    """Rows times the weights of their experts, one number for each."""
    a, b = lowering.known_of("self"), lowering.known_of("other")
    seen, slot = _beside(lowering, lowering.view(b if isinstance(a, Routed) else a), rows)
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
    seen = rows.view.with_axes(_exchanged(rows.view.axes, rows.expert, slot))
    made = layout.RULES[name](lowering, seen)
    if slot not in made.repeats:
        raise Unspeakable("it lays out the rows of single experts")
    return replace(rows, view=made.with_axes(_exchanged(made.axes, slot, rows.expert)))


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
