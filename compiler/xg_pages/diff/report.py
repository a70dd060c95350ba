"""Write a difference as JSON, as tables that people read, and as a figure with marks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import PurePath
from typing import Final, TypeVar

from xg.cost.communication import Sent, Way, total_formula
from xg.cost.table import Column, Evaluated, Table, align_columns, data_of, evaluate_dim
from xg.diagnostics.lazy_dataclass import replace
from xg.figures.model.figure import (
    EdgeRole,
    EdgeStyle,
    Emphasis,
    Figure,
    FigureEdge,
    FigureNode,
    NodeKind,
)
from xg.figures.model.richtext import RichText
from xg.figures.views.forward import forward_drawn
from xg.ir.dim import ZERO, Dim
from xg.ir.graph import Apply, Call, Graph, Step, Value
from xg.ir.placement import FAMILY
from xg.ir.walk import level_by_level
from xg_pages.diff.compare import (
    Change,
    Difference,
    Edge,
    moved_edges,
    old_edges,
    old_moved_edges,
    places_in,
)

Data = Mapping[str, object]


def as_data(difference: Difference) -> Data:
    """Return the edges, collectives and costs before and after as data; null if absent."""
    return {
        "block": difference.after.program.main.block,
        "before": difference.before.name,
        "after": difference.after.name,
        "sizes": {name: list(each) for name, each in difference.sizes.items()},
        "edges": [_edge(each) for each in difference.edges],
        "collectives": [_collective(each) for each in difference.collectives],
        "cost": {name: _cost(difference, *each) for name, each in difference.costs.items()},
    }


def _edge(change: Change[Edge]) -> Data:
    edge = change.present
    return {
        "pass": edge.direction,
        "where": edge.where,
        "edge": edge.shown,
        "line": edge.line,
        "before": _state(change.before),
        "after": _state(change.after),
    }


def _state(edge: Edge | None) -> Data | None:
    if edge is None:
        return None
    making = edge.making
    return {
        "shape": edge.shape,
        "term_over": list(edge.terms),
        "made_by": edge.maker or None,
        "from": [name for name, _ in making.operands],
        "arguments": dict(making.arguments),
        "formula": making.formula or None,
    }


def _collective(change: Change[Sent]) -> Data:
    part = change.present
    return {
        "pass": part.direction,
        "collective": part.glyph,
        "over": part.over,
        "block": part.block,
        "of": part.of or None,
        "line": part.line,
        "before": change.before and change.before.formula("ring"),
        "after": change.after and change.after.formula("ring"),
    }


def _cost(difference: Difference, before: Dim, after: Dim) -> Data:
    return {
        "before": data_of(Evaluated(before, difference.before.report.numbers)),
        "after": data_of(Evaluated(after, difference.after.report.numbers)),
    }


# A difference as tables that people read.


_SENDING: Final[Mapping[str, Way]] = {"sent naive": "naive", "sent ring": "ring"}


def lines(difference: Difference) -> Iterator[str]:
    """Edges forward and backward, collectives, costs."""
    before, after = difference.before, difference.after
    yield f"{after.program.main.block}: {after.name} against {before.name}"
    if difference.is_empty:
        yield "no edge and no collective differs"
    if difference.sizes:
        sizes = (f"{name} = {new}, was {old}" for name, (old, new) in difference.sizes.items())
        yield f"sizes: {'; '.join(sizes)}"
    on_ranks = any(side.placed for side in (before, after))
    for direction in ("forward", "backward"):
        changed = [each for each in difference.edges if each.present.direction == direction]
        if changed:
            yield ""
            yield f"edges of the {direction} pass{', as one rank holds them' * on_ranks}"
            yield from Table(_EDGES, changed).lines("  ")
    if difference.collectives:
        yield ""
        yield "collectives, in elements around a ring"
        yield from align_columns([*map(_collective_row, difference.collectives)], indent="  ")
    yield ""
    yield f"cost{' of one rank' * on_ranks}, bytes of float32"
    yield from align_columns([*_costs(difference)], frozenset({1, 2, 3}), "  ")
    yield from _formulas(difference)


def sign(change: Change[Edge] | Change[Sent]) -> str:
    """``+`` for what appeared, ``-`` for what vanished, ``~`` for what changed."""
    if change.before is None:
        return "+"
    return "-" if change.after is None else "~"


def placements_text(change: Change[Edge]) -> tuple[str, str]:
    """The old and new placement of an edge: its shape on a rank, the axes over which it is a term.

    If both shapes read the same, the sizes in them have other definitions, and are spelled out.
    """
    before, after = change.before, change.after
    alike = before and after and before.shape == after.shape and before.dims != after.dims
    return _placement(before, spelled=bool(alike)), _placement(after, spelled=bool(alike))


def _placement(edge: Edge | None, *, spelled: bool) -> str:
    if edge is None:
        return ""
    terms = f", a term over {' and '.join(edge.terms)}" if edge.terms else ""
    return f"{edge.dims if spelled else edge.shape}{terms}"


def _making(change: Change[Edge]) -> str:
    """The other making of an edge: another operator, or the same from or with something else."""
    before, after = change.before, change.after
    if before is None or after is None:
        return ""
    made = () if before.maker == after.maker else (f"made by {after.maker}, was {before.maker}",)
    return "; ".join(made or change.made_otherwise)


_EDGES: tuple[Column[Change[Edge]], ...] = (
    Column("", None, sign),
    Column("where", None, lambda each: each.present.where or "·"),
    Column("edge", None, lambda each: each.present.shown),
    Column("before", None, lambda each: placements_text(each)[0]),
    Column("after", None, lambda each: placements_text(each)[1]),
    Column("", None, _making),
)


def _collective_row(change: Change[Sent]) -> tuple[str, ...]:
    part = change.present
    kind = f"{part.glyph} over {part.over}"
    amounts = [each.formula("ring") for each in (change.before, change.after) if each]
    place = f"line {part.line}"
    return (
        sign(change), part.direction, kind, part.block, part.of, place, " -> ".join(amounts)
    )  # fmt: skip


def _costs(difference: Difference) -> Iterator[tuple[str, ...]]:
    before, after = difference.before, difference.after
    yield ("", before.name, after.name, "difference")
    for name, (old, new) in difference.costs.items():
        left = evaluate_dim(old, before.report.numbers)
        right = evaluate_dim(new, after.report.numbers)
        if left is not None and right is not None and not _nothing_sent(name, old, new):
            yield (name, f"{left:,}", f"{right:,}", f"{right - left:+,}" if right != left else "0")


def _nothing_sent(name: str, old: Dim, new: Dim) -> bool:
    """Whether neither side sends: on one device there is nothing to tell."""
    return name in (*_SENDING, "ring bytes") and old == new == ZERO


def _formulas(difference: Difference) -> Iterator[str]:
    """The amounts without numbers, as formulas."""
    sides = (difference.before.report.numbers, difference.after.report.numbers)
    for name, dims in difference.costs.items():
        if all(evaluate_dim(*each) is not None for each in zip(dims, sides, strict=True)):
            continue
        if _nothing_sent(name, *dims):
            continue
        old, new = map(str, dims)
        if name in _SENDING:
            way = _SENDING[name]
            sent = difference.before.report.sent, difference.after.report.sent
            old, new = (total_formula(each, way) for each in sent)
        if name != "ring bytes":  # four times the elements
            yield f"  {name}: {old}" + (f" -> {new}" if new != old else ", as before")


# Draw the forward figure of a compilation with its changes marked and what is gone dotted.


# Ghosts: what only the first of two programs has, drawn into the figure of the second.
#
# A node is the same in both figures if it has the same id. An arrow that a path through new nodes
# replaces has no ghost. A new arrow is not marked if it only bypasses a ghost. Neither is one
# to a new node from a tensor that had another use, because the node itself is marked.


Pair = tuple[str, str]
_SHAPE: Final = re.compile(r" \[[^\]]*\]")
_BESIDE: Final = (NodeKind.TENSOR, NodeKind.SAVED, NodeKind.NOTE)


def with_ghosts(old: Figure, new: Figure) -> Figure:
    """Return the new figure with what went as ghosts, and what came marked."""
    old = _with_ids_of(new, old)
    before, after = _ids(old.nodes), _ids(new.nodes)
    came, went = after - before, before - after
    old_pairs, new_pairs = _pairs(old.edges), _pairs(new.edges)
    detours, passed = _through(new.edges, came), _through(old.edges, went)
    labels = {node.id: node.label for node in old.nodes}
    nodes = [_mark_node(node, came, labels) for node in new.nodes]
    changed = {node.id for node in nodes if node.mark is Emphasis.CHANGED and node.kind in _BESIDE}
    kept = {tail for tail, _ in old_pairs - new_pairs if tail in after}
    replacing = {(e.tail, e.head) for e in new.edges if e.tail in kept and e.head in came}
    known = old_pairs | passed | replacing
    edges = [_mark_edge(edge, came, changed, known) for edge in new.edges]
    missing = [e for e in old.edges if (e.tail, e.head) not in new_pairs | detours]
    for edge in missing:
        # Where the way has turned around an arrow against it would close a circle.
        if not _reaches(edges, edge.head, edge.tail):
            edges.append(_ghost(edge, went, old.nodes))
    drawn = {end for edge in edges for end in (edge.tail, edge.head)}
    ghosts = (
        replace(node, mark=Emphasis.WENT)
        for node in old.nodes
        if node.id in went and node.id in drawn
    )
    return replace(new, nodes=(*nodes, *ghosts), edges=tuple(edges))


def _with_ids_of(new: Figure, old: Figure) -> Figure:
    """Return the old figure with the new one's ids of tensors whose ids differ in shapes alone."""
    known = {_SHAPE.sub("", node.id): node.id for node in new.nodes}
    return with_ids(
        old, {node.id: known.get(_SHAPE.sub("", node.id), node.id) for node in old.nodes}
    )


def with_ids(figure: Figure, names: Mapping[str, str]) -> Figure:
    """Return a figure with other ids for some of its nodes."""
    ids = {node.id: names.get(node.id, node.id) for node in figure.nodes}
    edges = (replace(edge, tail=ids[edge.tail], head=ids[edge.head]) for edge in figure.edges)
    nodes = tuple(replace(node, id=ids[node.id]) for node in figure.nodes)
    return replace(figure, nodes=nodes, edges=tuple(edges))


def _ids(nodes: Iterable[FigureNode]) -> Set[str]:
    return {node.id for node in nodes if node.kind is not NodeKind.NOTE}


def _pairs(edges: Iterable[FigureEdge]) -> Set[Pair]:
    return {(edge.tail, edge.head) for edge in edges}


def _through(edges: Iterable[FigureEdge], inner: Set[str]) -> Set[Pair]:
    """Return the ends of ways whose nodes between are all of `inner`."""
    heads = _heads(edges)
    found: set[Pair] = set()
    for tail in [node for node in heads if node not in inner]:
        waiting = [head for head in heads[tail] if head in inner]
        seen = set(waiting)
        while waiting:
            for head in heads.get(waiting.pop(), ()):
                if head in inner and head not in seen:
                    seen.add(head)
                    waiting.append(head)
                elif head not in inner:
                    found.add((tail, head))
    return found


def _mark_node(node: FigureNode, came: Set[str], labels: Mapping[str, RichText]) -> FigureNode:
    """Return a node as new where it came, and as changed where it says something else."""
    if node.id in came:
        return replace(node, mark=Emphasis.CAME)
    is_other = labels.get(node.id, node.label) != node.label
    return replace(node, mark=Emphasis.CHANGED) if is_other else node


def _mark_edge(edge: FigureEdge, came: Set[str], changed: Set[str], known: Set[Pair]) -> FigureEdge:
    if edge.tail in came or (edge.tail, edge.head) not in known:
        return replace(edge, mark=Emphasis.CAME)
    return replace(edge, mark=Emphasis.CHANGED) if edge.tail in changed else edge


def _ghost(edge: FigureEdge, went: Set[str], nodes: Sequence[FigureNode]) -> FigureEdge:
    """Return an arrow of the old figure, beside the columns of the new one."""
    kinds = {node.id: node.kind for node in nodes}
    role = edge.role
    if kinds[edge.tail] in _BESIDE and edge.role is EdgeRole.SIDE:
        pass
    elif edge.tail not in went and edge.head in went:
        role = EdgeRole.BRANCH
    elif edge.head not in went:
        role = EdgeRole.SIDE
    style = EdgeStyle.SINGLE if edge.style is EdgeStyle.NOTE else edge.style
    label = edge.label if edge.tail in went else ()  # of a tensor that is still there, elsewhere
    return replace(edge, role=role, style=style, mark=Emphasis.WENT, label=label)


def _reaches(edges: Iterable[FigureEdge], start: str, end: str) -> bool:
    """Return whether a way leads from one node to another."""
    heads = _heads(edges)
    return end in level_by_level([start], lambda node: heads.get(node, ()), lambda node: node)


def _heads(edges: Iterable[FigureEdge]) -> Mapping[str, list[str]]:
    heads: Mapping[str, list[str]] = defaultdict(list)
    for edge in edges:
        heads[edge.tail].append(edge.head)
    return heads


MARKED: Final = "What is new or changed is bold and colored, what is gone dotted."

Part = TypeVar("Part", FigureNode, FigureEdge)


def changed_figure(difference: Difference) -> Figure:
    """The figure of the entry block of the second program, with what went as ghosts.

    Edges are marked whose tensor has another shape or state, or is new; so are collectives and
    other nodes that the first program has not, and called blocks in which something changed.
    """
    program = difference.after.program
    drawn = forward_drawn(program, _without_remarks(program.main))
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
        nodes=tuple(_mark_change(node, node.id in boxes) for node in figure.nodes),
        edges=tuple(_mark_change(edge, edge.tail in tails) for edge in figure.edges),
    )


def _names(difference: Difference) -> list[str]:
    """Return the names of both sides, of files without their folders where that tells them."""
    whole = [difference.after.name, difference.before.name]
    short = [PurePath(name).name for name in whole]
    return short if short[0] != short[1] else whole


def _without_remarks(graph: Graph) -> Graph:
    """Drop a graph's remarks, so that its figure only has the colors of the difference."""
    return replace(graph, remarks=())


def _mark_change(part: Part, is_changed: bool) -> Part:
    free = part.mark is Emphasis.NONE
    return replace(part, mark=Emphasis.CHANGED) if is_changed and free else part


def _tails(
    difference: Difference, graph: Graph, nodes: Mapping[Step, str], figure: Figure
) -> set[str]:
    """The nodes that give a changed tensor."""
    here = [each.after for each in difference.edges if each.after and not each.after.where]
    changed = {edge.value for edge in here if edge.direction == "forward"}
    changed |= _new_moves(difference)
    makers = {
        nodes[step]
        for step in graph.steps
        if step in nodes and any(value in changed for value in step.outputs)
    }
    names = {str(value.name) for value in changed if value.role in ("input", "param")}
    tensors = (node for node in figure.nodes if node.kind is NodeKind.TENSOR)
    return makers | {node.id for node in tensors if node.id.partition("~")[0] in names}


def _holding(difference: Difference, graph: Graph, figure: Figure) -> set[Step]:
    """Find the operators whose box holds a changed parameter, such as the β of LN."""
    tensors = (node for node in figure.nodes if node.kind is NodeKind.TENSOR)
    drawn = {node.id.partition("~")[0] for node in tensors}
    changed = {each.after.value for each in difference.edges if each.after}
    held = {each for each in changed if each.role == "param" and str(each.name) not in drawn}
    return {step for step in graph.steps if not held.isdisjoint(step.inputs)}


def _new_moves(difference: Difference) -> set[Value]:
    """Find results of moves that the first program has neither as a move nor as an edge."""
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
