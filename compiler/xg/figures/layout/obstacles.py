"""Obstacles of labels: nodes, other labels, lines, the rims of frames."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from xg.figures.layout.placed import PlacedFigure
from xg.figures.model.geometry import Box, Point

_BAND: Final = 64.0  # points; a few rows
_CLEARANCE: Final = 2.0

Owner = str | int  # a node's id, an edge's number, or a frame's


class Obstacles:
    """Boxes with their owners, sorted into horizontal bands so that few are looked at."""

    def __init__(self) -> None:
        self._bands: dict[int, list[tuple[Owner, Box]]] = defaultdict(list)

    @classmethod
    def of(cls, placed: PlacedFigure) -> Obstacles:
        """Return the nodes and the labels of a figure."""
        found = cls()
        for node_id, box in placed.nodes.items():
            found.add(node_id, box)
        for number, box in placed.labels.items():
            # A label's box begins at its line; its text does not.
            found.add(number, Box(box.left + _CLEARANCE, box.top, box.right, box.bottom))
        return found

    def add(self, owner: Owner, box: Box) -> None:
        """Put up one more."""
        for band in _bands(box):
            self._bands[band].append((owner, box))

    def near(self, area: Box) -> Iterator[tuple[Owner, Box]]:
        """Yield what overlaps an area, in the order in which it was put up, maybe repeatedly."""
        for band in _bands(area):
            for owner, box in self._bands.get(band, ()):
                if box.overlaps(area):
                    yield owner, box


def strip(a: Point, b: Point) -> Box:
    """Return the room that a straight line needs."""
    left, right = sorted((a[0], b[0]))
    top, bottom = sorted((a[1], b[1]))
    return Box(left, top, right, bottom).grown(_CLEARANCE)


def _bands(box: Box) -> range:
    return range(int(box.top // _BAND), int(box.bottom // _BAND) + 1)
