"""The forward figure of a compilation with what changed in it marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xg.figures.model.figure import Emphasis, Figure, FigureEdge, FigureNode, NodeKind
from xg.figures.views.forward import forward_drawn
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Call, Graph, Step, Value
from xg.pages.diff.compare import Difference
from xg.pages.diff.edge_keys import edges, moved_edges

MARKED = "Changed edges, and boxes in which something changed, are bold and coloured."


def changed_figure(difference: Difference, *, legend: bool = False) -> Figure:
    """The figure of the entry block of the second program.

    Edges are marked whose tensor has another shape or state, or is new; so are collectives that
    the first program has not, and called blocks in which something changed.
    """
    program = difference.after.program
    drawn = forward_drawn(program, program.main, legend=legend)
    tails = _tails(difference, program.main, drawn.nodes, drawn.figure)
    boxes = {drawn.nodes[step] for step in _boxes(difference, program.main) if step in drawn.nodes}
    names = f"{difference.after.name} against {difference.before.name}"
    return replace(
        drawn.figure,
        subtitle=f"{drawn.figure.subtitle}, {names}",
        description=f"{drawn.figure.description} {names}. {MARKED}",
        nodes=tuple(_node(node, boxes) for node in drawn.figure.nodes),
        edges=tuple(_edge(edge, tails) for edge in drawn.figure.edges),
    )


def _node(node: FigureNode, changed: set[str]) -> FigureNode:
    return replace(node, mark=Emphasis.CHANGED) if node.id in changed else node


def _edge(edge: FigureEdge, changed: set[str]) -> FigureEdge:
    return replace(edge, mark=Emphasis.CHANGED) if edge.tail in changed else edge


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


def _moved(difference: Difference) -> set[Value]:
    """The results of moves that have another placement than the first program's edge."""
    before = edges(difference.before.whole)
    moved = moved_edges(difference.after.whole)
    return {
        value
        for value, edge in moved.items()
        if edge.key not in before or edge.state != before[edge.key].state
    }


def _boxes(difference: Difference, graph: Graph) -> set[Step]:
    """New collectives of the entry, and calls in which something changed."""
    new = {
        (part.of, part.line)
        for part in (each.after for each in difference.collectives if not each.before)
        if part and part.key == graph.key
    }
    places = {each.present.where for each in difference.edges}
    steps: set[Step] = set()
    for step in graph.steps:
        if isinstance(step, Call):
            path = step.path if step.count is None else f"{step.path}.*"
            if any(place == path or place.startswith(f"{path}.") for place in places):
                steps.add(step)
        elif _is_new(step, new):
            steps.add(step)
    return steps


def _is_new(step: Apply, new: set[tuple[str, int | None]]) -> bool:
    name = step.outputs[0].name or ""
    return step.op.family == FAMILY and (name, step.span.line) in new
