"""Tangles: how hard the edges of a routed figure are to follow, to choose between placements."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Final

from xg.figures.layout.placed import PlacedFigure
from xg.figures.model.geometry import DrawnPath, Point
from xg.figures.model.structure import EdgePlace

Key = tuple[str, str | int]
_CROSSING: Final = 4  # of such a cost are so many bends in a column


def tangles(placed: PlacedFigure) -> int:
    """Return what crossings and bends in columns cost together."""
    columns = (n for n, place in enumerate(placed.facts.places) if place is EdgePlace.DOWN)
    bends = sum(len(placed.paths[number].segments) > 1 for number in columns)
    return _CROSSING * crossings(placed) + bends


def crossings(placed: PlacedFigure) -> int:
    """Count how often level and upright parts of different values cross.

    An arrow back counts with the one that it is beside.
    """
    upright: list[tuple[float, float, float, Key]] = []
    level: list[tuple[float, float, float, Key]] = []
    for number, path in placed.paths.items():
        if placed.facts.places[number] is EdgePlace.BACK:
            continue
        key = placed.figure.edges[number].value
        for (x, y), (u, v) in pairwise(_corners(path)):
            if x == u:
                upright.append((x, min(y, v), max(y, v), key))
            else:
                level.append((y, min(x, u), max(x, u), key))
    upright.sort()
    xs = [x for x, *_ in upright]
    return sum(
        top < y < bottom and key != other
        for y, left, right, key in level
        for _, top, bottom, other in upright[bisect_right(xs, left) : bisect_left(xs, right)]
    )


def _corners(path: DrawnPath) -> list[Point]:
    """Return the corners of a path of straight lines and round corners."""
    corners = [path.start]
    for before, segment in pairwise((None, *path.segments)):
        if segment is None or segment.controls is None:
            continue
        (x, y), (u, v) = before.end if before else path.start, segment.end
        is_upright = before is not None and corners[-1][0] == x
        corners.append((x, v) if is_upright else (u, y))
    return [*corners, path.end]
