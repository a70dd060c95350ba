"""The field of a placed figure, with everything that lines run around: boxes, labels, lanes."""

from __future__ import annotations

from xg.figures.layout.field import CLEAR, Range, RoutingField
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.request import FLAT, bars_of, key_of
from xg.figures.model import style
from xg.figures.model.figure import FigureGroup
from xg.figures.model.geometry import Box, bounding_box


def field_of(placed: PlacedFigure) -> RoutingField:
    """Return the rows of a placed figure, with everything in them."""
    boxes = [*placed.nodes.values(), *placed.labels.values()]
    field = RoutingField.of(boxes)
    bars = bars_of(placed)
    for node, box in placed.nodes.items():
        if node not in bars:
            field.rows[field.row(box)].block(box.left, box.right)
    for number, box in placed.labels.items():
        label_blocks(placed, field, number, box, put=True)
    for edge, place in zip(placed.figure.edges, placed.facts.places, strict=True):
        if place in FLAT:
            ends = placed.nodes[edge.tail], placed.nodes[edge.head]
            first, last = sorted(ends, key=lambda box: box.left)
            field.rows[field.row(first)].block(first.right, last.left)
    for number, group in enumerate(placed.figure.groups):
        if group.is_axis and not placed.figure.columns:
            _frame_lane(placed, field, number, group)
    return field


def _frame_lane(placed: PlacedFigure, field: RoutingField, number: int, group: FigureGroup) -> None:
    """Keep the upright lines of others out of a lane: in its frame they would seem to be in it."""
    members = set(group.nodes)
    ends = [{edge.tail, edge.head} for edge in placed.figure.edges]
    boxes = [placed.nodes[node] for node in group.nodes]
    boxes += [box for n, box in placed.labels.items() if ends[n] <= members]
    inside = bounding_box(boxes)
    strangers = [box for node, box in placed.nodes.items() if node not in members]
    around = inside.grown(style.GROUP_PADDING)
    if any(around.overlaps(box) for box in strangers):
        around = inside
    if not any(around.overlaps(box) for box in strangers):
        rows = [field.row(box) for box in boxes]
        for row in range(min(rows), max(rows) + 1):
            field.rows[row].framed[number] = around.left, around.right


def label_blocks(
    placed: PlacedFigure, field: RoutingField, number: int, box: Box, *, put: bool
) -> None:
    """Block a label's room in its row, or let lines through there again."""
    row = field.rows[field.row(box)]
    lines = row.labelled.setdefault(key_of(placed.figure.edges[number], None), [])
    is_paired = number in placed.facts.twins
    if put:
        row.block(*blocked(placed, number, box))
        lines += [] if is_paired else [box.left]
    else:
        row.taken.remove(blocked(placed, number, box))
        if not is_paired:
            lines.remove(box.left)


def blocked(placed: PlacedFigure, number: int, box: Box) -> Range:
    """Return what of its row a label takes: a single line may run at its left end."""
    is_paired = number in placed.facts.twins
    return box.left if is_paired else box.left + CLEAR - 1.0, box.right
