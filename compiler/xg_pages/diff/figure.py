"""The forward figure of a compilation with what changed in it marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Final, TypeVar

from xg.figures.model.figure import Emphasis, Figure, FigureEdge, FigureNode, NodeKind
from xg.figures.views.forward import forward_drawn
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Call, Graph, Step, Value
from xg_pages.diff.align import places_in
from xg_pages.diff.compare import Change, Difference
from xg_pages.diff.edge_keys import Edge, moved_edges, old_edges, old_moved_edges
from xg_pages.diff.ghosts import with_ghosts, with_ids

MARKED: Final = "What is new or changed is bold and coloured, what is gone dotted."

Part = TypeVar("Part", FigureNode, FigureEdge)


def changed_figure(difference: Difference, *, legend: bool = False) -> Figure:
    """The figure of the entry block of the second program, with what went as ghosts.

    Edges are marked whose tensor has another shape or state, or is new; so are collectives and
    other nodes that the first program has not, and called blocks in which something changed.
    """
    program = difference.after.program
    drawn = forward_drawn(program, _without_remarks(program.main), legend=legend)
    before = difference.before.program
    old = forward_drawn(before, _without_remarks(before.main)).figure
    old = with_ids(old, places_in(program.main, before.main))
    tails = _tails(difference, program.main, drawn.nodes, drawn.figure)
    steps = {*_boxes(difference, program.main), *_holding(difference, program.main, drawn.figure)}
    boxes = {drawn.nodes[step] for step in steps if step in drawn.nodes}
    names = " against ".join(_names(difference))
    figure = with_ghosts(old, drawn.figure)
    return replace(
        figure,
        subtitle=f"{drawn.figure.subtitle}, {names}",
        description=f"{drawn.figure.description} {names}. {MARKED}",
        nodes=tuple(_changed(node, node.id in boxes) for node in figure.nodes),
        edges=tuple(_changed(edge, edge.tail in tails) for edge in figure.edges),
    )


def _names(difference: Difference) -> list[str]:
    """Return the names of both sides, of files without their folders where that tells them."""
    whole = [difference.after.name, difference.before.name]
    short = [PurePath(name).name for name in whole]
    return short if short[0] != short[1] else whole


def _without_remarks(graph: Graph) -> Graph:
    """Return a graph whose figure has no colours but those of the difference."""
    return replace(graph, remarks=())


def _changed(part: Part, is_changed: bool) -> Part:
    free = part.mark is Emphasis.NONE
    return replace(part, mark=Emphasis.CHANGED) if is_changed and free else part


def _tails(
    difference: Difference, graph: Graph, nodes: Mapping[Step, str], figure: Figure
) -> set[str]:
    """The nodes that give a changed tensor."""
    here = [each.after for each in difference.edges if each.after and not each.after.where]
    changed = {edge.value for edge in here if edge.direction == "forward"}
    changed |= _moved(difference)
    makers = {
        nodes[step]
        for step in graph.steps
        if step in nodes and any(value in changed for value in step.outputs)
    }
    names = {str(value.name) for value in changed if value.role in ("input", "param")}
    tensors = (node for node in figure.nodes if node.kind is NodeKind.TENSOR)
    return makers | {node.id for node in tensors if node.id.partition("~")[0] in names}


def _holding(difference: Difference, graph: Graph, figure: Figure) -> set[Step]:
    """The operators that have a changed parameter in their box, as LN has its β."""
    tensors = (node for node in figure.nodes if node.kind is NodeKind.TENSOR)
    drawn = {node.id.partition("~")[0] for node in tensors}
    changed = {each.after.value for each in difference.edges if each.after}
    held = {each for each in changed if each.role == "param" and str(each.name) not in drawn}
    return {step for step in graph.steps if not held.isdisjoint(step.inputs)}


def _moved(difference: Difference) -> set[Value]:
    """The results of moves that the first program has neither moved nor as an edge."""
    both = difference.before.whole, difference.after.whole
    before = {(edge.key, edge.state) for edge in old_edges(*both).values()}
    before |= {(edge.key, edge.state) for edge in old_moved_edges(*both)}
    moved = moved_edges(difference.after.whole)
    return {value for value, edge in moved.items() if (edge.key, edge.state) not in before}


def _boxes(difference: Difference, graph: Graph) -> set[Step]:
    """New collectives of the entry, calls in which something changed, and other computations."""
    new = {
        (part.of, part.line)
        for part in (each.after for each in difference.collectives if not each.before)
        if part and part.key == graph.key
    }
    places = {each.present.where for each in difference.edges}
    forward = (each for each in difference.edges if each.present.direction == "forward")
    others = {each.present.value for each in forward if _computes_otherwise(each)}
    steps: set[Step] = set()
    for step in graph.steps:
        if isinstance(step, Call):
            path = step.path if step.count is None else f"{step.path}.*"
            if any(place == path or place.startswith(f"{path}.") for place in places):
                steps.add(step)
        elif _is_new(step, new) or not others.isdisjoint(step.outputs):
            steps.add(step)
    return steps


def _computes_otherwise(change: Change[Edge]) -> bool:
    """Whether the same operator has other arguments or another formula."""
    before, after = change.before, change.after
    if before is None or after is None:
        return False
    old, new = before.making, after.making
    return (old.arguments, old.formula) != (new.arguments, new.formula)


def _is_new(step: Apply, new: set[tuple[str, int | None]]) -> bool:
    name = step.outputs[0].name or ""
    return step.op.family == FAMILY and (name, step.span.line) in new
