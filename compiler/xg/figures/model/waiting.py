"""Columns that wait: where others that branch off above have ended before the next ones begin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xg.figures.model.figure import Figure
from xg.figures.model.structure import EdgePlace

_ROWS = {EdgePlace.DOWN: 2, EdgePlace.OUT: 1, EdgePlace.BRANCH: 2}  # half rows, as placed
_Below: TypeAlias = Mapping[str, tuple[int, str, int]]  # the edge down, its head, its half rows


def waits(figure: Figure, places: Sequence[EdgePlace]) -> dict[int, int]:
    """Return how many half rows edges wait at which other columns branch off, by their numbers.

    Columns that end beside one then end above those that branch off it next, and need not lie
    farther from it than these.
    """
    branches: dict[str, list[str]] = defaultdict(list)
    below: dict[str, tuple[int, str, int]] = {}
    for number, (edge, place) in reversed(list(enumerate(zip(figure.edges, places, strict=True)))):
        if place is EdgePlace.BRANCH:
            branches[edge.tail].append(edge.head)
        elif place in _ROWS:
            below[edge.tail] = number, edge.head, _ROWS[place]
    joining = {e.tail for e, place in zip(figure.edges, places, strict=True)
               if place in (EdgePlace.SIDE, EdgePlace.AROUND)}  # fmt: skip
    found: dict[int, int] = {}
    for tail, heads in branches.items():
        next_one, last, depth = _down(tail, below, branches)
        ends = [_down(head, below, {}) for head in heads]
        deepest = max(
            (_ROWS[EdgePlace.BRANCH] + rows for end, _, rows in ends if end not in joining),
            default=0,
        )
        if next_one in branches and next_one != tail and deepest >= depth:
            found[last] = deepest + 1 - depth
    return found


def _down(start: str, below: _Below, ends: Mapping[str, object]) -> tuple[str, int, int]:
    """Follow a column down to its end or one of `ends`; return it, the last edge and the depth."""
    node, last, depth = start, -1, 0
    while node in below and (node == start or node not in ends):
        last, node, rows = below[node]
        depth += rows
    return node, last, depth
