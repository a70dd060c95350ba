"""DOT: a figure as text that any Graphviz draws well by itself, and that goldens compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from xg import escape
from xg.backends.graphviz import dot_style
from xg.backends.graphviz.dot_columns import Ports, bar_labels, levels
from xg.backends.graphviz.dot_label import edge_label, html, node_label
from xg.backends.graphviz.dot_legend import legend_label
from xg.backends.graphviz.dot_style import Attribute, Attributes, attributes
from xg.backends.graphviz.figure import EdgeStyle, Figure, FigureEdge, FigureNode, NodeKind
from xg.backends.graphviz.richtext import title_text
from xg.backends.graphviz.structure import Place, Structure, structure
from xg.backends.graphviz.style import Color, Theme

_WEIGHTS: Final = {Place.DOWN: "100", Place.OUT: "100", Place.PAIRED: "100", Place.LANE: "60"}


def dot(figure: Figure, theme: Theme) -> str:
    """Return a figure as styled DOT text. Raises ValueError as `structure` does."""
    facts = structure(figure)
    heading = html(title_text(figure.title, figure.subtitle), theme, Color.INK)
    lines = [
        f"graph {attributes(dot_style.graph_attributes(theme, f'<{heading}>'))};",
        f"node {attributes(dot_style.default_node(theme))};",
        f"edge {attributes(dot_style.default_edge(theme))};",
        *_nodes(figure, theme),
        *_rows(facts),
        *_groups(figure, theme),
        *levels(figure),
    ]
    ports = Ports.of(figure)
    right = _right_columns(figure, facts)
    for number, (edge, place) in enumerate(zip(figure.edges, facts.places, strict=True)):
        lines += _edge(number, edge, place, facts, right, theme, ports)
    if figure.legend:
        lines.append(f"{{ rank=sink; legend [shape=plain, label={legend_label(figure, theme)}]; }}")
    body = "\n".join(f"  {line}" for line in lines)
    return f"digraph {escape.dot_string(figure.title)} {{\n{body}\n}}\n"


def _nodes(figure: Figure, theme: Theme) -> Iterator[str]:
    """Declare nodes kind by kind, so that each look is written once."""
    bars = bar_labels(figure, theme)
    for node_id, table in bars.items():
        yield f"{_name(node_id)} {attributes({'shape': 'plain', 'label': table})};"
    for kind in NodeKind:
        nodes = [node for node in figure.nodes if node.kind is kind and node.id not in bars]
        if nodes:
            yield f"{{ node {attributes(dot_style.kind_attributes(kind, theme))};"
            yield from (f"  {_name(node.id)} {attributes(_node(node, theme))};" for node in nodes)
            yield "}"


def _node(node: FigureNode, theme: Theme) -> Attributes:
    label: dict[Attribute, str] = {"label": node_label(node, theme)}
    if node.changed:
        label |= dot_style.changed_attributes(theme)
    return {**label, "tooltip": escape.dot_string(node.title)} if node.title else label


def _rows(facts: Structure) -> Iterator[str]:
    """Put the columns of a fork side by side in their order."""
    for fork in facts.forks:
        pairs = zip(fork.children, fork.children[1:], strict=False)
        links = (
            f"{_name(facts.right.get(one, one))} -> {_name(facts.left.get(other, other))};"
            for one, other in pairs
        )
        yield f"{{ rank=same; edge [style=invis]; {' '.join(links)} }}"


def _groups(figure: Figure, theme: Theme) -> Iterator[str]:
    for number, group in enumerate(figure.groups):
        label = f"<{html(group.label, theme, Color.MUTED)}>"
        yield f"subgraph cluster_{number} {{"
        yield f"  graph {attributes(dot_style.group_attributes(theme, label))};"
        yield f"  {' '.join(f'{_name(node)};' for node in group.nodes)}"
        yield "}"


def _right_columns(figure: Figure, facts: Structure) -> frozenset[str]:
    """Find the nodes of columns that a fork puts right of the column it leaves."""
    inside = {child for fork in facts.forks for child in fork.children[1:]}
    order = sorted(
        (edge for edge, place in zip(figure.edges, facts.places, strict=True)
         if place in (Place.DOWN, Place.OUT)),
        key=lambda edge: facts.rows[edge.tail],
    )  # fmt: skip
    for edge in order:
        if edge.tail in inside:
            inside.add(edge.head)
    return frozenset(inside)


def _edge(
    number: int,
    edge: FigureEdge,
    place: Place,
    facts: Structure,
    right: frozenset[str],
    theme: Theme,
    ports: Ports,
) -> Iterable[str]:
    look: dict[Attribute, str] = {
        **dot_style.edge_attributes(edge.style, theme, changed=edge.changed)
    }
    if edge.label:
        look["label"] = edge_label(edge.label, theme)
    if place in _WEIGHTS:
        look["weight"] = _WEIGHTS[place]
    if place is Place.RAIL:
        return (_rail(edge, look, ports),)
    if place is Place.LANE:
        return _lane(number, edge, look, facts, theme)
    if place in (Place.FROM_LEFT, Place.FROM_RIGHT):
        return (_beside(edge, place, look),)
    if edge.style is EdgeStyle.DASHED:
        # Written along the rows and turned around: edges against the rows take minutes to place.
        return (_arrow(edge.head, edge.tail, {**look, "dir": "back"}, ports),)
    if place is Place.BRANCH and edge.head in right:
        look |= {"tailport": "e", "headport": "n"}
    elif place is Place.SIDE and edge.tail in right and edge.head not in right:
        look |= {"tailport": "s", "headport": "e"}
    return (_arrow(edge.tail, edge.head, look, ports),)


def _rail(edge: FigureEdge, look: Attributes, ports: Ports) -> str:
    """Lead to a bar below all columns; from one, the arrow is turned around."""
    if edge.style is not EdgeStyle.DASHED:
        return _arrow(edge.head, edge.tail, {**look, "dir": "back", "weight": "0"}, ports)
    return _arrow(edge.tail, edge.head, {**look, "weight": "0"}, ports)


def _beside(edge: FigureEdge, place: Place, look: dict[Attribute, str]) -> str:
    if place is Place.FROM_LEFT:
        return f"{{ rank=same; {_arrow(edge.tail, edge.head, look)} }}"
    return f"{{ rank=same; {_arrow(edge.head, edge.tail, {**look, 'dir': 'back'})} }}"


def _lane(
    number: int, edge: FigureEdge, look: dict[Attribute, str], facts: Structure, theme: Theme
) -> Iterator[str]:
    """Lead a residual edge through two small boxes at the left of the nodes it passes."""
    after, before = facts.passed.get(number, ("", ""))
    if after == before:
        yield _arrow(edge.tail, edge.head, look)
        return
    top, bottom = f"lane_{number}_top", f"lane_{number}_bottom"
    line = edge.tail.rpartition(" @")[2] if " @" in edge.tail else ""  # one for every column
    yield f"{{ node {attributes(dot_style.lane_box(theme, line))}; {top}; {bottom}; }}"
    for box, passed in ((top, after), (bottom, before)):
        leftmost = _name(facts.left.get(passed, passed))
        yield f"{{ rank=same; {box} -> {leftmost} [style=invis]; }}"
    first: Attributes = {"arrowhead": "none", "tailport": "w", "headport": "n"}
    straight: Attributes = {"arrowhead": "none", "headclip": "false", "tailclip": "false"}
    last: Attributes = {"tailport": "s", "headport": "w"}
    yield f"{_name(edge.tail)} -> {top} {attributes(first)};"
    yield f"{top} -> {bottom} {attributes({**look, **straight})};"
    yield f"{bottom} -> {_name(edge.head)} {attributes(last)};"


def _arrow(tail: str, head: str, look: Attributes, ports: Ports | None = None) -> str:
    ends = f"{_name(tail)} -> {_name(head)}"
    if ports is not None:
        ends = f"{ports.tail(tail, head)} -> {ports.head(head, tail)}"
    return f"{ends} {attributes(look)};" if look else f"{ends};"


def _name(node_id: str) -> str:
    return escape.dot_string(node_id)
