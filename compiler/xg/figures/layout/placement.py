"""Write the placement problem, a figure as boxes without text, or solve it on a grid.

Nothing of a figure's text goes in: boxes are called n0, n1 … (units) and l0, l1 … (labels), so the
answer depends on no font and no name can reach the engine. A label is a box of its own in an odd
row, whose left edge is on the line it belongs to. Sizes are whole even points: old and new versions
of Graphviz then round in the same way.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.draw.glyph import Extent, label_size, node_lines, node_size, pair_size
from xg.figures.model import figure as style
from xg.figures.model.figure import Box, DrawnPath, Figure, FigureEdge, FigureNode, NodeKind, Point
from xg.figures.model.structure import (
    EdgePlace,
    Fork,
    Structure,
    entered_aside,
    level_pairs,
    nest_groups,
    passing,
)

# A figure with a place for every box: what layout engines answer and routes are drawn around.


def _transpose(point: Point) -> Point:
    return point[1], point[0]


@dataclass(frozen=True, slots=True)
class PlacedFigure:
    """Boxes of nodes by id; boxes of labels and, once routed, paths by the edge's number.

    `engine` is the name of the engine that placed it; `warning` says what was wrong with those
    before it, empty where the first one answered. Lines at the nodes in `cramped` are too near to
    each other. Everything is placed and routed from the top down; a figure that is drawn from left
    to right is `turned` before it is painted. If `apart`, values may leave bars anywhere. In a
    `dense` one so many edges cross that some run beside it, and no other placement is tried.
    """

    figure: Figure
    facts: Structure
    nodes: Mapping[str, Box]
    labels: Mapping[int, Box]
    engine: str
    warning: str = ""
    paths: Mapping[int, DrawnPath] = field(default_factory=dict[int, DrawnPath])
    cramped: frozenset[str] = frozenset()
    is_turned: bool = False
    apart: bool = False
    dense: bool = False

    def transpose(self) -> PlacedFigure:
        """Return the figure with x and y exchanged."""
        return replace(
            self,
            nodes={node: box.transpose() for node, box in self.nodes.items()},
            labels={number: box.transpose() for number, box in self.labels.items()},
            paths={number: path.mapped(_transpose) for number, path in self.paths.items()},
            is_turned=not self.is_turned,
        )


# Units: a node together with the tensors beside it, placed as one box.
#
# Graphviz keeps two nodes side by side only as long as there is one such pair in a row; in one box
# they cannot part. The lines of the node pass through the box off its middle, so the box is made of
# equal fields one of which is the port: all its text is the bars between them.


FIELD: Final = 4  # points
_PAIR_HEIGHT: Final = 13.5  # of an arrow and its way back, at a side of a box
_MORE: Final = 28.0  # points beside a node at which lines are too near to each other
_MORE_PORTS: Final = 18.0  # points of a turned box at whose low side lines are too near
_BOXES: Final = (style.Outline.SHARP, style.Outline.ROUNDED)


@dataclass(frozen=True, slots=True)
class NodeUnit:
    """A node's box, or the box of a node with its tensors; `before` fields precede the port."""

    node: str
    size: Extent
    before: int = 0
    after: int = 0
    left: tuple[str, Extent] | None = None
    right: tuple[str, Extent] | None = None

    @property
    def is_compound(self) -> bool:
        """Return whether the box has more than the node."""
        return self.before > 0 or self.after > 0

    @property
    def width(self) -> float:
        """Return the width of the whole box."""
        return FIELD * (self.before + 1 + self.after) if self.is_compound else self.size.width

    @property
    def reach(self) -> float:
        """Return how far the box reaches to the left of the node's middle."""
        return FIELD * (self.before + 0.5) if self.is_compound else self.size.width / 2

    @property
    def height(self) -> float:
        """Return the height of the whole box."""
        beside = [size.height for _, size in filter(None, (self.left, self.right))]
        return max(self.size.height, *beside) if beside else self.size.height

    def boxes(self, center: Point) -> dict[str, Box]:
        """Return the boxes of the node and of its tensors, given the middle of the whole."""
        x, y = center
        if self.is_compound:
            x += FIELD * (self.before - self.after) / 2
        boxes = {self.node: Box.around((x, y), self.size.width, self.size.height)}
        for beside, sign in ((self.left, -1), (self.right, 1)):
            if beside is not None:
                tensor, size = beside
                reach = (self.size.width + size.width) / 2 + style.NODE_GAP
                boxes[tensor] = Box.around((x + sign * reach, y), size.width, size.height)
        return boxes


def units(figure: Figure, facts: Structure, cramped: Collection[str] = ()) -> list[NodeUnit]:
    """Return the units of a figure in the order of its nodes; more room beside cramped ones."""
    sizes = node_sizes(figure, facts, cramped)
    beside = {*facts.left.values(), *facts.right.values()}
    node_units = {
        node.id: _unit(node.id, sizes, facts, 0.0) for node in figure.nodes if node.id not in beside
    }
    for node in node_units.keys() & set(cramped):
        unit = node_units[node]
        half = _fields(unit.size.width / 2)
        more = math.ceil(_MORE / FIELD)
        before, after = max(unit.before, half) + more, max(unit.after, half) + more
        node_units[node] = replace(unit, before=before, after=after)
    below = {
        edge.tail: edge.head
        for edge, place in zip(figure.edges, facts.places, strict=True)
        if place is EdgePlace.DOWN
    }
    for number, place in enumerate(facts.places):
        if place is EdgePlace.LANE:
            edge = figure.edges[number]
            head = edge.head
            widest = _widest(edge, below, node_units)
            size = label_size(edge.label, turned=figure.rightward)
            label = size.width if edge.label else 0.0
            label += style.LANE_GAP / 2 if number in facts.twins else 0.0
            room = widest + style.LANE_GAP + label  # how far lane and label are from the middle
            node_units[head] = _unit(head, sizes, facts, room)
    for head, room in _beside_wide(figure, facts, below, node_units):
        if room > node_units[head].reach:
            node_units[head] = _unit(head, sizes, facts, room)
    return list(node_units.values())


def _beside_wide(
    figure: Figure, facts: Structure, below: Mapping[str, str], units: Mapping[str, NodeUnit]
) -> Iterator[tuple[str, float]]:
    """Yield where branches lead, with the room that puts them beside the box that they leave.

    Under a corner of it, an arrow would hang at that corner.
    """
    heads = {first: second for first, second, *_ in (fork.children for fork in facts.forks)}
    for edge, place in zip(figure.edges, facts.places, strict=True):
        first = below.get(edge.tail)
        if place is EdgePlace.BRANCH and first and heads.get(first) == edge.head:
            after = units[first].width - units[first].reach
            aside = units[edge.tail].size.width / 2 + style.LANE_GAP
            yield edge.head, aside - after - style.NODE_GAP


def node_sizes(
    figure: Figure, facts: Structure, cramped: Collection[str] = ()
) -> dict[str, Extent]:
    """Return how large each node is: as high as the pairs of lines at a side need.

    A cramped one has room for one pair more, and in a figure that will be turned for two lines.
    """
    sides: dict[tuple[str, bool], int] = defaultdict(int)
    pairs = zip(figure.edges, facts.places, strict=True)
    for edge, place in pairs if facts.twins else ():
        sides[edge.tail, True] += place in (EdgePlace.BRANCH, EdgePlace.AROUND)
        sides[edge.head, False] += place in (EdgePlace.SIDE, EdgePlace.AROUND)
    sizes: dict[str, Extent] = {}
    for node in figure.nodes:
        size = _turned_size(node) if figure.rightward else node_size(node)
        count = max(sides.get((node.id, is_out), 0) for is_out in (True, False))
        count += node.id in cramped
        outline = style.NODE_STYLES[node.kind].outline
        if count > 1 and outline in _BOXES:
            size = Extent(size.width, max(size.height, count * _PAIR_HEIGHT))
        if figure.rightward and node.id in cramped and outline in _BOXES:
            size = Extent(size.width + _MORE_PORTS, size.height)
        sides_free = (node.id not in facts.left) + (node.id not in facts.right)
        if count > sides_free and outline is style.Outline.CIRCLE:
            least = max(size.width, (count - sides_free + 1) * _PAIR_HEIGHT)
            size = Extent(least, least)
        sizes[node.id] = size
    return sizes


def _turned_size(node: FigureNode) -> Extent:
    """Return the size of a node of a figure that will be turned.

    Lines end before a text and begin behind it, not above and below: as near to a narrow letter.
    """
    size = node_size(node).transpose()
    if style.NODE_STYLES[node.kind].outline is not style.Outline.NONE:
        return size
    length = max(line.width for line in node_lines(node))
    return Extent(size.width, length + 2 * style.TEXT_GAP)


def _unit(node: str, sizes: Mapping[str, Extent], facts: Structure, room: float) -> NodeUnit:
    """Return a node's unit that reaches at least `room` to the left of its middle."""
    half = sizes[node].width / 2
    left, right = facts.left.get(node), facts.right.get(node)
    before, after = half, half
    if left:
        before += style.NODE_GAP + sizes[left].width
    if right:
        after += style.NODE_GAP + sizes[right].width
    before = max(before, room)
    is_plain = before == after == half
    return NodeUnit(
        node,
        sizes[node],
        0 if is_plain else _fields(before),
        0 if is_plain else _fields(after),
        (left, sizes[left]) if left else None,
        (right, sizes[right]) if right else None,
    )


def _widest(edge: FigureEdge, below: Mapping[str, str], units: Mapping[str, NodeUnit]) -> float:
    """Return how far the column that a lane passes reaches to the left of its middle."""
    widest, node = 0.0, below.get(edge.tail)
    while node is not None and node != edge.head:
        widest, node = max(widest, units[node].reach), below.get(node)
    return widest


def _fields(room: float) -> int:
    """Count the fields between the port and one side of the box."""
    return math.ceil((room - FIELD / 2) / FIELD)


_STRAIGHT: Final = 1000
_JOINED: Final = 900  # into a node that another column joins: there the shorter one waits
_BRANCH: Final = 3
_SIDE: Final = 20
_FROM_ASIDE: Final = (EdgePlace.SIDE, EdgePlace.AROUND)
_POINT: Final = 8.0  # the width of where a line meets a bar
_PLACED: Final = (EdgePlace.DOWN, EdgePlace.OUT, EdgePlace.BRANCH, EdgePlace.SIDE, EdgePlace.AROUND)
# Rounds of the search for short edges in a large figure: in the last ones it grows hardly better.
_ROUNDS: Final = ((640, 2), (320, 4))
# Our own router draws all edges.
_HEADER: Final = """\
graph [rankdir=TB, newrank=true, splines=none, nodesep={nodesep:.4f}, ranksep={ranksep:.4f}{limits}]
node [shape=box, fixedsize=true, label="", margin=0]
edge [arrowhead=none]"""


@dataclass(frozen=True, slots=True)
class Wishes:
    """Orders that a placement keeps besides the rows, though edges might cross less without.

    With `clusters`, no other node may be among the nodes of a group; with `forks`, columns keep
    their order where they begin, or those that join another are `mirrored`, to its left, or those
    that join none are `turned` there; with `sides`, what joins a column under a bar is at its
    right. A value that enters a bar from beside leaves it at one place, or anywhere if `apart`.
    With `even`, columns between two bars have equal nodes in equal rows. Engines read boxes in an
    order that decides between equals: maybe `backwards`. A group has so many points of `room`
    around it, for labels that find their places later.
    """

    clusters: bool = True
    forks: bool = True
    mirrored: bool = False
    turned: bool = False
    sides: bool = True
    apart: bool = False
    even: bool = True
    backwards: bool = False
    room: float = 0.0

    def order(self, fork: Fork) -> tuple[str, ...]:
        """Return the columns of a fork from left to right."""
        return fork.mirrored if self.mirrored else fork.turned if self.turned else fork.children


def problem(figure: Figure, facts: Structure, units: Sequence[NodeUnit], wishes: Wishes) -> str:
    """Return the DOT text that asks for the places of the figure's boxes."""
    kinds = {node.id: node.kind for node in figure.nodes}
    ports = {unit.node: _Port(f"n{number}", unit) for number, unit in enumerate(units)}
    rounds = next((rounds for least, rounds in _ROUNDS if len(figure.nodes) > least), 0)
    limits = f", nslimit={rounds}" if rounds else ""
    gaps = {"nodesep": style.NODE_GAP / 72, "ranksep": style.ROW_GAP / 72}
    lines = [_HEADER.format(**gaps, limits=limits)]
    declared = [port.declared(kinds[node]) for node, port in ports.items()]
    lines += declared[::-1] if wishes.backwards else declared
    labels = label_boxes(figure, facts)
    numbered = list(enumerate(zip(figure.edges, facts.places, strict=True)))
    aside = frozenset[str]() if wishes.apart else entered_aside(figure, facts.places)
    wide = frozenset(figure.levels) - aside
    joined = _join_nodes(figure, facts) if wishes.even else frozenset[str]()
    for number, (edge, place) in numbered[::-1] if wishes.backwards else numbered:
        if place in _PLACED:
            ends = ports[edge.tail], ports[edge.head]
            if place is not EdgePlace.DOWN:
                ends, points = _at_bars(number, edge, wide, ends)
                lines += points
            weights = _weights(place, is_joined=edge.head in joined)
            size, wait = labels.get(number), facts.waits.get(number, 0)
            is_pair = number in facts.twins
            lines += _downward(number, *ends, place, size, weights, wait, is_pair=is_pair)
    lines += _forks(facts, ports, wishes) if wishes.forks else ()
    lines += (
        f"{ports[above].name} -> {ports[below].name} [style=invis, weight=0]"
        for above, below in level_pairs(figure)
        if above in ports and below in ports
    )
    lines += _labels_at_levels(figure, facts, ports, wishes) if figure.levels else ()
    if wishes.clusters:
        lines += _groups(figure, facts, ports, wishes.room)
    return "digraph {\n" + "\n".join(lines) + "\n}\n"


@dataclass(frozen=True, slots=True)
class _Port:
    """A unit's name in the problem, and where its node's lines begin and end."""

    name: str
    unit: NodeUnit

    def at(self, side: str = "") -> str:
        """Return the port at a side of the node: n above, s below, or anywhere."""
        port = f"{self.name}:p" if self.unit.is_compound else self.name
        return f"{port}:{side}" if side else port

    def declared(self, kind: NodeKind) -> str:
        """Return the statement that declares the box."""
        size = Extent(self.unit.width, self.unit.height)
        if self.unit.is_compound:
            fields = "|" * self.unit.before + "<p>" + "|" * self.unit.after
            return _box(self.name, size, f', shape=record, label="{fields}"')
        circle = style.NODE_STYLES[kind].outline is style.Outline.CIRCLE
        return _box(self.name, size, ", shape=circle" if circle else "")


def label_boxes(figure: Figure, facts: Structure) -> dict[int, Extent]:
    """Return the boxes of labels: at the right of a line, or around an arrow and its way back.

    Those that repeat what another says have none.
    """
    boxes: dict[int, Extent] = {}
    for number, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True)):
        if place not in (EdgePlace.DOWN, EdgePlace.BRANCH, EdgePlace.SIDE, EdgePlace.AROUND):
            continue
        label = () if edge.repeats else edge.label
        if number in facts.twins:
            up = figure.edges[facts.twins[number]].label
            if label or up or place is EdgePlace.DOWN:
                boxes[number] = pair_size(label, up, turned=figure.rightward)
        elif label:
            boxes[number] = label_size(label, turned=figure.rightward)
    return boxes


def _box(name: str, size: Extent, more: str = "") -> str:
    return f"{name} [width={_inches(size.width)}, height={_inches(size.height)}{more}]"


def _inches(points: float) -> str:
    return f"{2 * math.ceil(points / 2) / 72:.6f}"


def _at_bars(
    number: int, edge: FigureEdge, bars: Collection[str], ends: tuple[_Port, _Port]
) -> tuple[tuple[_Port, _Port], list[str]]:
    """Let an edge begin or end at a point of its own in the row of a bar, which is wide."""
    ports: list[_Port] = []
    points: list[str] = []
    for letter, node, port in zip("th", (edge.tail, edge.head), ends, strict=True):
        if node in bars:
            size = Extent(_POINT, port.unit.height)
            point = _Port(f"b{letter}{number}", NodeUnit(port.unit.node, size))
            points.append(_box(point.name, size))
            points.append(f"{{rank=same; {port.name}; {point.name}}}")
            ports.append(point)
        else:
            ports.append(port)
    return (ports[0], ports[1]), points


def _join_nodes(figure: Figure, facts: Structure) -> frozenset[str]:
    """Return the nodes that another column joins, where labels are held by levels."""
    edges = zip(figure.edges, facts.places, strict=True) if figure.levels else ()
    return frozenset(edge.head for edge, place in edges if place in _FROM_ASIDE)


def _weights(place: EdgePlace, *, is_joined: bool) -> tuple[int, int]:
    """Return how much the parts of an edge above and below its label want to be short.

    Where columns of different lengths meet, one edge of the shorter ones is long: always the last,
    so that what columns have in common is in common rows.
    """
    straight = _JOINED if is_joined else _STRAIGHT
    above = _BRANCH if place in (EdgePlace.BRANCH, EdgePlace.AROUND) else straight
    below = _SIDE if place in _FROM_ASIDE else straight
    return above, below


def _downward(
    number: int,
    tail: _Port,
    head: _Port,
    place: EdgePlace,
    size: Extent | None,
    weights: tuple[int, int],
    wait: int,
    *,
    is_pair: bool,
) -> Iterator[str]:
    above, below = weights
    if size is not None:
        label, at = f"l{number}", ("n", "s") if is_pair else ("nw", "sw")
        length = f", minlen={1 + wait}" if wait else ""
        leave = tail.at() if above is _BRANCH else tail.at("s")
        enter = head.at() if below is _SIDE else head.at("n")
        yield _box(label, size)
        yield f"{leave} -> {label}:{at[0]} [id=a{number}, weight={above}]"
        yield f"{label}:{at[1]} -> {enter} [id=b{number}, weight={below}{length}]"
    else:
        rows = wait + (1 if place is EdgePlace.OUT else 2)
        weight = min(above, below)
        yield f"{tail.at()} -> {head.at()} [id=a{number}, weight={weight}, minlen={rows}]"


def _forks(facts: Structure, ports: Mapping[str, _Port], wishes: Wishes) -> Iterator[str]:
    """Keep the columns of a fork in one row and in their order."""
    for fork in facts.forks:
        children = wishes.order(fork)
        row = " -> ".join(ports[child].name for child in children)
        yield f"{{rank=same; edge [style=invis]; {row}}}"


def _labels_at_levels(
    figure: Figure, facts: Structure, ports: Mapping[str, _Port], wishes: Wishes
) -> Iterator[str]:
    """Keep labels of lines past a level above it, and side columns right of the one they join."""
    boxes = {number: figure.edges[number] for number in label_boxes(figure, facts)}
    passed = dict(passing(figure))
    for number in boxes.keys() & passed.keys():
        yield f"l{number} -> {ports[passed[number]].name} [style=invis, weight=0]"
    near = {number: edge for number, edge in boxes.items() if number not in passed}
    straight = {e.head: n for n, e in near.items() if facts.places[n] is EdgePlace.DOWN}
    for number, edge in near.items() if wishes.sides else ():
        if facts.places[number] is EdgePlace.SIDE and edge.head in straight:
            yield f"{{rank=same; l{straight[edge.head]} -> l{number} [style=invis]}}"


def _groups(
    figure: Figure, facts: Structure, ports: Mapping[str, _Port], room: float
) -> Iterator[str]:
    labels = label_boxes(figure, facts)
    inside_of = nest_groups(figure.groups)

    def cluster(number: int) -> str:
        members = set(figure.groups[number].nodes)
        inside = [port.name for node, port in ports.items() if node in members]
        edges = ((k, figure.edges[k]) for k in labels)
        inside += (f"l{k}" for k, edge in edges if {edge.tail, edge.head} <= members)
        margin = style.GROUP_PADDING + style.GROUP_HEADING + room
        inside += map(cluster, inside_of[number])
        return f"subgraph cluster_{number} {{margin={margin}; {'; '.join(inside)}}}"

    yield from map(cluster, inside_of[None])


# The plain arrangement: rows from the structure, one column per chain of nodes, nothing clever.
#
# For machines without a layout engine, and for figures that every engine gave up. Its time grows
# with the size of the figure and nothing else.


NAME: Final = "plain grid"
_LABEL_ROOM: Final = 28.0  # between two rows of nodes
_NEAR: Final = 12.0  # of it, above and below the highest label
_LEAST_ROW: Final = 24.0


def on_a_grid(figure: Figure, facts: Structure, warning: str) -> PlacedFigure:
    """Place a figure in rows and columns, its labels under the nodes they leave."""
    sizes = node_sizes(figure, facts)
    columns = _grid_columns(figure, facts)
    labels = label_boxes(figure, facts).values()
    room = max([_LABEL_ROOM, *(size.height + _NEAR for size in labels)])
    tops = _row_tops(facts, sizes, room)
    middles = _column_middles(figure, facts, sizes, columns)
    nodes: dict[str, Box] = {}
    for node_id, column in columns.items():
        center = middles[column], tops[facts.rows[node_id]] + sizes[node_id].height / 2
        nodes[node_id] = Box.around(center, sizes[node_id].width, sizes[node_id].height)
    for beside, sign in ((facts.left, -1), (facts.right, 1)):
        for head, tensor in beside.items():
            x, y = nodes[head].center
            reach = (sizes[head].width + sizes[tensor].width) / 2 + style.NODE_GAP
            nodes[tensor] = Box.around(
                (x + sign * reach, y), sizes[tensor].width, sizes[tensor].height
            )
    below = _grid_labels(figure, facts, nodes, tops, room)
    return PlacedFigure(figure, facts, nodes, below, NAME, warning)


def _grid_columns(figure: Figure, facts: Structure) -> dict[str, int]:
    """Number the chains: a node is in the column of the node above it, once."""
    above: dict[str, str] = {}
    continued: set[str] = set()
    for edge, place in zip(figure.edges, facts.places, strict=True):
        free = edge.head not in above and edge.tail not in continued
        if place in (EdgePlace.DOWN, EdgePlace.OUT) and free:
            above[edge.head] = edge.tail
            continued.add(edge.tail)
    aside = {*facts.left.values(), *facts.right.values()}
    columns: dict[str, int] = {}
    for node_id in sorted(facts.rows, key=lambda one: facts.rows[one]):
        if node_id not in aside:
            column = columns.get(above.get(node_id, ""))
            columns[node_id] = len(set(columns.values())) if column is None else column
    return columns


def _row_tops(facts: Structure, sizes: dict[str, Extent], room: float) -> dict[int, float]:
    heights: dict[int, float] = defaultdict(lambda: _LEAST_ROW)
    for node_id, row in facts.rows.items():
        heights[row] = max(heights[row], sizes[node_id].height)
    tops: dict[int, float] = {}
    y = 0.0
    for row in sorted(heights):
        tops[row] = y
        y += heights[row] + room
    return tops


def _column_middles(
    figure: Figure, facts: Structure, sizes: dict[str, Extent], columns: dict[str, int]
) -> dict[int, float]:
    """Give every column the width that its widest row and its labels need."""
    left: dict[int, float] = defaultdict(float)
    right: dict[int, float] = defaultdict(float)
    for node_id, column in columns.items():
        half = sizes[node_id].width / 2
        for beside, side in ((facts.left, left), (facts.right, right)):
            room = sizes[beside[node_id]].width + style.NODE_GAP if node_id in beside else 0.0
            side[column] = max(side[column], half + room)
    for number, size in label_boxes(figure, facts).items():
        edge = figure.edges[number]
        branches = facts.places[number] is EdgePlace.BRANCH
        column = columns.get(edge.head if branches else edge.tail)
        if column is not None:
            is_pair = number in facts.twins
            right[column] = max(right[column], size.width / (2 if is_pair else 1))
            left[column] = max(left[column], size.width / 2 if is_pair else 0.0)
    middles: dict[int, float] = {}
    x = 0.0
    for column in sorted(set(columns.values())):
        middles[column] = x + left[column]
        x = middles[column] + right[column] + style.NODE_GAP
    return middles


def _grid_labels(
    figure: Figure, facts: Structure, nodes: dict[str, Box], tops: dict[int, float], room: float
) -> dict[int, Box]:
    """Put labels into the room below the row they leave, or above the one they branch to."""
    below = dict(pairwise(sorted(tops)))
    labels: dict[int, Box] = {}
    for number, size in label_boxes(figure, facts).items():
        edge, is_branch = figure.edges[number], facts.places[number] is EdgePlace.BRANCH
        x = nodes[edge.head if is_branch else edge.tail].center[0]
        row = facts.rows[edge.head] if is_branch else below[facts.rows[edge.tail]]
        shift = 0.0 if number in facts.twins else size.width / 2
        center = x + shift, tops[row] - room / 2
        labels[number] = Box.around(center, size.width, size.height)
    return labels
