"""Tangles: how hard the edges of a routed figure are to follow, to choose between placements."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from xg.figures.layout.placed import PlacedFigure
from xg.figures.model.geometry import DrawnPath, Point
from xg.figures.model.structure import EdgePlace

Key = tuple[str, str | int]
Part = tuple[float, float, float, Key]  # where it is, from where to where
_CROSSING: Final = 4  # of such a cost are so many bends in a column


def tangles(placed: PlacedFigure) -> int:
    """Return what crossings and bends in columns cost together."""
    columns = (n for n, place in enumerate(placed.facts.places) if place is EdgePlace.DOWN)
    bends = sum(len(placed.paths[number].segments) > 1 for number in columns)
    upright, level = _parts(placed)
    return _CROSSING * _crossings(level, upright) + bends


def crossings_on_bars(placed: PlacedFigure) -> int:
    """Count how often lines that branch or turn on bars cross those that pass there."""
    upright, _ = _parts(placed)
    return _crossings(_on_bars(placed), upright)


def corners(placed: PlacedFigure) -> int:
    """Count the corners of all edges; a line that goes on elsewhere behind a bar has two more."""
    bends = (part.controls is not None for p in placed.paths.values() for part in p.segments)
    return sum(bends) + 2 * sum(right > left for _, left, right, _ in _on_bars(placed))


def _parts(placed: PlacedFigure) -> tuple[list[Part], list[Part]]:
    """Return the upright and the level parts of all arrows, without those back beside them."""
    upright: list[Part] = []
    level: list[Part] = []
    for number, path in placed.paths.items():
        if placed.facts.places[number] is EdgePlace.BACK:
            continue
        key = placed.figure.edges[number].value
        for (x, y), (u, v) in pairwise(_corners(path)):
            if x == u:
                upright.append((x, min(y, v), max(y, v), key))
            else:
                level.append((y, min(x, u), max(x, u), key))
    return sorted(upright), level


def _crossings(level: Iterable[Part], upright: Sequence[Part]) -> int:
    """Count how often level and upright parts of different values cross."""
    xs = [x for x, *_ in upright]
    return sum(
        top < y < bottom and key != other
        for y, left, right, key in level
        for _, top, bottom, other in upright[bisect_right(xs, left) : bisect_left(xs, right)]
    )


def _on_bars(placed: PlacedFigure) -> Iterator[Part]:
    """Yield where lines run level on bars that they pass: to every arrow that leaves these."""
    numbered = list(enumerate(placed.figure.edges))
    for number, edge in numbered:
        for other, leaving in numbered if edge.passes else ():
            if leaving.tail == edge.head and leaving.is_back == edge.is_back:
                a, b = placed.paths[number].end[0], placed.paths[other].start[0]
                yield placed.nodes[edge.head].center[1], min(a, b), max(a, b), edge.value


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
