"""Masks of attention: what of the scores is hidden, by order or by an input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xg.importing.errors import Unspeakable
from xg.importing.fixed import Fixed
from xg.importing.known import Condition, Known, Mask
from xg.importing.lowering import Lowering
from xg.importing.recognise import Visible, visible
from xg.importing.views import View


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
    for part in mask.parts if mask is not None else ():
        if isinstance(part, Fixed):
            assert mask is not None
            scored = not _is_bool(lowering, part)
            seen = visible(lowering, part, scores=scored, negated=mask.negated)
            causal = causal or seen is Visible.PAST
        else:
            assert mask is not None
            conditions.append(replace(part, positive=part.positive != mask.negated))
    if causal:
        _refuse_uneven(lowering, scores)
    scores, scale = _scaled(lowering, scores, scale)
    product = lowering.made_by(scores, "•")
    contracted = product.attrs.get("contracted", ()) if product is not None else ()
    attrs: dict[str, Any] = {"c": scale, "causal": causal, "contracted": contracted}
    if not conditions:
        return scores if scale == 1.0 and not causal else lowering.keep("SM", scores, **attrs)
    for condition in conditions:
        view = condition.view
        if not condition.positive:
            view = view.on(lowering.emit("not", (view.value,), view.value.axes, kind="int"))
        main, spread = lowering.broadcast_together(scores, view)
        value = lowering.emit("SM", (main.value, spread), main.value.axes, **attrs)
        scores = main.on(value)
        attrs = {"c": 1.0, "causal": False, "contracted": ()}
    return scores


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
