"""Write a figure as DOT text that any Graphviz draws well, and that goldens compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, Literal

from xg.diagnostics import escape
from xg.diagnostics.escape import dot_string
from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw.glyph import Meaning, label_size, meanings
from xg.figures.layout.placement import units
from xg.figures.model import figure as style
from xg.figures.model.figure import (
    MARKS,
    BarPlace,
    Color,
    EdgeRole,
    EdgeStyle,
    Emphasis,
    Figure,
    FigureBar,
    FigureEdge,
    FigureNode,
    NodeKind,
    Outline,
    Theme,
)
from xg.figures.model.richtext import RichText, StyledRun, scripts, title_text
from xg.figures.model.structure import (
    ColumnIds,
    EdgePlace,
    Structure,
    bar_id,
    column_ids,
    level_pairs,
    nest_groups,
    segments,
    single_column,
    split_at_levels,
    structure,
)

# Write rich text, bars across columns and the legend as Graphviz's HTML labels.


_SCRIPT_SIZE: Final = 7
_NESTED_SIZE: Final = 6
_SIGNS: Final = {NodeKind.MATMUL: "", NodeKind.ADD: "+", NodeKind.MUL: "•"}


def node_label(node: FigureNode, theme: Theme) -> str:
    """Return the label attribute's value for a node."""
    if node.kind in _SIGNS:
        return escape.dot_string(_SIGNS[node.kind])
    if node.kind in (NodeKind.SAVED, NodeKind.NOTE):
        return f"<{html(node.label, theme, Color.MUTED)}>"
    framed = style.NODE_STYLES[node.kind].outline is not style.Outline.NONE
    color = Color.INK if framed else style.MARKS.get(node.mark, Color.INK)
    return f"<{quiet_lines(node, theme, color)}>"


def quiet_lines(node: FigureNode, theme: Theme, color: Color) -> str:
    """Return a node's label with its quiet lines under it."""
    size = f"{style.DETAIL_SIZE:g}"
    quiet = "".join(
        f'<BR/><FONT POINT-SIZE="{size}">{html(text, theme, Color.MUTED)}</FONT>'
        for text in (node.detail, *node.lines)
        if text
    )
    return html(node.label, theme, color) + quiet


def edge_label(text: RichText, theme: Theme, color: Color = Color.INK) -> str:
    """Return the label attribute's value for an edge: a space keeps it off the line."""
    return f"<&nbsp;{html(text, theme, color)}&nbsp;>"


def html(text: RichText, theme: Theme, color: Color) -> str:
    """Return rich text in the few tags that every version of Graphviz draws; empty as a space."""
    return "".join(_run(run, theme, color) for run in text) or " "


def _run(run: StyledRun, theme: Theme, color: Color) -> str:
    inner = escape.dot_html(run.text)
    inner = f"<B>{inner}</B>" if run.bold and inner else inner
    inner = f"<I>{inner}</I>" if run.italic and inner else inner
    below = "".join(
        _script("SUB", escape.dot_html(text), _NESTED_SIZE) if is_nested else escape.dot_html(text)
        for text, is_nested in scripts(run.sub)
    )
    inner += _script("SUB", below, _SCRIPT_SIZE) if below else ""
    inner += _script("SUP", escape.dot_html(run.sup), _SCRIPT_SIZE) if run.sup else ""
    if not inner:
        return ""
    if run.muted:
        shade = theme.colors[Color.MUTED]
        return f'<FONT POINT-SIZE="{style.SHAPE_SIZE:g}" COLOR="{shade}">{inner}</FONT>'
    if run.tag:
        use = Color.COMMUNICATION_LINE if run.tag == "forward" else Color.BACKWARD
        return f'<FONT POINT-SIZE="{style.TAG_SIZE:g}" COLOR="{theme.colors[use]}">{inner}</FONT>'
    return f'<FONT COLOR="{theme.colors[color]}">{inner}</FONT>'


def _script(tag: str, inner: str, size: int) -> str:
    return f'<{tag}><FONT POINT-SIZE="{size}">{inner}</FONT></{tag}>'


# Bars across columns in DOT: tables with a port for every column, above and below the text.


_BETWEEN: Final = 30.0  # columns
_CELL: Final = 16  # where a lane passes a bar
_PAD: Final = "-"  # where nothing does


@dataclass(frozen=True, slots=True)
class SideRail:
    """The bars that a lane passes, and its cell in each."""

    bars: tuple[str, ...]
    cell: str

    def stops(self) -> Iterator[tuple[str, str]]:
        """Yield for every bar where the line goes in and where it comes out."""
        for bar in map(escape.dot_string, self.bars):
            yield f"{bar}:t{self.cell}:n", f"{bar}:b{self.cell}:s"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a column's arrows meet the bars: by the DOT text's tail below, by its head above.

    `ways` are those of lanes, by their ends.
    """

    columns: Mapping[tuple[str, str], int]
    ways: Mapping[tuple[str, str], SideRail]

    @classmethod
    def of(cls, figure: Figure) -> Ports:
        """Return the ports of a figure; only a figure of ranks side by side has any."""
        places: dict[tuple[str, str], int] = {}
        for names, column in zip(column_ids(figure), figure.columns, strict=True):
            place = names.column
            for edge in column.edges:
                for one, other in ((edge.tail, edge.head), (edge.head, edge.tail)):
                    if one in names.bars:
                        places[names.of(one), names.of(other)] = place
                        if other in names.bars:
                            places[names.of(other), names.of(one)] = place
        return cls(places, dict(_ways(figure)))

    def tail(self, node: str, other: str) -> str:
        """Return how an arrow's tail is written."""
        return self._end(node, other, "b", "s")

    def head(self, node: str, other: str) -> str:
        """Return how an arrow's head is written."""
        return self._end(node, other, "t", "n")

    def _end(self, node: str, other: str, row: str, side: str) -> str:
        place = self.columns.get((node, other))
        name = escape.dot_string(node)
        return name if place is None else f"{name}:{row}{place}:{side}"


def _ways(figure: Figure) -> Iterator[tuple[tuple[str, str], SideRail]]:
    if not figure.columns:
        return
    first = single_column(figure, figure.columns[0])
    before = {level: number for number, level in enumerate(first.levels)}
    after = {level: number + 1 for level, number in before.items()}
    stands = {node: n for n, segment in enumerate(split_at_levels(first)) for node in segment}
    for names, column in zip(column_ids(figure), figure.columns, strict=True):
        for edge in column.edges:
            if edge.role is EdgeRole.RESIDUAL and edge.style is not EdgeStyle.DASHED:
                begin = after.get(edge.tail, stands.get(edge.tail, 0))
                end = before.get(edge.head, stands.get(edge.head, 0))
                passed = tuple(names.of(level) for level in first.levels[begin:end])
                yield (
                    (names.of(edge.tail), names.of(edge.head)),
                    SideRail(passed, f"{names.column}l"),
                )


def bar_labels(figure: Figure, theme: Theme) -> dict[str, str]:
    """Return the tables of all bars, by the ids that they have among all nodes."""
    if not figure.columns:
        return {}
    left, right = _reach(figure)
    roles = {edge.role for edge in figure.columns[0].edges}
    cells = [
        *([("l", _CELL)] if EdgeRole.RESIDUAL in roles else []),
        (_PAD, left - _CELL),
        ("", 2 * _CELL),
        (_PAD, right - _CELL),
    ]
    return {
        bar_id(bar, number): _table(bar, span, cells, theme)
        for bar in figure.bars
        for number, span in enumerate(bar.spans)
    }


def levels(figure: Figure) -> Iterator[str]:
    """Yield what keeps other nodes out of the rows of bars."""
    for names, column in zip(column_ids(figure), figure.columns, strict=True):
        for above, below in level_pairs(single_column(figure, column)):
            one, other = names.of(above), names.of(below)
            yield f"{escape.dot_string(one)} -> {escape.dot_string(other)} [style=invis, weight=0];"
        yield from _outside(figure, names)


def column_order(figure: Figure) -> Iterator[str]:
    """Yield what keeps the columns in their order: what each has first between two bars."""
    for segment in segments(figure) if figure.columns else ():
        row = " -> ".join(escape.dot_string(ids.of(segment[0])) for ids in column_ids(figure))
        yield f"{{ rank=same; edge [style=invis]; {row}; }}"


def _outside(figure: Figure, names: ColumnIds) -> Iterator[str]:
    """Yield what keeps bars above and below all columns there."""
    above = [bar.node.id for bar in figure.bars if bar.where is BarPlace.ABOVE]
    below = [bar.node.id for bar in figure.bars if bar.where is BarPlace.BELOW]
    inside = segments(figure)
    rows = [*([one] for one in above), *inside[:1]], [*inside[-1:], *([one] for one in below)]
    for over, under in (pair for some in rows for pair in pairwise(some)):
        for node in over:
            for other in under:
                one, two = escape.dot_string(names.of(node)), escape.dot_string(names.of(other))
                yield f"{one} -> {two} [style=invis, weight=0];"


def _reach(figure: Figure) -> tuple[int, int]:
    """Return about how far a column reaches to the left and to the right of its middle."""
    column = single_column(figure, figure.columns[0])
    boxes = units(column, structure(column))
    left = max(unit.reach for unit in boxes)
    right = max(unit.width - unit.reach for unit in boxes)
    labels = max((label_size(edge.label, turned=False).width for edge in column.edges), default=0.0)
    return round(max(left, labels)), round(max(right, labels) + _BETWEEN)


def _table(
    bar: FigureBar, span: tuple[int, int], cells: Sequence[tuple[str, int]], theme: Theme
) -> str:
    """Return a bar with the `cells` of each of its columns, by name and width, at both sides."""
    look = style.NODE_STYLES[bar.node.kind]
    fill, line = theme.colors[look.fill], theme.colors[look.line]
    first, last = span
    rows = {
        row: "".join(
            f'<TD{_port(row, place, name)} WIDTH="{width}" HEIGHT="6" FIXEDSIZE="TRUE"></TD>'
            for place in range(first, last + 1)
            for name, width in cells
        )
        for row in "tb"
    }
    count = (last - first + 1) * len(cells)
    text = f'<TD COLSPAN="{count}">{quiet_lines(bar.node, theme, Color.INK)}</TD>'
    head = (
        f'BORDER="1" COLOR="{line}" BGCOLOR="{fill}" CELLBORDER="0" CELLSPACING="0" '
        'CELLPADDING="0" STYLE="ROUNDED"'
    )
    inside = f"<TR>{rows['t']}</TR><TR>{text}</TR><TR>{rows['b']}</TR>"
    return f"<<TABLE {head}>{inside}</TABLE>>"


def _port(row: str, place: int, name: str) -> str:
    return "" if name == _PAD else f' PORT="{row}{place}{name}"'


# The legend of a DOT text: one label with a table of glyphs and their meanings.


_LEGEND_SIGNS: Final = {
    NodeKind.MATMUL: "●",
    NodeKind.ADD: "⊕",
    NodeKind.MUL: "⊙",
    NodeKind.REDUCE: "Σ",
    NodeKind.SAVED: "X",
    EdgeStyle.DOUBLE: "⇒",
    EdgeStyle.DASHED: "⇢",
}


def legend_label(figure: Figure, theme: Theme) -> str:
    """Return the HTML label of a node that contains the whole legend."""
    rows = "".join(
        f"<TR>{_mark(one, theme)}"
        f'<TD ALIGN="LEFT">{_color_words(escape.xml(one.words), theme, Color.MUTED)}</TD></TR>'
        for one in meanings(figure)
    )
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="4" CELLPADDING="1">{rows}</TABLE>>'


def _mark(meaning: Meaning, theme: Theme) -> str:
    kind = meaning.kind
    if isinstance(kind, Emphasis):
        arrow = "⇢" if kind is Emphasis.WENT else "→"
        return f"<TD>{_color_words(arrow, theme, style.MARKS[kind])}</TD>"
    if meaning.symbol:
        color = Color.MUTED if kind is NodeKind.SAVED else Color.INK
        return f"<TD>{html(meaning.symbol, theme, color)}</TD>"
    if isinstance(kind, EdgeStyle) or kind in _LEGEND_SIGNS:
        color = Color.BACKWARD if kind is EdgeStyle.DASHED else Color.INK
        return f"<TD>{_color_words(meaning.letters or _LEGEND_SIGNS[kind], theme, color)}</TD>"
    look = style.NODE_STYLES[kind]
    fill, line = theme.colors[look.fill], theme.colors[look.line]
    size = (
        'WIDTH="26" HEIGHT="12"' if meaning.letters else 'WIDTH="26" HEIGHT="12" FIXEDSIZE="TRUE"'
    )
    letters = _color_words(escape.xml(meaning.letters), theme, Color.INK) if meaning.letters else ""
    return f'<TD BORDER="1" {size} BGCOLOR="{fill}" COLOR="{line}">{letters}</TD>'


def _color_words(words: str, theme: Theme, color: Color) -> str:
    shade, size = theme.colors[color], f"{style.SHAPE_SIZE:g}"
    return f'<FONT COLOR="{shade}" POINT-SIZE="{size}">{words}</FONT>'


# The attributes that DOT text may hold, and the looks of nodes and edges in them.


Attribute = Literal[
    "arrowhead", "arrowsize", "bgcolor", "color", "constraint", "dir", "fillcolor", "fixedsize",
    "fontcolor", "fontname", "fontsize", "group", "headclip", "headport", "height", "label",
    "labeljust", "labelloc", "margin", "newrank", "nodesep", "outputorder", "pad", "penwidth",
    "rank", "rankdir", "ranksep", "shape", "size", "splines", "style", "tailclip", "tailport",
    "tooltip", "weight", "width",
]  # fmt: skip
Attributes = Mapping[Attribute, str]

_FONTS: Final = '"Helvetica,Arial,Liberation Sans,sans-serif"'


def attributes(values: Attributes) -> str:
    """Return an attribute list; values are written as they are, already quoted where needed."""
    return "[" + ", ".join(f"{name}={value}" for name, value in values.items()) + "]"


def graph_attributes(theme: Theme, label: str, *, rightward: bool) -> Attributes:
    """Return how the whole drawing is laid out, and its heading."""
    return {
        "rankdir": "LR" if rightward else "TB",
        "newrank": "true", "nodesep": "0.28", "ranksep": "0.20",
        "splines": "spline", "outputorder": "edgesfirst", "pad": "0.2",
        "bgcolor": _color(theme, Color.BACKGROUND), "fontname": _FONTS,
        "fontsize": f"{style.TITLE_SIZE:g}", "fontcolor": _color(theme, Color.INK),
        "labelloc": "t", "labeljust": "l", "label": label,
    }  # fmt: skip


def default_node(theme: Theme) -> Attributes:
    """Return what all nodes share."""
    ink = _color(theme, Color.INK)
    return {"fontname": _FONTS, "fontsize": f"{style.GLYPH_SIZE:g}", "color": ink, "fontcolor": ink}


def default_edge(theme: Theme) -> Attributes:
    """Return what all edges share."""
    return {
        "fontname": _FONTS, "fontsize": f"{style.SHAPE_SIZE:g}", "penwidth": "1.05",
        "color": _color(theme, Color.INK), "fontcolor": _color(theme, Color.MUTED),
        "arrowsize": "0.6", "arrowhead": "normal",
    }  # fmt: skip


def kind_attributes(kind: NodeKind, theme: Theme) -> Attributes:
    """Return the look of a kind of node."""
    look = style.NODE_STYLES[kind]
    if look.outline is Outline.NONE:
        return {"shape": "plain", "fontsize": f"{style.TENSOR_SIZE:g}", "width": "0", "height": "0"}
    rounded = look.outline is Outline.ROUNDED
    common: dict[Attribute, str] = {
        "shape": "circle" if look.outline is Outline.CIRCLE else "box",
        "style": '"filled,rounded"' if rounded else "filled",
        "fillcolor": _color(theme, look.fill), "color": _color(theme, look.line),
        "penwidth": f"{look.line_width:g}",
        "width": f"{look.width / 72:.2f}", "height": f"{look.height / 72:.2f}",
    }  # fmt: skip
    if look.outline is Outline.CIRCLE:
        return {**common, "fixedsize": "true", "margin": "0", "fontsize": "13"}
    return {**common, "margin": '"0.08,0.03"'}


def group_attributes(theme: Theme, label: str, mark: Emphasis = Emphasis.NONE) -> Attributes:
    """Return the look of a lane under its nodes."""
    usual: Attributes = {
        "style": '"rounded,filled"', "color": _color(theme, Color.LANE),
        "fontsize": f"{style.GROUP_SIZE:g}", "fontcolor": _color(theme, Color.MUTED),
        "labelloc": "t", "labeljust": "l", "margin": "10", "label": label,
    }  # fmt: skip
    if mark not in style.MARKS:
        return usual
    line = _mark_attributes(mark, theme)
    return {**usual, **line, "fillcolor": usual["color"], "fontcolor": line["color"]}


def lane_box(theme: Theme, line: str = "", *, level: bool = False) -> Attributes:
    """Return the look of the two small boxes that hold a residual edge in its lane.

    All lanes of one `line` are under each other.
    """
    ink = _color(theme, Color.INK)
    width, height = ("0.10", "0.0146") if level else ("0.0146", "0.10")
    return {
        "shape": "box", "fixedsize": "true", "width": width, "height": height, "style": "filled",
        "fillcolor": ink, "penwidth": "0", "label": '""', "group": f"lane{line}",
    }  # fmt: skip


def marked_node(kind: NodeKind, mark: Emphasis, theme: Theme) -> Attributes:
    """Return what marks a node: its line, of a text its color; nothing without a mark."""
    if mark not in style.MARKS:
        return {}
    line = _mark_attributes(mark, theme)
    if style.NODE_STYLES[kind].outline is Outline.NONE:
        return {}  # its label says the color
    return {**line, "fillcolor": line["color"]} if kind is NodeKind.MATMUL else line


def _mark_attributes(mark: Emphasis, theme: Theme) -> Attributes:
    color = _color(theme, style.MARKS[mark])
    if mark is Emphasis.WENT:
        return {"color": color, "style": "dotted"}
    return {"color": color, "penwidth": f"{style.MARKED_WIDTH:g}"}


def edge_attributes(kind: EdgeStyle, theme: Theme, mark: Emphasis = Emphasis.NONE) -> Attributes:
    """Return the look of an arrow: a double line has the background's color in its middle."""
    line: Attributes = _mark_attributes(mark, theme) if mark in style.MARKS else {}
    ink = theme.colors[style.MARKS.get(mark, Color.INK)]
    match kind:
        case EdgeStyle.SINGLE:
            return line
        case EdgeStyle.DOUBLE:
            background = theme.colors[Color.BACKGROUND]
            return {**line, "color": f'"{ink}:{background}:{ink}"'}
        case EdgeStyle.DASHED:
            return {"style": "dashed", "color": _color(theme, Color.BACKWARD), **line}
        case EdgeStyle.NOTE:
            return {"style": "dotted", "color": _color(theme, Color.MUTED), "arrowhead": "none"}


def _color(theme: Theme, color: Color) -> str:
    return f'"{theme.colors[color]}"'


# Edges in DOT: how an arrow is led depends on where it runs.


_WEIGHTS: Final = {EdgePlace.DOWN: "100", EdgePlace.OUT: "100", EdgePlace.LANE: "60"}
_DOWNWARD: Final = {side: side for side in "nesw"}
_RIGHTWARD: Final = {"n": "w", "e": "s", "s": "e", "w": "n"}  # x and y exchanged


def dot_edges(figure: Figure, facts: Structure, theme: Theme) -> list[str]:
    """Return the statements of all edges."""
    outermost = nest_groups(figure.groups)[None]
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
        look: dict[Attribute, str] = {**edge_attributes(edge.style, self.theme, edge.mark)}
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
            return (self._same_rank_arrow(edge, place, look),)
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

    def _same_rank_arrow(self, edge: FigureEdge, place: EdgePlace, look: Attributes) -> str:
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
        look = lane_box(self.theme, line, level=self.sides is _RIGHTWARD)
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


def dot(figure: Figure, theme: Theme) -> str:
    """Return a figure as styled DOT text. Raises ValueError as `structure` does."""
    facts = structure(figure)
    title = title_text(figure.title, figure.subtitle) if figure.has_heading else ()
    heading = html(title, theme, Color.INK)
    looks = graph_attributes(theme, f"<{heading}>", rightward=figure.rightward)
    lines = [
        f"graph {attributes({**looks, **_size(figure)})};",
        f"node {attributes(default_node(theme))};",
        f"edge {attributes(default_edge(theme))};",
        *_nodes(figure, theme),
        *_rows(facts),
        *_groups(figure, theme),
        *levels(figure),
        *column_order(figure),
        *dot_edges(figure, facts, theme),
    ]
    if figure.has_key:
        lines.append(f"{{ rank=sink; legend [shape=plain, label={legend_label(figure, theme)}]; }}")
    body = "\n".join(f"  {line}" for line in lines)
    return f"digraph {dot_string(figure.title)} {{\n{body}\n}}\n"


def _size(figure: Figure) -> Attributes:
    """Return the largest size of the drawing, 200 inches where its page has no limit."""
    width, height = (
        f"{size / 72:.3f}" if size else "200" for size in (figure.width, figure.height)
    )
    return {"size": f'"{width},{height}"'} if figure.width or figure.height else {}


def _nodes(figure: Figure, theme: Theme) -> Iterator[str]:
    """Declare nodes kind by kind, so that each look is written once."""
    bars = bar_labels(figure, theme)
    for node_id, table in bars.items():
        yield f"{dot_string(node_id)} {attributes({'shape': 'plain', 'label': table})};"
    for kind in NodeKind:
        nodes = [node for node in figure.nodes if node.kind is kind and node.id not in bars]
        if nodes:
            yield f"{{ node {attributes(kind_attributes(kind, theme))};"
            yield from (
                f"  {dot_string(node.id)} {attributes(_node(node, theme))};" for node in nodes
            )
            yield "}"


def _node(node: FigureNode, theme: Theme) -> Attributes:
    label: dict[Attribute, str] = {"label": node_label(node, theme)}
    label |= marked_node(node.kind, node.mark, theme)
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
    inside_of = nest_groups(figure.groups)

    def cluster(number: int) -> Iterator[str]:
        group = figure.groups[number]
        label = f"<{html(group.label, theme, Color.MUTED)}>"
        yield f"subgraph cluster_{number} {{"
        look = group_attributes(theme, label, group.mark)
        yield f"  graph {attributes(look)};"
        yield f"  {' '.join(f'{dot_string(node)};' for node in group.nodes)}"
        yield from (f"  {line}" for other in inside_of[number] for line in cluster(other))
        yield "}"

    yield from (line for number in inside_of[None] for line in cluster(number))
