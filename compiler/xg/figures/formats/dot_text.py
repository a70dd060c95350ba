"""DOT: a figure as text that any Graphviz draws well by itself, and that goldens compare."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from xg.diagnostics.escape import dot_string
from xg.figures.formats import dot_style
from xg.figures.formats.dot_columns import bar_labels, levels, ordered
from xg.figures.formats.dot_edges import dot_edges
from xg.figures.formats.dot_label import html, node_label
from xg.figures.formats.dot_legend import legend_label
from xg.figures.formats.dot_style import Attribute, Attributes, attributes
from xg.figures.model.figure import Figure, FigureNode, NodeKind
from xg.figures.model.richtext import title_text
from xg.figures.model.structure import Structure, nested, structure
from xg.figures.model.style import Color, Theme


def dot(figure: Figure, theme: Theme) -> str:
    """Return a figure as styled DOT text. Raises ValueError as `structure` does."""
    facts = structure(figure)
    title = title_text(figure.title, figure.subtitle) if figure.has_heading else ()
    heading = html(title, theme, Color.INK)
    looks = dot_style.graph_attributes(theme, f"<{heading}>", rightward=figure.rightward)
    lines = [
        f"graph {attributes({**looks, **_size(figure)})};",
        f"node {attributes(dot_style.default_node(theme))};",
        f"edge {attributes(dot_style.default_edge(theme))};",
        *_nodes(figure, theme),
        *_rows(facts),
        *_groups(figure, theme),
        *levels(figure),
        *ordered(figure),
        *dot_edges(figure, facts, theme),
    ]
    if figure.has_key:
        lines.append(f"{{ rank=sink; legend [shape=plain, label={legend_label(figure, theme)}]; }}")
    body = "\n".join(f"  {line}" for line in lines)
    return f"digraph {dot_string(figure.title)} {{\n{body}\n}}\n"


def _size(figure: Figure) -> Attributes:
    """Return the largest size of the drawing: a page of a given width, of any height."""
    return {"size": f'"{figure.width / 72:.3f},200"'} if figure.width else {}


def _nodes(figure: Figure, theme: Theme) -> Iterator[str]:
    """Declare nodes kind by kind, so that each look is written once."""
    bars = bar_labels(figure, theme)
    for node_id, table in bars.items():
        yield f"{dot_string(node_id)} {attributes({'shape': 'plain', 'label': table})};"
    for kind in NodeKind:
        nodes = [node for node in figure.nodes if node.kind is kind and node.id not in bars]
        if nodes:
            yield f"{{ node {attributes(dot_style.kind_attributes(kind, theme))};"
            yield from (
                f"  {dot_string(node.id)} {attributes(_node(node, theme))};" for node in nodes
            )
            yield "}"


def _node(node: FigureNode, theme: Theme) -> Attributes:
    label: dict[Attribute, str] = {"label": node_label(node, theme)}
    label |= dot_style.marked_node(node.kind, node.mark, theme)
    return {**label, "tooltip": dot_string(node.title)} if node.title else label


def _rows(facts: Structure) -> Iterator[str]:
    """Put the columns of a fork side by side in their order."""
    for fork in facts.forks:
        ends = (
            (facts.right.get(one, one), facts.left.get(other, other))
            for one, other in pairwise(fork.children)
        )
        links = (f"{dot_string(tail)} -> {dot_string(head)};" for tail, head in ends)
        yield f"{{ rank=same; edge [style=invis]; {' '.join(links)} }}"


def _groups(figure: Figure, theme: Theme) -> Iterator[str]:
    inside_of = nested(figure.groups)

    def cluster(number: int) -> Iterator[str]:
        group = figure.groups[number]
        label = f"<{html(group.label, theme, Color.MUTED)}>"
        yield f"subgraph cluster_{number} {{"
        look = dot_style.group_attributes(theme, label, group.mark)
        yield f"  graph {attributes(look)};"
        yield f"  {' '.join(f'{dot_string(node)};' for node in group.nodes)}"
        yield from (f"  {line}" for other in inside_of[number] for line in cluster(other))
        yield "}"

    yield from (line for number in inside_of[None] for line in cluster(number))
