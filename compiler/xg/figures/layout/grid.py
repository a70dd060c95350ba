"""The plain arrangement: rows from the structure, one column per chain of nodes, nothing clever.

For machines without a layout engine, and for figures that every engine gave up. Its time grows with
the size of the figure and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Final

from xg.figures.layout.measure import Extent
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.placement import label_boxes
from xg.figures.layout.unit import node_sizes
from xg.figures.model import style
from xg.figures.model.figure import Figure
from xg.figures.model.geometry import Box
from xg.figures.model.structure import EdgePlace, Structure

NAME: Final = "plain grid"
_LABEL_ROOM: Final = 28.0  # between two rows of nodes
_NEAR: Final = 12.0  # of it, above and below the highest label
_LEAST_ROW: Final = 24.0


def on_a_grid(figure: Figure, facts: Structure, warning: str) -> PlacedFigure:
    """Place a figure in rows and columns, its labels under the nodes they leave."""
    sizes = node_sizes(figure, facts)
    columns = _columns(figure, facts)
    labels = label_boxes(figure, facts).values()
    room = max([_LABEL_ROOM, *(size.height + _NEAR for size in labels)])
    tops = _row_tops(facts, sizes, room)
    middles = _column_middles(figure, facts, sizes, columns)
    nodes: dict[str, Box] = {}
    for node_id, column in columns.items():
        center = middles[column], tops[facts.rows[node_id]] + sizes[node_id].height / 2
        nodes[node_id] = Box.around(center, sizes[node_id].width, sizes[node_id].height)
    for beside, sign in ((facts.left, -1), (facts.right, 1)):
        for head, tensor in beside.items():
            x, y = nodes[head].center
            reach = (sizes[head].width + sizes[tensor].width) / 2 + style.NODE_GAP
            nodes[tensor] = Box.around(
                (x + sign * reach, y), sizes[tensor].width, sizes[tensor].height
            )
    below = _labels(figure, facts, nodes, tops, room)
    return PlacedFigure(figure, facts, nodes, below, NAME, warning)


def _columns(figure: Figure, facts: Structure) -> dict[str, int]:
    """Number the chains: a node is in the column of the node above it, once."""
    above: dict[str, str] = {}
    continued: set[str] = set()
    for edge, place in zip(figure.edges, facts.places, strict=True):
        free = edge.head not in above and edge.tail not in continued
        if place in (EdgePlace.DOWN, EdgePlace.OUT) and free:
            above[edge.head] = edge.tail
            continued.add(edge.tail)
    aside = {*facts.left.values(), *facts.right.values()}
    columns: dict[str, int] = {}
    for node_id in sorted(facts.rows, key=lambda one: facts.rows[one]):
        if node_id not in aside:
            column = columns.get(above.get(node_id, ""))
            columns[node_id] = len(set(columns.values())) if column is None else column
    return columns


def _row_tops(facts: Structure, sizes: dict[str, Extent], room: float) -> dict[int, float]:
    heights: dict[int, float] = defaultdict(lambda: _LEAST_ROW)
    for node_id, row in facts.rows.items():
        heights[row] = max(heights[row], sizes[node_id].height)
    tops: dict[int, float] = {}
    y = 0.0
    for row in sorted(heights):
        tops[row] = y
        y += heights[row] + room
    return tops


def _column_middles(
    figure: Figure, facts: Structure, sizes: dict[str, Extent], columns: dict[str, int]
) -> dict[int, float]:
    """Give every column the width that its widest row and its labels need."""
    left: dict[int, float] = defaultdict(float)
    right: dict[int, float] = defaultdict(float)
    for node_id, column in columns.items():
        half = sizes[node_id].width / 2
        for beside, side in ((facts.left, left), (facts.right, right)):
            room = sizes[beside[node_id]].width + style.NODE_GAP if node_id in beside else 0.0
            side[column] = max(side[column], half + room)
    for number, size in label_boxes(figure, facts).items():
        edge = figure.edges[number]
        branches = facts.places[number] is EdgePlace.BRANCH
        column = columns.get(edge.head if branches else edge.tail)
        if column is not None:
            is_pair = number in facts.twins
            right[column] = max(right[column], size.width / (2 if is_pair else 1))
            left[column] = max(left[column], size.width / 2 if is_pair else 0.0)
    middles: dict[int, float] = {}
    x = 0.0
    for column in sorted(set(columns.values())):
        middles[column] = x + left[column]
        x = middles[column] + right[column] + style.NODE_GAP
    return middles


def _labels(
    figure: Figure, facts: Structure, nodes: dict[str, Box], tops: dict[int, float], room: float
) -> dict[int, Box]:
    """Put labels into the room below the row they leave, or above the one they branch to."""
    below = dict(pairwise(sorted(tops)))
    labels: dict[int, Box] = {}
    for number, size in label_boxes(figure, facts).items():
        edge, is_branch = figure.edges[number], facts.places[number] is EdgePlace.BRANCH
        x = nodes[edge.head if is_branch else edge.tail].center[0]
        row = facts.rows[edge.head] if is_branch else below[facts.rows[edge.tail]]
        shift = 0.0 if number in facts.twins else size.width / 2
        center = x + shift, tops[row] - room / 2
        labels[number] = Box.around(center, size.width, size.height)
    return labels
