"""Ghosts: what only the first of two programs has, drawn into the figure of the second.

A node is the same in both figures if it has the same id. An arrow that a way through new nodes
replaces has no ghost, and a new one is not marked where it only passes a ghost by, or where its
tensor went elsewhere before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

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
from xg.ir.walk import level_by_level

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
    nodes = [_compared(node, came, labels) for node in new.nodes]
    changed = {node.id for node in nodes if node.mark is Emphasis.CHANGED and node.kind in _BESIDE}
    kept = {tail for tail, _ in old_pairs - new_pairs if tail in after}
    known = old_pairs | passed | {(e.tail, e.head) for e in new.edges if e.tail in kept}
    edges = [_marked(edge, came, changed, known) for edge in new.edges]
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


def _compared(node: FigureNode, came: Set[str], labels: Mapping[str, RichText]) -> FigureNode:
    """Return a node as new where it came, and as changed where it says something else."""
    if node.id in came:
        return replace(node, mark=Emphasis.CAME)
    is_other = labels.get(node.id, node.label) != node.label
    return replace(node, mark=Emphasis.CHANGED) if is_other else node


def _marked(edge: FigureEdge, came: Set[str], changed: Set[str], known: Set[Pair]) -> FigureEdge:
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
