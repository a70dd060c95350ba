"""Straightening: what stands almost under each other is put exactly under each other.

Layout engines round to points and half points, and a unit's port lies on a grid of its own; over a
long column an eye sees that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from xg.figures.layout.placed import PlacedFigure
from xg.figures.model.geometry import Box
from xg.figures.model.structure import Place

_ALMOST: Final = 3.0  # points
_COLUMN: Final = (Place.DOWN, Place.OUT, Place.PAIRED)


def straightened(placed: PlacedFigure) -> PlacedFigure:
    """Shift nodes by less than three points, so that each column has one middle."""
    nodes = dict(placed.nodes)
    edges = placed.figure.edges
    order = sorted(range(len(edges)), key=lambda number: placed.facts.rows[edges[number].tail])
    for number in order:
        edge = edges[number]
        shift = nodes[edge.tail].center[0] - nodes[edge.head].center[0]
        if placed.facts.places[number] in _COLUMN and 0 < abs(shift) < _ALMOST:
            unit = (edge.head, placed.facts.left.get(edge.head), placed.facts.right.get(edge.head))
            for node in filter(None, unit):
                nodes[node] = nodes[node].moved(shift, 0.0)
    labels = {n: _beside(placed, n, box, nodes) for n, box in placed.labels.items()}
    return replace(placed, nodes=nodes, labels=labels)


def _beside(placed: PlacedFigure, number: int, box: Box, nodes: dict[str, Box]) -> Box:
    """Put a label's box back to the line that its node moved away with."""
    edge, place = placed.figure.edges[number], placed.facts.places[number]
    line = nodes[edge.head if place is Place.BRANCH else edge.tail].center[0]
    shift = line - (box.center[0] if place is Place.PAIRED else box.left)
    return box.moved(shift, 0.0) if abs(shift) < _ALMOST else box
