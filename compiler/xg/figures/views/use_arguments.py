"""The arguments of an operator's use that its box says: what a file writes in parentheses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xg.figures.model import richtext
from xg.figures.model.richtext import RichText, StyledRun
from xg.figures.views.notation import Notation
from xg.ir.dim import ONE, ZERO, Dim, product
from xg.ir.graph import Apply, Value
from xg.ir.scalar import as_scalar
from xg.ir.use import Attrs, Length, Number, Word

_ROUNDING: Final = ("eps",)  # arguments that are about rounding only


def arguments(step: Apply, notation: Notation) -> RichText:
    """Return the arguments of a use that are no defaults; one that may be missing has its name.

    A gradient has those of the operator that it differentiates.
    """
    if step.origin and step.op.name.startswith("gradient of "):
        step = step.origin
    if "reduction" in step.attrs:
        return _reduced(step, notation)
    texts = dict(_lengths(step, notation))
    for own in step.op.own:
        value = step.attrs.get(own.name)
        if isinstance(own, Number) and value is not None and own.name not in _ROUNDING:
            if own.default is None or value != as_scalar(own.default):
                texts[own.name] = richtext.number(str(value))
        elif isinstance(own, Word) and value not in (None, *own.choices[:1]):
            texts[own.name] = richtext.plain(str(value))
    found = [texts[own.name] for own in step.op.own if own.name in texts]
    return tuple(run for text in found for run in (*richtext.plain(", "), *text))[1:]


def _reduced(loss: Apply, notation: Notation) -> RichText:
    """Return ``mean over B·S``, or ``mean where w = 1`` of a loss whose targets may not all count.

    The number of targets is that of all ranks.
    """
    attrs, (y, t, *weights) = loss.attrs, loss.inputs
    runs = richtext.plain(str(attrs["reduction"]))
    counted = [(w, "w", "= 1") for w in weights]
    if attrs.get("ignore") is not None:
        counted.append((t, "t", f"≠ {attrs['ignore']}".replace("-", "−")))
    for place, (value, letter, words) in enumerate(counted):
        runs += richtext.plain(", " if place else " where ")
        runs += (*(notation.symbol(value) or richtext.symbol(letter)), *richtext.plain(f" {words}"))
    if not counted and attrs["reduction"] == "mean":
        count = str(attrs.get("count") or "") or _count(y, notation)
        runs += (*richtext.plain(" over "), *richtext.number(count)) if count else ()
    runs += richtext.plain(f", {attrs['form']}" if attrs.get("form") == "logits" else "")
    return runs


def _count(value: Value, notation: Notation) -> str:
    """Return the number of elements, as in the shape; empty for a part of those of all ranks."""
    if notation.graph.placements:
        return ""
    shape = notation.graph.shape(value)
    factors = [str(dim) for dim in shape if dim != ONE]
    is_plain = all(factor.isidentifier() for factor in factors) and len(set(factors)) == len(
        factors
    )
    return "*".join(factors) if is_plain else str(product(shape))


def _lengths(step: Apply, notation: Notation) -> Iterator[tuple[str, RichText]]:
    """Yield the lengths of a use by their names, and `causal` where zeros are in front alone."""
    held = _windows(step) if "behind" in step.attrs else _held(step.attrs)
    for own in step.op.own:
        length = held.get(own.name)
        if isinstance(own, Length) and isinstance(length, Dim):
            name = (*richtext.plain(own.name), StyledRun("=")) if _is_named(own) else ()
            yield own.name, (*name, *richtext.number(notation.written(length)))
        elif isinstance(length, str):
            yield own.name, richtext.plain(length)


def _is_named(own: Length) -> bool:
    return own.optional and own.name != "stop"


def _held(attrs: Attrs) -> dict[str, object]:
    """Return the lengths that a use has; range(n) begins at 0."""
    held = {name: length for name, length in attrs.items() if isinstance(length, Dim)}
    if "start" in held and "range" in held:
        held["stop"] = held["range"]
        held = {name: length for name, length in held.items() if (name, length) != ("start", ZERO)}
    return dict(held)


def _windows(step: Apply) -> dict[str, object]:
    """Return the numbers of windows as a file writes them; those of pools are side by side."""
    (_, _, width, stride, dilation, before), *_ = step.attrs["cuts"]
    behind, *_ = step.attrs["behind"]
    is_pool = step.op.family == "reduce" and any(own.name == "k" for own in step.op.own)
    usual = width if is_pool else ONE
    is_causal = before != behind
    given: dict[str, object] = {"k": width}
    given |= {"stride": stride} if stride != usual else {}
    given |= {"dilation": dilation} if dilation != ONE else {}
    given |= {"pad": before} if before != ZERO and not is_causal else {}
    given |= {"side": "causal"} if is_causal else {}
    groups = step.attrs.get("groups", ONE)
    return given | ({"groups": groups} if groups != ONE else {})
