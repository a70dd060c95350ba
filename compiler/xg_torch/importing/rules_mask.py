"""Masks of inputs: comparisons, logic, and where they hide scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xg.ir.dim import number
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import BOOL
from xg_torch.importing.known import HIDDEN, Condition, Known, Mask
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.masking import as_mask, show
from xg_torch.importing.recognise import single
from xg_torch.importing.rules_elementwise import operand, operands, tensor
from xg_torch.importing.views import View


def compare(positive_for: Callable[[float], bool | None]) -> Callable[[Lowering], Known]:
    """A rule for a comparison of a mask of 0 and 1 with a number."""

    def rule(lowering: Lowering) -> Known:
        a, b = operands(lowering)
        if not isinstance(b, int | float):
            raise Unspeakable("it compares tensors")
        positive = positive_for(b)
        if isinstance(a, Mask) and a.form != "scores" and positive is not None:
            return replace(a, form="bool", negated=a.negated == positive)
        if positive is None or not isinstance(a, View) or a.value.kind != "int":
            raise Unspeakable("it compares numbers, and the language has masks of 0 and 1 only")
        return condition(lowering, a, positive=positive)

    return rule


def condition(lowering: Lowering, view: View, *, positive: bool = True) -> Mask:
    """Integers of an input as a mask."""
    lowering.set_range(view.value, lowering.sizes.make(number(2)))
    return Mask((Condition(view, positive),))


def both(lowering: Lowering) -> Known:
    """Two masks that must both hold."""
    a, b = (_mask(lowering, name) for name in ("self", "other"))
    if a.negated or b.negated:
        a, b = _unfolded(a), _unfolded(b)
    return Mask((*a.parts, *b.parts))


def either(lowering: Lowering) -> Known:
    """One of two masks: what hides if any of two hides."""
    a, b = (_unfolded(_flipped(_mask(lowering, name))) for name in ("self", "other"))
    return Mask((*a.parts, *b.parts), negated=True)


def negation(lowering: Lowering) -> Known:
    """The negation of a mask."""
    return _flipped(_mask(lowering, "self"))


def _mask(lowering: Lowering, name: str) -> Mask:
    mask = lowering.known_of(name)
    if isinstance(mask, View) and mask.value.kind == "int":
        mask = condition(lowering, mask)
    return as_mask(lowering, mask, "bool")


def _flipped(mask: Mask) -> Mask:
    return replace(mask, negated=not mask.negated)


def _unfolded(mask: Mask) -> Mask:
    """A mask that is not negated as a whole."""
    if not mask.negated:
        return mask
    (part, *others) = mask.parts
    if others or not isinstance(part, Condition):
        raise Unspeakable("it combines masks in a way that the language cannot say")
    return Mask((replace(part, positive=not part.positive),))


def masked_fill(lowering: Lowering) -> Known:
    """Scores, or zeros that will be added to scores, hidden where a mask holds."""
    mask = _flipped(_mask(lowering, "mask"))
    value = operand(lowering, "value")
    formula = lowering.known_of("self")
    if not isinstance(value, int | float) or value > HIDDEN:
        raise Unspeakable("it fills with a number that does not hide scores")
    if single(lowering, formula) == 0.0:
        return replace(mask, form="scores")
    return show(lowering, lowering.view(formula), mask, causal=False)


def where(lowering: Lowering) -> Known:
    """`where(mask, scores, -inf)`, `where(mask, 0, -inf)` and the other way round."""
    mask = _mask(lowering, "condition")
    a, b = operands(lowering)
    if isinstance(a, int | float) and a <= HIDDEN:
        mask, a, b = _flipped(mask), b, a
    if not isinstance(b, int | float) or b > HIDDEN:
        raise Unspeakable("it chooses between tensors")
    if a == 0:
        return replace(mask, form="scores")
    return show(lowering, lowering.view(tensor(a)), mask, causal=False)


def cast(lowering: Lowering) -> Known:
    """Another element type: masks become numbers, integers of an input masks."""
    formula = lowering.known_of("self")
    dtype = lowering.exported.metas[lowering.call.outputs[0]].dtype
    if isinstance(formula, Mask) and formula.form != "scores":
        return replace(formula, form="bool" if dtype == BOOL else "number")
    if isinstance(formula, View) and formula.value.kind == "int" and dtype not in range(1, 6):
        mask = condition(lowering, formula)
        return replace(mask, form="bool" if dtype == BOOL else "number")
    return formula
