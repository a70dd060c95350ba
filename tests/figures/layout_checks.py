"""Checks of a figure: no step without a use; of a placed one: no boxes on each other."""

from dataclasses import replace
from itertools import combinations, pairwise

from xg.figures.layout.lanes import lanes
from xg.figures.layout.placement import PlacedFigure
from xg.figures.model.figure import Box, EdgeStyle, Figure, NodeKind, path_points

BLIND = (NodeKind.BLOCK, NodeKind.TENSOR, NodeKind.SAVED, NodeKind.NOTE)
ON_THE_WAY = frozenset(NodeKind) - set(BLIND)


def dead_ends(figure: Figure) -> list[str]:
    """Return the operators from which nothing goes on; a block's backward may make no gradient."""
    forward = [e for e in figure.edges if e.style not in (EdgeStyle.DASHED, EdgeStyle.NOTE)]
    left = {edge.tail for edge in forward}
    bars = tuple(bar.node.id for bar in figure.bars)  # those above and below are no part of columns
    nodes = [node.id for node in figure.nodes if node.kind in ON_THE_WAY]
    return [node for node in nodes if node not in left and not node.startswith(bars)]


def boxes(placed: PlacedFigure) -> dict[str | int, Box]:
    """Return everything that must keep apart: nodes, labels, labels of lanes."""
    around = lanes(placed)
    return {**placed.nodes, **placed.labels, **around.labels}


def overlaps(placed: PlacedFigure) -> list[tuple[str | int, str | int]]:
    around = [(owner, box.grown(-0.5), box) for owner, box in boxes(placed).items()]
    pairs = combinations(around, 2)
    return [(a, b) for (a, one, _), (b, _, other) in pairs if one.overlaps(other)]


def struck(placed: PlacedFigure) -> list[tuple[int, str | int]]:
    """Return edges that run through a box that is neither their end nor their label."""
    # A label's box begins on its line: its text, LABEL_GAP further right, counts.
    texts = {
        owner: (box if isinstance(owner, str) else replace(box, left=box.left + 2,
                                                           right=box.right - 2)).grown(-0.5)
        for owner, box in boxes(placed).items()
    }  # fmt: skip
    found: list[tuple[int, str | int]] = []
    for number, path in placed.paths.items():
        edge, around = placed.figure.edges[number], path.bounds().grown(1.0)
        near = [(owner, text) for owner, text in texts.items() if around.overlaps(text)]
        points = path_points(path, steps=24) if near else ()
        for owner, text in near:
            if owner in (edge.tail, edge.head, number) or is_partner(placed, number, owner):
                continue
            if any(crosses(a, b, text) for a, b in pairwise(points)):
                found.append((number, owner))
    return found


def is_partner(placed: PlacedFigure, number: int, owner: str | int) -> bool:
    """Tell whether a label box is that of the pair an edge belongs to: lines run through it."""
    if isinstance(owner, str):
        return False
    one, other = placed.figure.edges[number], placed.figure.edges[owner]
    return (one.tail, one.head) == (other.head, other.tail)


def crosses(a: tuple[float, float], b: tuple[float, float], box: Box) -> bool:
    """Tell whether a short line touches a box, by points along it."""
    left, right, top, bottom = box.left, box.right, box.top, box.bottom
    beside = max(a[0], b[0]) <= left or min(a[0], b[0]) >= right
    if beside or max(a[1], b[1]) <= top or min(a[1], b[1]) >= bottom:
        return False
    steps = 1 + int(max(abs(a[0] - b[0]), abs(a[1] - b[1])))
    line = (
        (a[0] + (b[0] - a[0]) * k / steps, a[1] + (b[1] - a[1]) * k / steps)
        for k in range(steps + 1)
    )
    return any(left < x < right and top < y < bottom for x, y in line)
