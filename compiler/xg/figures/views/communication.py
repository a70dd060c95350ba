"""Collectives in figures: over which mesh axis, and what they cost (seed 001, 6.2 and 7.3)."""

from __future__ import annotations

from collections.abc import Iterable

from xg.figures.model.figure import FigureNode, NodeKind
from xg.figures.model.richtext import RichText, StyledRun, plain, tagged
from xg.figures.views.notation import Notation
from xg.figures.views.prices import in_one_line, name, order, prices, summed
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
    sent = move.forward or move.backward
    forward, backward = (one or move.kept for one in (move.forward, move.backward))
    label = (*name(forward or backward, move.axis), *plain(order(move.axis)))
    if backward:
        also = f", {backward}" if forward else ""
        label = (*label, *plain(f"{also} in the backward pass"))
    price = in_one_line(prices(sent, move.axis, notation.volume(move.value)))
    return FigureNode(node_id, NodeKind.COMMUNICATION, label, lines=(*sums(move), price))


def sums(move: Move, terms: int = 1) -> tuple[RichText, ...]:
    """Return the line of a bar that says what it sums: of a gradient each rank has some terms."""
    if move.forward and summed(move.forward, move.axis):
        return summed(move.forward, move.axis)
    own = plain(f"⊕ of {terms} terms on each rank, then ") if terms > 1 else ()
    behind = plain(" in the backward pass") if move.forward or move.kept else ()
    return tuple((*own, *line, *behind) for line in summed(move.backward, move.axis))


def sent_tags(sent: Iterable[Sent]) -> RichText:
    """Return the tags of a parameter, or of several: what is sent for them in each pass."""
    runs = (
        run
        for glyph, axis, forward in sorted(sent, key=lambda one: (not one[2], one))
        for run in (*plain(" "), *tagged(name(glyph, axis), "forward" if forward else "backward"))
    )
    return tuple(runs)[1:]


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
