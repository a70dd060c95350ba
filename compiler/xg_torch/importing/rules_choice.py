"""A choice by `topk` as numbers of its own: 1 at what was chosen, hiding the rest; and `gather`.

A model marks the best groups of experts by `scatter`, spreads the marks over the experts of each
group, and hides the scores of all others; the diagram picks the groups in one operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from xg.ir.dim import Dim, product
from xg_torch.importing import rules_layout as layout
from xg_torch.importing.diagram import WrittenOperator
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.formula import number_text
from xg_torch.importing.known import HIDDEN, Chosen, Known
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.recognise import single
from xg_torch.importing.views import Axis, Factor, View, align

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
