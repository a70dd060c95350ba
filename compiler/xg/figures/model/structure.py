"""Derive relations from a figure's edges: neighbors, rows, orders, bars, waiting columns.

Both the DOT text for people and the placement problem for the layout engine are built on this, so
they agree about it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import TypeAlias

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.figures.model.figure import (
    BarPlace,
    EdgeRole,
    EdgeStyle,
    Figure,
    FigureBar,
    FigureColumn,
    FigureEdge,
    FigureGroup,
    FigureNode,
    NodeKind,
)
from xg.figures.model.richtext import RichText, characters, plain, scripts


class EdgePlace(Enum):
    """Where an edge runs: its role, made precise by what else meets at its ends."""

    DOWN = auto()
    BRANCH = auto()
    SIDE = auto()
    AROUND = auto()  # from a node whose own column goes on, into another from beside
    FROM_LEFT = auto()  # its tail is in the same row, left of its head
    FROM_RIGHT = auto()
    TO_LEFT = auto()  # its head is in the same row, left of its tail
    TO_RIGHT = auto()
    LANE = auto()
    OUT = auto()  # down to a result of a side column, half a row below
    BACK = auto()  # a gradient's arrow, beside the arrow that it is the twin of


_BESIDE = (NodeKind.TENSOR, NodeKind.SAVED, NodeKind.NOTE)


@dataclass(frozen=True, slots=True)
class Fork:
    """Children in one row, from left to right: the column's own, then its branches; or slices.

    They are `mirrored` where those that join another column are at the left, and `turned` where
    those that join none are.
    """

    children: tuple[str, ...]
    mirrored: tuple[str, ...]
    turned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """The derived facts. `places` is parallel to the figure's edges; rows count from 0.

    `twins` maps an arrow to the dashed one that runs back beside it, by their numbers; `waits` are
    half rows by which arrows down are longer, for columns beside them. The names of nodes in `low`
    have subscripts of subscripts, which reach lower than others.
    """

    places: tuple[EdgePlace, ...]
    rows: Mapping[str, int]
    forks: tuple[Fork, ...]
    passed: Mapping[int, tuple[str, str]]  # lane -> the first and the last node beside it
    kinds: Mapping[str, NodeKind]
    low: frozenset[str]
    left: Mapping[str, str]  # node -> the tensor at its left
    right: Mapping[str, str]
    twins: Mapping[int, int]
    waits: Mapping[int, int] = field(default_factory=dict[int, int])


def structure(figure: Figure, *, close: bool = False) -> Structure:
    """Derive a figure's structure; results of what is sent beside a column may be `close` below.

    Raises ValueError where its solid edges close a cycle or a dashed one has no solid partner.
    """
    left, right = _side_tensors(figure)
    twins = _twins(figure)
    places = tuple(_place(edge, left, right) for edge in figure.edges)
    places = _with_results(figure, places, close=close)
    places = _with_detours(figure, places, twins)
    rows = _rows(figure, places)
    forks = tuple(_forks(figure, places, rows))
    kinds = {node.id: node.kind for node in figure.nodes}
    low = frozenset(node.id for node in figure.nodes if _is_low(node))
    return Structure(
        places, rows, forks, _lane_neighbors(figure, places), kinds, low, left, right, twins
    )


def _is_low(node: FigureNode) -> bool:
    """Return whether a node's name has a subscript of a subscript; shapes are smaller."""
    names = (run.sub for run in node.label if not run.muted)
    return any(is_nested for sub in names for _, is_nested in scripts(sub))


def _twins(figure: Figure) -> dict[int, int]:
    """Pair every dashed arrow with the solid one along which it runs back."""
    solid: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for number, edge in enumerate(figure.edges):
        if edge.style is not EdgeStyle.DASHED:
            solid[edge.tail, edge.head, edge.output].append(number)
    twins: dict[int, int] = {}
    for number, edge in enumerate(figure.edges):
        if edge.style is EdgeStyle.DASHED:
            waiting = solid[edge.head, edge.tail, edge.output]
            if not waiting:
                raise ValueError("a dashed edge goes back along a solid one")
            twins[waiting.pop(0)] = number
    return twins


def _side_tensors(figure: Figure) -> tuple[dict[str, str], dict[str, str]]:
    """Choose the tensors in the row of the node they enter: one at each side.

    Saved ones are at the left in any case. The right side is free only where no other column is
    left or joined there. A tensor from outside an opened call is not beside a node of it, where it
    would be in the call's frame; nor is one whose gradient has a label, for which there is no room.
    """
    degree: dict[str, int] = defaultdict(int)
    solid = [edge for edge in figure.edges if edge.style is not EdgeStyle.DASHED]
    labeled = {(e.head, e.tail) for e in figure.edges if e.style is EdgeStyle.DASHED and e.label}
    for edge in solid:
        degree[edge.tail] += 1
        degree[edge.head] += 1
    tensors = {n.id: n.kind for n in figure.nodes if n.kind in _BESIDE}
    calls = [frozenset(group.nodes) for group in figure.groups if not group.is_axis]
    flat = {e for e in solid if e.role is EdgeRole.SIDE and e.tail in tensors
            and degree[e.tail] == 1 and not e.label and (e.tail, e.head) not in labeled
            and e.head not in figure.levels
            and not _enters_call(e, calls)}  # fmt: skip
    taken = {e.tail for e in solid if e.role is EdgeRole.BRANCH}
    taken |= {e.head for e in solid if e.role is EdgeRole.SIDE and e not in flat}
    left: dict[str, str] = {}
    right: dict[str, str] = {}
    for edge in sorted(solid, key=lambda one: tensors.get(one.tail) is not NodeKind.SAVED):
        if edge in flat and edge.head not in left:
            left[edge.head] = edge.tail
        elif edge in flat and edge.head not in taken and edge.head not in right:
            right[edge.head] = edge.tail
    for edge in solid:
        if edge.role is EdgeRole.ASIDE and edge.tail not in figure.levels:
            if edge.tail not in taken and edge.tail not in right:
                right[edge.tail] = edge.head
            elif edge.tail not in left:
                left[edge.tail] = edge.head
    return left, right


def _enters_call(edge: FigureEdge, calls: Sequence[frozenset[str]]) -> bool:
    """Return whether an edge leads from outside a call to one of its nodes."""
    return any(edge.head in call and edge.tail not in call for call in calls)


def _place(edge: FigureEdge, left: Mapping[str, str], right: Mapping[str, str]) -> EdgePlace:
    if edge.style is EdgeStyle.DASHED:
        return EdgePlace.BACK
    if left.get(edge.head) == edge.tail:
        return EdgePlace.FROM_LEFT
    if right.get(edge.head) == edge.tail:
        return EdgePlace.FROM_RIGHT
    if left.get(edge.tail) == edge.head:
        return EdgePlace.TO_LEFT
    if right.get(edge.tail) == edge.head:
        return EdgePlace.TO_RIGHT
    return _BY_ROLE[edge.role]


def _with_results(
    figure: Figure, places: tuple[EdgePlace, ...], *, close: bool
) -> tuple[EdgePlace, ...]:
    """Find the arrows that end a side column in a tensor; with `close`, also after a collective."""
    tails = {edge.tail for edge in figure.edges}
    ends = {n.id for n in figure.nodes if n.kind is NodeKind.TENSOR and n.id not in tails}
    sent = {node.id for node in figure.nodes if node.kind is NodeKind.COMMUNICATION}
    branched = {e.head for e, place in zip(figure.edges, places, strict=True)
                if place is EdgePlace.BRANCH}  # fmt: skip
    if close:
        branched |= {e.head for e in figure.edges if e.tail in branched and e.head in sent}
    return tuple(
        EdgePlace.OUT
        if place is EdgePlace.DOWN
        and not edge.label
        and edge.head in ends
        and edge.tail in branched
        else place
        for edge, place in zip(figure.edges, places, strict=True)
    )


def _with_detours(
    figure: Figure, places: tuple[EdgePlace, ...], twins: Mapping[int, int]
) -> tuple[EdgePlace, ...]:
    """Find side edges that cannot go straight down: their column does, or another pair does."""
    edges = figure.edges
    down = {e.tail for e, place in zip(edges, places, strict=True) if place is EdgePlace.DOWN}
    found: list[EdgePlace] = []
    for number, (edge, place) in enumerate(zip(edges, places, strict=True)):
        if place is EdgePlace.SIDE:
            found.append(EdgePlace.AROUND if edge.tail in down else place)
            down |= {edge.tail} if number in twins else set()
        else:
            found.append(place)
    return tuple(found)


_BY_ROLE = {
    EdgeRole.MAIN: EdgePlace.DOWN,
    EdgeRole.BRANCH: EdgePlace.BRANCH,
    EdgeRole.SIDE: EdgePlace.SIDE,
    EdgeRole.RESIDUAL: EdgePlace.LANE,
    EdgeRole.ASIDE: EdgePlace.BRANCH,  # if there is no room beside its node
}
SAME_ROW = (EdgePlace.FROM_LEFT, EdgePlace.FROM_RIGHT, EdgePlace.TO_LEFT, EdgePlace.TO_RIGHT)


def split_at_levels(figure: Figure) -> list[list[str]]:
    """Return the nodes between the levels of a figure, in order."""
    parts: list[list[str]] = [[]]
    for node in figure.nodes:
        if node.id in figure.levels:
            parts.append([])
        else:
            parts[-1].append(node.id)
    return parts


def nest_groups(groups: Sequence[FigureGroup]) -> dict[int | None, list[int]]:
    """Return the groups right inside of each, and under None those inside of no other."""
    inside: dict[int | None, list[int]] = defaultdict(list)
    members = [frozenset(group.nodes) for group in groups]
    for number, nodes in enumerate(members):
        around = (n for n in range(number - 1, -1, -1) if nodes <= members[n])
        inside[next(around, None)].append(number)
    return inside


def level_pairs(figure: Figure) -> Iterator[tuple[str, str]]:
    """Yield pairs of nodes whose first is above the second because of a level."""
    if figure.levels:
        segments = split_at_levels(figure)
        places = {node: n for n, segment in enumerate(segments) for node in segment}
        near = [
            edge
            for edge in figure.edges
            if edge.style is not EdgeStyle.DASHED
            if places.get(edge.tail, edge.tail) == places.get(edge.head, edge.head)
        ]
        # A tensor beside a node is placed with it, and does not hold it in place.
        begun = {edge.head for edge in near if edge.role is not EdgeRole.SIDE}
        ended = {edge.tail for edge in near}
        for level, above, below in zip(figure.levels, segments, segments[1:], strict=False):
            yield from ((node, level) for node in above if node not in ended)
            yield from ((level, node) for node in below if node not in begun)
        yield from pairwise(figure.levels)


def passing(figure: Figure) -> Iterator[tuple[int, str]]:
    """Yield the edges that pass levels, by number, each with the first one."""
    after = {node: n for n, segment in enumerate(split_at_levels(figure)) for node in segment}
    after |= {level: n + 1 for n, level in enumerate(figure.levels)}
    before = {**after, **{level: n for n, level in enumerate(figure.levels)}}
    for number, edge in enumerate(figure.edges):
        if after[edge.tail] < before[edge.head]:
            yield number, figure.levels[after[edge.tail]]


def entered_aside(figure: Figure, places: Sequence[EdgePlace]) -> frozenset[str]:
    """Return the levels that no column leads into: what they take, they pass on at one place."""
    pairs = list(zip(figure.edges, places, strict=True))
    entered = {edge.head for edge, place in pairs if place is not EdgePlace.BACK}
    under = {edge.head for edge, place in pairs if place is EdgePlace.DOWN}
    return frozenset(figure.levels) & (entered - under)


def _rows(figure: Figure, places: tuple[EdgePlace, ...]) -> dict[str, int]:
    """Give each node the first row below all nodes that it needs."""
    successors: dict[str, list[tuple[str, int]]] = defaultdict(list)
    waiting: dict[str, int] = {node.id: 0 for node in figure.nodes}
    for above, below in level_pairs(figure):
        successors[above].append((below, 1))
        waiting[below] += 1
    for edge, place in zip(figure.edges, places, strict=True):
        if place is not EdgePlace.BACK:
            successors[edge.tail].append((edge.head, place not in SAME_ROW))
            waiting[edge.head] += 1
    rows = {node_id: 0 for node_id, count in waiting.items() if count == 0}
    ready = deque(rows)
    done = 0
    while ready:
        tail = ready.popleft()
        done += 1
        for head, step in successors[tail]:
            rows[head] = max(rows.get(head, 0), rows[tail] + step)
            waiting[head] -= 1
            if waiting[head] == 0:
                ready.append(head)
    if done < len(waiting):
        raise ValueError("the solid edges of a figure may not close a cycle")
    return rows


def _forks(
    figure: Figure, places: tuple[EdgePlace, ...], rows: Mapping[str, int]
) -> Iterator[Fork]:
    """Find the branches that may be in the row of their column's own next node.

    Nearer columns are those that join again earlier, so that joins do not cross. Parts of one value
    keep the order of the file, results of one node its own order.
    """
    below: dict[str, str] = {}
    branches: dict[str, list[str]] = defaultdict(list)
    joins: dict[str, int] = {}
    outputs = {edge.head: edge.output for edge in reversed(figure.edges)}
    for edge, place in zip(figure.edges, places, strict=True):
        if place in (EdgePlace.DOWN, EdgePlace.OUT):
            below.setdefault(edge.tail, edge.head)
        elif place is EdgePlace.BRANCH:
            branches[edge.tail].append(edge.head)
        elif place in (EdgePlace.SIDE, EdgePlace.AROUND):
            joins[edge.tail] = rows[edge.head]
    parts = frozenset(node.id for node in figure.nodes if characters(node.label) == "slice")
    for tail, heads in branches.items():
        first = [below[tail]] if tail in below else []
        row = min(rows[head] for head in (*first, *heads))
        if first and rows[first[0]] != row:
            continue
        # A head that two edges reach, or that is lower, finds its own place.
        level = [head for head in dict.fromkeys(heads) if rows[head] == row and head not in first]
        level.sort(key=lambda head: (_join_row(head, below, joins), outputs[head]))
        if len(first) + len(level) > 1:
            joining = [head for head in level if _join_row(head, below, joins)]
            ending = [head for head in level if head not in joining]
            children = (*first, *level)
            if first and parts.issuperset(children):
                children = tuple(node.id for node in figure.nodes if node.id in children)
            mirrored = (*joining[::-1], *first, *ending)
            yield Fork(children, mirrored, (*ending[::-1], *first, *joining))
    yield from _below_levels(figure, rows, branches)


def _below_levels(
    figure: Figure, rows: Mapping[str, int], branches: Mapping[str, Sequence[str]]
) -> Iterator[Fork]:
    """Find columns that continue side by side below a level; an older one is at the left."""
    places = {node: n for n, segment in enumerate(split_at_levels(figure)) for node in segment}
    branched = {head for heads in branches.values() for head in heads}
    for number, segment in enumerate(split_at_levels(figure)[1:], 1):
        entered = {
            edge.head
            for edge in figure.edges
            if edge.role is EdgeRole.MAIN and edge.style is not EdgeStyle.DASHED
            if places.get(edge.head) == number and places.get(edge.tail) != number
        }
        heads = [node for node in segment if node in entered - branched]
        for one, other in pairwise(heads):
            if rows[one] == rows[other]:
                yield Fork((one, other), (one, other), (one, other))


def _lane_neighbors(figure: Figure, places: tuple[EdgePlace, ...]) -> dict[int, tuple[str, str]]:
    """Find the nodes next to the ends of each lane: below its tail and above its head."""
    down = [e for e, place in zip(figure.edges, places, strict=True) if place is EdgePlace.DOWN]
    below = {edge.tail: edge.head for edge in reversed(down)}
    above = {edge.head: edge.tail for edge in reversed(down)}
    return {
        number: (below[edge.tail], above[edge.head])
        for number, edge in enumerate(figure.edges)
        if places[number] is EdgePlace.LANE and edge.tail in below and edge.head in above
    }


def _join_row(head: str, below: Mapping[str, str], joins: Mapping[str, int]) -> int:
    """Return the row where the column that starts at `head` enters another; 0 if it ends."""
    node = head
    while node in below and node not in joins:
        node = below[node]
    return joins.get(node, 0)


# Lines through bars: which arrow goes on behind a bar as which other.


def through_bars(figure: Figure, aside: Collection[str] = ()) -> dict[int, int]:
    """Map arrows to the only one that leaves the bar that they enter, by their numbers.

    Where several enter a bar that does something with them, none of them goes on. Bars that stand
    `aside` are where their lines are already.
    """
    solid = [(n, e) for n, e in enumerate(figure.edges) if e.style is not EdgeStyle.DASHED]
    leaving: dict[str, list[int]] = defaultdict(list)
    for number, edge in solid:
        if edge.tail in figure.levels:
            leaving[edge.tail].append(number)
    entering = Counter(edge.head for _, edge in solid)
    return {
        number: leaving[edge.head][0]
        for number, edge in solid
        if len(leaving[edge.head]) == 1 and edge.head not in aside
        if edge.passes or entering[edge.head] == 1
    }


# Columns that wait: where others that branch off above have ended before the next ones begin.


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


# Ranks side by side as one graph: every column's nodes and edges, bars in place of their nodes.


_HEIGHT: RichText = plain(" ")  # a line without text keeps the room of one


def expand_columns(figure: Figure) -> Figure:
    """Return the figure with the nodes and edges of all its columns, grouped by what bars part."""
    nodes: list[FigureNode] = []
    edges: list[FigureEdge] = []
    groups: list[FigureGroup] = []
    for place, (column, names) in enumerate(zip(figure.columns, column_ids(figure), strict=True)):
        own = (node for node in column.nodes if node.id not in names.bars)
        nodes += (replace(node, id=names.of(node.id)) for node in own)
        edges += (
            replace(edge, tail=names.of(edge.tail), head=names.of(edge.head))
            for edge in column.edges
        )
        for number, segment in enumerate(segments(figure)):
            heading = column.heading if number == 0 else ()
            inside = tuple(names.of(node) for node in segment)
            groups.append(FigureGroup(f"rank {place}.{number}", heading, inside))
            groups += (
                replace(one, id=f"{one.id} @{place}", nodes=tuple(map(names.of, one.nodes)))
                for one in figure.lanes
                if set(one.nodes) <= set(segment)
            )
    for bar in figure.bars:
        nodes += (replace(bar.node, id=bar_id(bar, number)) for number in range(len(bar.spans)))
    return replace(figure, nodes=tuple(nodes), edges=tuple(edges), groups=tuple(groups))


@dataclass(frozen=True, slots=True)
class ColumnIds:
    """Give the nodes of one column ids that are unique among all columns."""

    column: int
    bars: dict[str, FigureBar]

    def of(self, node_id: str) -> str:
        """Return the id of a node, or of the bar that replaces it."""
        if node_id not in self.bars:
            return f"{node_id} @{self.column}"
        bar = self.bars[node_id]
        spans = enumerate(bar.spans)
        number = next(n for n, (first, last) in spans if first <= self.column <= last)
        return bar_id(bar, number)


def column_ids(figure: Figure) -> list[ColumnIds]:
    """Return what gives ids to the nodes of each column."""
    bars = {bar.node.id: bar for bar in figure.bars}
    return [ColumnIds(place, bars) for place in range(len(figure.columns))]


def bar_id(bar: FigureBar, number: int) -> str:
    """Return the id of one of the bars of a collective."""
    return bar.node.id if len(bar.spans) == 1 else f"{bar.node.id} #{number}"


def single_column(figure: Figure, column: FigureColumn) -> Figure:
    """Return one column as a figure: its bars are as high as they will be, and narrow."""
    narrow = {
        bar.node.id: replace(bar.node, label=_HEIGHT, lines=tuple(_HEIGHT for _ in bar.node.lines))
        for bar in figure.bars
    }
    nodes = (narrow.get(node.id, node) for node in column.nodes)
    return Figure(
        figure.title,
        figure.subtitle,
        figure.description,
        tuple(nodes),
        column.edges,
        figure.lanes,
        levels=tuple(bar.node.id for bar in figure.bars if bar.where is BarPlace.BETWEEN),
    )


def first_column(figure: Figure) -> Figure:
    """Return what is placed of a figure: its first column, or all of one that has no columns."""
    return single_column(figure, figure.columns[0]) if figure.columns else figure


def segments(figure: Figure) -> list[list[str]]:
    """Return the nodes of a column, parted by its bars, from top to bottom."""
    return [
        segment for segment in split_at_levels(single_column(figure, figure.columns[0])) if segment
    ]
