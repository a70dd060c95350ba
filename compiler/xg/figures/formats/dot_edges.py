"""Edges in DOT: how an arrow is led depends on where it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.escape import dot_string
from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.formats import dot_style
from xg.figures.formats.dot_columns import Ports
from xg.figures.formats.dot_label import edge_label
from xg.figures.formats.dot_style import Attribute, Attributes, attributes
from xg.figures.model.figure import EdgeRole, EdgeStyle, Figure, FigureEdge, NodeKind
from xg.figures.model.structure import EdgePlace, Structure, nested
from xg.figures.model.style import MARKS, Color, Theme

_WEIGHTS: Final = {EdgePlace.DOWN: "100", EdgePlace.OUT: "100", EdgePlace.LANE: "60"}
_DOWNWARD: Final = {side: side for side in "nesw"}
_RIGHTWARD: Final = {"n": "w", "e": "s", "s": "e", "w": "n"}  # x and y exchanged


def dot_edges(figure: Figure, facts: Structure, theme: Theme) -> list[str]:
    """Return the statements of all edges."""
    outermost = nested(figure.groups)[None]
    groups = {node: n for n in outermost for node in figure.groups[n].nodes}
    right = _right_columns(figure, facts)
    sides = _RIGHTWARD if figure.rightward else _DOWNWARD
    writer = _EdgeWriter(facts, theme, Ports.of(figure), right, groups, sides)
    lines: list[str] = []
    for number, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True)):
        lines += writer.edge(number, edge, place)
    return lines


def _right_columns(figure: Figure, facts: Structure) -> frozenset[str]:
    """Find the nodes of columns that a fork puts right of the column it leaves."""
    inside = {child for fork in facts.forks for child in fork.children[1:]}
    order = sorted(
        (edge for edge, place in zip(figure.edges, facts.places, strict=True)
         if place in (EdgePlace.DOWN, EdgePlace.OUT)),
        key=lambda edge: facts.rows[edge.tail],
    )  # fmt: skip
    for edge in order:
        if edge.tail in inside:
            inside.add(edge.head)
    return frozenset(inside)


@dataclass(frozen=True, slots=True)
class _EdgeWriter:
    """Writes edges; `groups` are the numbers of the clusters that nodes are in.

    `sides` are those of the drawing for the sides of a figure that runs from the top down.
    """

    facts: Structure
    theme: Theme
    ports: Ports
    right: frozenset[str]
    groups: Mapping[str, int]
    sides: Mapping[str, str]

    def edge(self, number: int, edge: FigureEdge, place: EdgePlace) -> Iterable[str]:
        """Return the statements of one edge."""
        look: dict[Attribute, str] = {
            **dot_style.edge_attributes(edge.style, self.theme, edge.mark)
        }
        if edge.label and not edge.repeats:  # dot would make room for it
            color = MARKS.get(edge.mark, Color.INK)
            look["label"] = edge_label(edge.text, self.theme, color)
        if edge.passes:
            look["dir"] = "none"
        if place in _WEIGHTS:
            look["weight"] = _WEIGHTS[place]
        if place is EdgePlace.LANE:
            return self._lane(number, edge, look)
        if place in (EdgePlace.FROM_LEFT, EdgePlace.FROM_RIGHT):
            return (self._beside(edge, place, look),)
        if edge.style is EdgeStyle.DASHED:
            # Written along the rows and turned around: edges against them take minutes to place.
            free: Attributes = {} if edge.role is EdgeRole.MAIN else {"constraint": "false"}
            turned: Attributes = {**look, **free, "dir": look.get("dir", "back")}
            return (self._arrow(edge.head, edge.tail, turned),)
        if place is EdgePlace.BRANCH and edge.head in self.right:
            look |= {"tailport": self.sides["e"], "headport": self.sides["n"]}
        elif place is EdgePlace.SIDE and edge.tail in self.right and edge.head not in self.right:
            look |= {"tailport": self.sides["s"], "headport": self.sides["e"]}
        return (self._arrow(edge.tail, edge.head, look),)

    def _beside(self, edge: FigureEdge, place: EdgePlace, look: Attributes) -> str:
        if place is EdgePlace.FROM_LEFT:
            return f"{{ rank=same; {self._arrow(edge.tail, edge.head, look)} }}"
        direction = "none" if edge.style is EdgeStyle.NOTE else "back"
        turned = self._arrow(edge.head, edge.tail, {**look, "dir": direction})
        return f"{{ rank=same; {turned} }}"

    def _arrow(self, tail: str, head: str, look: Attributes) -> str:
        return _statement(self.ports.tail(tail, head), self.ports.head(head, tail), look)

    # ---- lanes ----------------------------------------------------------------------------------

    def _lane(self, number: int, edge: FigureEdge, look: Attributes) -> Iterator[str]:
        """Lead a residual edge at the left of the nodes it passes, and through bars."""
        after, before = self.facts.passed.get(number, ("", ""))
        way = self.ports.ways.get((edge.tail, edge.head))
        bars = list(way.stops()) if way else []
        if after == before and not bars:
            yield self._arrow(edge.tail, edge.head, look)
            return
        stops = bars
        top, bottom = f"lane_{number}_top", f"lane_{number}_bottom"
        if after and self.facts.kinds[after] is not NodeKind.COMMUNICATION:
            yield from self._lane_box(top, after, edge)
            stops = [(f"{top}:{self.sides['n']}", top), *stops]
        if before and self.facts.kinds[before] is not NodeKind.COMMUNICATION:
            yield from self._lane_box(bottom, before, edge)
            stops = [*stops, (bottom, f"{bottom}:{self.sides['s']}")]
        yield from self._pieces(edge, look, stops)

    def _lane_box(self, box: str, passed: str, edge: FigureEdge) -> Iterator[str]:
        """Put a small box at the left of a node that a lane passes, into its cluster."""
        line = edge.head.rpartition(" @")[2] if " @" in edge.head else ""  # one for every column
        look = dot_style.lane_box(self.theme, line, level=self.sides is _RIGHTWARD)
        declared = f"{box} {attributes(look)};"
        group = self.groups.get(passed)
        yield declared if group is None else f"subgraph cluster_{group} {{ {declared} }}"
        leftmost = dot_string(self.facts.left.get(passed, passed))
        yield f"{{ rank=same; {box} -> {leftmost} [style=invis]; }}"

    def _pieces(
        self, edge: FigureEdge, look: Attributes, stops: Sequence[tuple[str, str]]
    ) -> Iterator[str]:
        """Write a line from its tail to each stop, and from the last one to its head."""
        start = self.ports.tail(edge.tail, edge.head)
        starts = [start, *(out for _, out in stops)]
        ends = [*(into for into, _ in stops), dot_string(edge.head)]
        for place, (one, other) in enumerate(zip(starts, ends, strict=True)):
            own: dict[Attribute, str] = {**look}
            if place != len(stops) // 2:
                own.pop("label", None)
            if 0 < place < len(stops):
                own |= {"headclip": "false", "tailclip": "false"}
            else:
                own.pop("weight", None)
            if place == 0 and start == dot_string(edge.tail):
                own["tailport"] = self.sides["w"]
            if place < len(stops):
                own["arrowhead"] = "none"
            else:
                own["headport"] = self.sides["w"]
            yield _statement(one, other, own)


def _statement(tail: str, head: str, look: Attributes) -> str:
    return f"{tail} -> {head} {attributes(look)};" if look else f"{tail} -> {head};"
