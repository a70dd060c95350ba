"""Collectives in figures: over which mesh axis, and what they cost (seed 001, 6.2 and 7.3)."""

from __future__ import annotations

from collections.abc import Iterable

from xg.figures.model.figure import FigureNode, NodeKind
from xg.figures.model.richtext import RichText, StyledRun, plain, tagged
from xg.figures.views.notation import Notation
from xg.figures.views.prices import in_one_line, name, prices, summed
from xg.figures.views.sketch import Move, Sent
from xg.ir.collective import FAMILY, SENDING
from xg.ir.graph import Apply


def sends(step: object) -> bool:
    """Return whether a step is a collective; casts and slices stay on their rank."""
    return isinstance(step, Apply) and step.op.family == FAMILY and step.op.glyph in SENDING


def communication_node(step: Apply, node_id: str, notation: Notation) -> FigureNode:
    """Return a collective's box, with its cost."""
    label = name(step.op.glyph, axis_of(step))
    title = f"{step.op.name}: {step.op.formula}"
    lines = (*_summed(step, notation), *costs(step, notation))
    return FigureNode(node_id, NodeKind.COMMUNICATION, label, lines=lines, title=title)


def _summed(step: Apply, notation: Notation) -> tuple[RichText, ...]:
    """Return the line that says which terms have which total, by their names if they have some."""
    line = summed(step.op.glyph, axis_of(step))
    term, total = notation.symbol(step.inputs[0]), notation.symbol(step.outputs[0])
    if not (line and term and total):
        return line
    return ((*total, *plain(" = "), StyledRun("Σ", sub="i"), *plain(" "), *term),)


def bar_node(move: Move, node_id: str, notation: Notation) -> FigureNode:
    """Return the bar of a move in an overview, which shows both passes."""
    volume = notation.volume(move.value)
    if not move.forward:
        label = (*name(move.backward, move.axis), *plain(" in the backward pass"))
        price = prices(move.backward, move.axis, volume)
    else:
        label = name(move.forward, move.axis)
        if move.backward:
            label = (*label, *plain(f", {move.backward} in the backward pass"))
        price = prices(move.forward, move.axis, volume)
    lines = (*summed(move.forward or move.backward, move.axis), in_one_line(price))
    return FigureNode(node_id, NodeKind.COMMUNICATION, label, lines=lines)


def sent_tags(sent: Iterable[Sent]) -> RichText:
    """Return the tags of a parameter, or of several: what is sent for them in each pass."""
    return tuple(
        run
        for glyph, axis, forward in sorted(sent, key=lambda one: (not one[2], one))
        for run in tagged(name(glyph, axis), "forward" if forward else "backward")
    )


def costs(step: Apply, notation: Notation) -> tuple[RichText, ...]:
    """Return a collective's price, naive and ring, as written in its box."""
    value = step.outputs[0] if step.op.glyph == "AG" else step.inputs[0]
    return prices(step.op.glyph, axis_of(step), notation.volume(value))


def glyph_of(step: Apply) -> RichText:
    """Return an operator's glyph; of a collective with its mesh axis."""
    return name(step.op.glyph, axis_of(step)) if sends(step) else plain(step.op.glyph)


def axis_of(step: Apply) -> str:
    """Return the mesh axis of a move: that which a rank went across, or the whole is to go over."""
    return str(step.attrs["across"] if "across" in step.attrs else step.attrs["over"])
