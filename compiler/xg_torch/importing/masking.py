"""Masks of attention: what of the scores is hidden, by order or by an input."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from xg_torch.importing.diagram import ModelStep, WrittenOperator
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.fixed import Fixed
from xg_torch.importing.known import Condition, Known, Mask
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.recognise import Visible, visible
from xg_torch.importing.views import View

_HIDE: Final = "select({}, a, -inf)\n    where i = range[S](T - S), j = range[T]"


def as_mask(lowering: Lowering, known: Known, form: str) -> Mask:
    """A mask in one of its forms, also from constants."""
    if isinstance(known, Fixed):
        return Mask((known,), form="scores" if form == "scores" else "bool")
    if isinstance(known, Mask) and known.form == form:
        return known
    raise Unspeakable("its mask is none that the language knows")


def masked(
    lowering: Lowering, scores: View, known: Known | None, *, causal: bool, scale: float
) -> View:
    """``SM(scale, causal)<-M``: scores times a number, hidden where a mask says so."""
    scored = isinstance(known, Mask) and known.form == "scores"
    mask = None if known is None else as_mask(lowering, known, "scores" if scored else "bool")
    return show(lowering, scores, mask, causal=causal, scale=scale)


def biased(lowering: Lowering, scores: View, bias: View, *, causal: bool, scale: float) -> View:
    """Scores times a number, plus numbers of which a mask may have hidden some: SM comes last."""
    if scale != 1.0:
        scores = show(lowering, scores, None, causal=False, scale=scale)
    hiding = list[ModelStep]()
    while (step := lowering.made_by(bias, "SM")) is not None and step.attrs["c"] == 1.0:
        hiding.append(step)
        bias = bias.on(step.data[0])
    main, other = lowering.broadcast_together(scores, bias)
    scores = main.on(lowering.emit("⊕", (main.value, other), main.value.axes))
    for step in reversed(hiding):
        masks = [bias.on(mask) for mask in step.data[1:]]
        attrs: dict[str, Any] = {**step.attrs, "contracted": ()}
        if not masks:
            scores = lowering.keep("SM", scores, **attrs)
        for mask in masks:
            main, spread = lowering.broadcast_together(scores, mask)
            value = lowering.emit("SM", (main.value, spread), main.value.axes, **attrs)
            scores = main.on(value)
    return show(lowering, scores, None, causal=True) if causal else scores


def _is_bool(lowering: Lowering, fixed: Fixed) -> bool:
    trial = lowering.fixed.trials(fixed.name)[0]
    return lowering.fixed.run(fixed.name, trial).dtype == bool


def show(
    lowering: Lowering, scores: View, mask: Mask | None, *, causal: bool, scale: float = 1.0
) -> View:
    """Scores with a mask, as few SM as possible; a scale before them is part of the SM."""
    if mask is not None and mask.negated and len(mask.parts) > 1:
        raise Unspeakable("its mask hides where several conditions meet")
    conditions: list[Condition] = []
    bands = [Visible(after=0)] if causal else []
    for part in mask.parts if mask is not None else ():
        assert mask is not None
        if isinstance(part, Fixed):
            scored = not _is_bool(lowering, part)
            bands.append(visible(lowering, part, scores=scored, negated=mask.negated))
        else:
            conditions.append(replace(part, positive=part.positive != mask.negated))
    band = Visible(_least(b.before for b in bands), _least(b.after for b in bands))
    if band != Visible():
        _refuse_uneven(lowering, scores)
    causal = band == Visible(after=0)
    scores, scale = _scaled(lowering, scores, scale)
    product = lowering.made_by(scores, "•")
    contracted = product.attrs.get("contracted", ()) if product is not None else ()
    attrs: dict[str, Any] = {"c": scale, "causal": causal, "contracted": contracted}
    if not conditions and (scale != 1.0 or causal):
        scores = lowering.keep("SM", scores, **attrs)
    for condition in conditions:
        view = condition.view
        if not condition.positive:
            view = view.on(lowering.emit("not", (view.value,), view.value.axes, kind="int"))
        main, spread = lowering.broadcast_together(scores, view)
        value = lowering.emit("SM", (main.value, spread), main.value.axes, **attrs)
        scores = main.on(value)
        attrs = {"c": 1.0, "causal": False, "contracted": ()}
    return scores if causal or band == Visible() else _near(lowering, scores, band)


def _least(bounds: Iterable[int | None]) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


def _near(lowering: Lowering, scores: View, band: Visible) -> View:
    """Scores of keys that are within a band of distances, by an operator of positions."""
    before, after = band.before, band.after
    if after == 0 and before is not None:
        name, shown, box = "Window", "and(i >= j, w > i - j)", (before + 1,)
    elif before == after:
        name, shown, box = "Near", "w >= abs(i - j)", (before,)
    elif before is None:
        name, shown, box = "Ahead", "w >= j - i", (after,)
    elif after is None:
        name, shown, box = "Behind", "w >= i - j", (before,)
    else:
        name, shown, box = "Band", "and(before >= i - j, after >= j - i)", (before, after)
    signature = f"(a [.., S, T]; {'w' if len(box) == 1 else 'before, after'})"
    made = WrittenOperator(name, signature, _HIDE.format(shown))
    scores = lowering.last_whole(scores)
    words = tuple(map(str, box))
    return lowering.keep("defined", scores, definition=made, box=words, reach=before)


def _scaled(lowering: Lowering, scores: View, scale: float) -> tuple[View, float]:
    """Scores before they were scaled, and by what in all."""
    step = lowering.made_by(scores, "scale")
    if step is None or scale != 1.0:
        return scores, scale
    return scores.on(step.data[0]), float(step.attrs["c"])


def _refuse_uneven(lowering: Lowering, scores: View) -> None:
    queries, keys = scores.shape(lowering.sizes)[-2:]
    if queries != keys:
        raise Unspeakable(
            "its causal mask has queries and keys of different lengths",
            "torch aligns the first positions there, the language the last ones",
        )
