"""Rails: at which height each sideways edge leaves or enters a node, so that none cross there.

At one side of a node, from top to bottom: edges that come in from above, the nearer column first;
then edges that go out and down, the farther column first. Branches with one and the same single
arrow share a rail, as they carry one tensor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from xg.figures.layout.placed import PlacedFigure
from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle, FigureEdge, NodeKind
from xg.figures.model.structure import Place

ALIGNED: Final = 1.5  # a smaller shift between two ends is rounding, not a bend
_LEAST_GAP: Final = 4.0


class Flank(Enum):
    """A side of a node."""

    LEFT = -1
    RIGHT = 1


@dataclass(frozen=True, slots=True)
class Rail:
    """The side at which an edge leaves (a branch) or enters (a side edge), and how far off."""

    flank: Flank
    offset: float  # from the middle of the node, downwards
    joins: bool = False  # another edge draws the common part


@dataclass(frozen=True, slots=True)
class _Stop:
    edge: int
    outgoing: bool
    distance: float
    shared: bool


def rails(placed: PlacedFigure) -> Mapping[int, Rail]:
    """Assign rails; an edge without one finds no room, or runs too steeply for one."""
    stops: dict[tuple[str, Flank], list[_Stop]] = defaultdict(list)
    for number, (edge, place) in enumerate(
        zip(placed.figure.edges, placed.facts.places, strict=True)
    ):
        # What leaves a bar forks off below it.
        is_free = place is Place.BRANCH and edge.tail not in placed.figure.levels
        if is_free or place is Place.SIDE:
            node = edge.tail if place is Place.BRANCH else edge.head
            distance = _run(placed, number, edge, place)
            reach = placed.nodes[node].width / 2 + style.CORNER
            if abs(distance) > reach and _is_vertical(placed, number, edge, place):
                flank = Flank.RIGHT if distance > 0 else Flank.LEFT
                shared = place is Place.BRANCH and _shares(placed, edge)
                stop = _Stop(number, place is Place.BRANCH, abs(distance), shared)
                stops[node, flank].append(stop)
    found: dict[int, Rail] = {}
    for (node, flank), here in stops.items():
        beside = placed.facts.left if flank is Flank.LEFT else placed.facts.right
        if node not in beside:
            found |= _spread(here, flank, placed.nodes[node].height)
    return found


def vertical(placed: PlacedFigure, number: int) -> float:
    """Return the x of an edge's vertical part: beside its label, else at its far end."""
    if number in placed.labels:
        return placed.labels[number].left
    edge = placed.figure.edges[number]
    far = edge.head if placed.facts.places[number] is Place.BRANCH else edge.tail
    return placed.nodes[far].center[0]


def _run(placed: PlacedFigure, number: int, edge: FigureEdge, place: Place) -> float:
    near = edge.tail if place is Place.BRANCH else edge.head
    return vertical(placed, number) - placed.nodes[near].center[0]


def _is_vertical(placed: PlacedFigure, number: int, edge: FigureEdge, place: Place) -> bool:
    """Tell whether the edge's label stands straight above or below the edge's far end."""
    far = edge.head if place is Place.BRANCH else edge.tail
    return abs(vertical(placed, number) - placed.nodes[far].center[0]) < ALIGNED


def _shares(placed: PlacedFigure, edge: FigureEdge) -> bool:
    ends_in_tensor = placed.facts.kinds[edge.head] is NodeKind.TENSOR
    return edge.style is EdgeStyle.SINGLE and not edge.label and not ends_in_tensor


def _spread(stops: list[_Stop], flank: Flank, height: float) -> dict[int, Rail]:
    incoming = sorted((s for s in stops if not s.outgoing), key=lambda s: s.distance)
    outgoing = sorted((s for s in stops if s.outgoing), key=lambda s: -s.distance)
    levels: list[list[_Stop]] = []
    for stop in (*incoming, *outgoing):
        if levels and stop.shared and levels[-1][0].shared:
            levels[-1].append(stop)
        else:
            levels.append([stop])
    gap = min(style.RAIL_GAP, (height - 6.0) / max(len(levels) - 1, 1))
    if len(levels) > 1 and gap < _LEAST_GAP:
        return {}
    first = -gap * (len(levels) - 1) / 2
    return {
        stop.edge: Rail(flank, first + gap * level, joins=stop is not here[0])
        for level, here in enumerate(levels)
        for stop in here
    }
