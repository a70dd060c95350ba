"""Straightening: what is to be under something else is put exactly there, where there is room.

Layout engines round, and settle for almost; over a long column an eye sees that. Nothing changes
its row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from xg.figures.layout.field import CLEAR, HEAD
from xg.figures.layout.placed import PlacedFigure
from xg.figures.model import style
from xg.figures.model.geometry import Box
from xg.figures.model.structure import EdgePlace, entered_aside
from xg.figures.model.through_bars import through_bars

_ALMOST: Final = 3.0  # points: a shift that is rounding, and takes no room
_MOST: Final = 60.0  # a larger shift is meant
_LITTLE: Final = 24.0  # a branch that far from another, or from its line, is meant to be there
_ROOM: Final = 10.0  # that is left to a neighbour
_NARROW: Final = 4.0  # that a label leaves
_COLUMN: Final = (EdgePlace.DOWN, EdgePlace.OUT)
_BANDS: Final = 40.0


def straightened(placed: PlacedFigure) -> PlacedFigure:
    """Shift nodes and labels sideways, so that each column has one middle."""
    sheet = _MovingBoxes(placed)
    edges = placed.figure.edges
    places = enumerate(placed.facts.places)
    column = [number for number, place in places if place in _COLUMN]
    column.sort(key=lambda number: placed.facts.rows[edges[number].tail])
    for numbers, down in ((column, True), (column[::-1], False), (column, True)):
        for number in numbers:
            edge = edges[number]
            still, moving = (edge.tail, edge.head) if down else (edge.head, edge.tail)
            sheet.align(moving, sheet.nodes[still].center[0])
    for number in placed.labels:
        sheet.put_beside(number)
    aside = () if placed.apart else entered_aside(placed.figure, placed.facts.places)
    for one, other in through_bars(placed.figure, aside).items():
        sheet.put_under(one, other)
    if not placed.figure.levels:
        _straighten_branches(sheet)
        for number in placed.labels:
            sheet.put_beside(number)
    return replace(placed, nodes=sheet.nodes, labels=sheet.labels)


def _straighten_branches(sheet: _MovingBoxes) -> None:
    """Put columns that branch off under the lines to them, and equal ones under each other."""
    facts, edges = sheet.placed.facts, sheet.placed.figure.edges
    branches = [n for n, place in enumerate(facts.places) if place is EdgePlace.BRANCH]
    below = _below(sheet.placed)
    columns = {n: _column(sheet.placed, edges[n].head, below) for n in branches}
    for number in branches:
        sheet.shift(columns[number], sheet.beside_texts(number))
    kinds = {n: facts.kinds[edges[n].head] for n in branches}
    branches.sort(key=lambda n: (kinds[n].name, -sheet.middle(edges[n].head)))
    for one, other in pairwise(branches):
        x, y = (sheet.middle(edges[n].head) for n in (one, other))
        if kinds[one] is kinds[other] and not sheet.shift([*columns[other], other], x - y):
            sheet.shift([*columns[one], one], y - x)


def _below(placed: PlacedFigure) -> dict[str, list[int]]:
    """Return the edges by which columns go on, by the nodes that they leave."""
    found: dict[str, list[int]] = defaultdict(list)
    for number, edge in enumerate(placed.figure.edges):
        if placed.facts.places[number] in _COLUMN:
            found[edge.tail].append(number)
    return found


def _column(placed: PlacedFigure, head: str, below: Mapping[str, Sequence[int]]) -> list[str | int]:
    """Return the nodes and labels of a column, which begins with a node."""
    found: list[str | int] = []
    heads = [head]
    for node in heads:
        beside = (node, placed.facts.left.get(node), placed.facts.right.get(node))
        found += (one for one in beside if one)
        found += below.get(node, ())
        heads += (placed.figure.edges[number].head for number in below.get(node, ()))
    return found


class _MovingBoxes:
    """Boxes that move; all those in one band of the page are looked at."""

    def __init__(self, placed: PlacedFigure) -> None:
        self.placed = placed
        self.nodes = dict(placed.nodes)
        self.labels = dict(placed.labels)
        self.bands: dict[int, set[str | int]] = defaultdict(set)
        self.loose = frozenset[str]() if placed.apart else _loose(placed)
        for name, box in (*self.nodes.items(), *self.labels.items()):
            for band in _bands(box):
                self.bands[band].add(name)

    def align(self, node: str, x: float) -> None:
        """Move a node and the tensors beside it, if nothing is in the way."""
        shift = x - self.nodes[node].center[0]
        if shift == 0 or (abs(shift) > _MOST and node not in self.loose):
            return
        facts = self.placed.facts
        unit = [one for one in (node, facts.left.get(node), facts.right.get(node)) if one]
        if abs(shift) < _ALMOST or self._is_free(unit, shift):
            for one in unit:
                self.nodes[one] = self.nodes[one].moved(shift, 0.0)

    def middle(self, node: str) -> float:
        """Return where the column of a node is."""
        return self.nodes[node].center[0]

    def beside_texts(self, branch: int) -> float:
        """Return how far a branch has to be moved for its line to run past the labels above it."""
        edge = self.placed.figure.edges[branch]
        tail, head = self.nodes[edge.tail], self.nodes[edge.head]
        x = head.center[0]
        ends = [
            box.right + CLEAR
            for number, box in self.labels.items()
            if number != branch
            and tail.top < box.center[1] < head.top
            and box.left - CLEAR < x < box.right + CLEAR
        ]
        return max(ends, default=x) - x

    def shift(self, unit: Iterable[str | int], shift: float) -> bool:
        """Move nodes and labels a little, if nothing is in the way; say whether they are there."""
        boxes = [one for one in unit if one in self.nodes or one in self.labels]
        if not 0 < abs(shift) <= _LITTLE:
            return shift == 0
        if not self._is_free(boxes, shift):
            return False
        for one in boxes:
            if isinstance(one, str):
                self.nodes[one] = self.nodes[one].moved(shift, 0.0)
            else:
                self.labels[one] = self.labels[one].moved(shift, 0.0)
        return True

    def put_beside(self, number: int) -> None:
        """Move a label to its line, to the first place where nothing is in the way."""
        box = self.labels[number]
        for line in self._lines(number):
            shift = line - self._line_of(number)
            is_near = abs(shift) <= _MOST or self.placed.figure.edges[number].tail in self.loose
            if abs(shift) < _ALMOST or (is_near and self._is_free([number], shift, _NARROW)):
                self.labels[number] = box.moved(shift, 0.0)
                return

    def put_under(self, one: int, other: int) -> None:
        """Put the labels of a line above and below a bar under each other, if there is room.

        That of an edge down a column stays: the edge would bend.
        """
        if one in self.labels and other in self.labels:
            above, below = (self._line_of(number) for number in (one, other))
            for number, shift in ((other, above - below), (one, below - above)):
                is_near = abs(shift) <= _MOST and self.placed.facts.places[number] not in _COLUMN
                if is_near and self._is_free([number], shift, _NARROW):
                    self.labels[number] = self.labels[number].moved(shift, 0.0)
                    break

    def _line_of(self, number: int) -> float:
        """Return where a line runs beside its label, or a pair around it."""
        box = self.labels[number]
        return box.center[0] if number in self.placed.facts.twins else box.left

    def _lines(self, number: int) -> Iterator[float]:
        """Yield where an edge may run past its label, what needs fewest bends first."""
        edge, place = self.placed.figure.edges[number], self.placed.facts.places[number]
        tail, head = self.nodes[edge.tail], self.nodes[edge.head]
        if place is EdgePlace.AROUND and head.left < tail.center[0] < head.right + HEAD:
            # Straight under its tail is the node that it enters from beside.
            yield max(tail.right, head.right) + style.LANE_GAP
        yield head.center[0] if place is EdgePlace.BRANCH else tail.center[0]
        if place is EdgePlace.DOWN:
            yield head.center[0]

    def _is_free(self, unit: Sequence[str | int], shift: float, room: float = _ROOM) -> bool:
        boxes = [self._box(one) for one in unit]
        own = set(unit)
        for box in boxes:
            swept = replace(
                box,
                left=min(box.left, box.left + shift) - room,
                right=max(box.right, box.right + shift) + room,
            )
            if any(
                swept.overlaps(self._box(other)) for other in self._near(box) if other not in own
            ):
                return False
        return True

    def _near(self, box: Box) -> Iterator[str | int]:
        for band in _bands(box):
            yield from self.bands[band]

    def _box(self, name: str | int) -> Box:
        return self.nodes[name] if isinstance(name, str) else self.labels[name]


def _loose(placed: PlacedFigure) -> frozenset[str]:
    """Return what nothing else holds: bars, which are as wide as the page, and what only enters."""
    levels, edges = frozenset(placed.figure.levels), placed.figure.edges
    pairs = list(zip(edges, placed.facts.places, strict=True))
    entered = {edge.head for edge, place in pairs if place is not EdgePlace.BACK}
    above = {edge.tail for edge, place in pairs if place is EdgePlace.DOWN and edge.head in levels}
    return levels | (above - entered)


def _bands(box: Box) -> range:
    return range(int(box.top // _BANDS), int(box.bottom // _BANDS) + 1)
