"""Results hang at equal distances: arrows to results of side columns are of one length.

Rows are as high as what is highest in them, so a result in the next row may be far below. Where
nothing is in the way, it moves up to as near as the nearest result of a side column is to its node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from xg.figures.layout.obstacles import Obstacles
from xg.figures.layout.placed import PlacedFigure
from xg.figures.model.figure import NodeKind
from xg.figures.model.geometry import Box, bounding_box, flattened, polyline
from xg.figures.model.structure import EdgePlace

_CLEAR: Final = 4.0  # between a result and all else


def with_even_results(placed: PlacedFigure) -> PlacedFigure:
    """Return the figure with results of side columns as near to their nodes as the nearest is.

    Bars of ranks side by side part their columns: there results stay in their rows.
    """
    lengths = {} if placed.figure.levels else dict(_arrows(placed))
    if len(lengths) < 2:
        return placed
    least = min(lengths.values())
    nodes, paths = dict(placed.nodes), dict(placed.paths)
    taken = _taken(placed)
    for number, length in lengths.items():
        edge = placed.figure.edges[number]
        head, own = edge.head, (edge.head, edge.tail, number)  # with the owners of its own room
        box = nodes[head].moved(0.0, least - length)
        room = bounding_box([box, nodes[head]]).grown(_CLEAR)
        if length > least and all(owner in own for owner, _ in taken.near(room)):
            nodes[head] = box
            (x, start), (_, end) = flattened(paths[number])
            paths[number] = polyline(((x, start), (x, end + least - length)))
    return replace(placed, nodes=nodes, paths=paths)


def _arrows(placed: PlacedFigure) -> Iterator[tuple[int, float]]:
    """Yield the arrows straight down to results, of side columns or sent, with their lengths."""
    figure, facts = placed.figure, placed.facts
    tails = {edge.tail for edge in figure.edges}
    for number, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True)):
        is_sent = facts.kinds[edge.tail] is NodeKind.COMMUNICATION and not edge.label
        is_result = facts.kinds[edge.head] is NodeKind.TENSOR and edge.head not in tails
        is_down = place is EdgePlace.OUT or (place is EdgePlace.DOWN and is_sent)
        if is_result and is_down and number not in facts.twins:
            points = list(flattened(placed.paths[number]))
            if len(points) == 2 and points[0][0] == points[1][0]:
                yield number, points[1][1] - points[0][1]


def _taken(placed: PlacedFigure) -> Obstacles:
    """Return the room of all that is drawn; a label is in the way of its own arrow, too."""
    taken = Obstacles()
    for node, box in placed.nodes.items():
        taken.add(node, box)
    for box in placed.labels.values():
        taken.add("", box)
    for number, path in placed.paths.items():
        for (x, y), (u, v) in pairwise(flattened(path)):
            taken.add(number, Box(min(x, u), min(y, v), max(x, u), max(y, v)))
    return taken
