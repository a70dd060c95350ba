"""Labels over the level part of a line, where beside its upright parts there is no room."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from xg.figures.layout.measure import Extent
from xg.figures.layout.obstacles import Obstacles
from xg.figures.model.geometry import Box, DrawnPath, Point, flattened

_OVER: Final = 4.0  # from a line to a label over it
_END: Final = 8.0  # that a label keeps off the ends of its part
_ROOM: Final = 1.0
_STEP: Final = 4.0


def box_over(path: DrawnPath, size: Extent, obstacles: Obstacles, top: float) -> Box | None:
    """Find room for a label over a line's level parts, nearest to the middle of each.

    It reaches no higher than `top`: a figure does not grow for it.
    """
    for a, b in pairwise(flattened(path)):
        if a[1] == b[1]:
            for center in _places(a, b, size):
                box = Box.around(center, size.width, size.height)
                if box.top >= top and not any(True for _ in obstacles.near(box.grown(_ROOM))):
                    return box
    return None


def _places(a: Point, b: Point, size: Extent) -> Iterator[Point]:
    """Yield the middles that a label may have over a level part."""
    middle, y = (a[0] + b[0]) / 2, a[1] - _OVER - size.height / 2
    spare = (abs(b[0] - a[0]) - size.width) / 2 - _END
    for step in range(int(spare / _STEP) + 1 if spare >= 0.0 else 0):
        yield from ((middle + sign * step * _STEP, y) for sign in (1, -1))
