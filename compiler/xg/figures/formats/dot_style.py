"""The attributes that DOT text may hold, and the looks of nodes and edges in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle, Emphasis, NodeKind
from xg.figures.model.style import Color, Outline, Theme

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
    """Return the look of a lane behind nodes."""
    usual: Attributes = {
        "style": '"rounded,filled"', "color": _color(theme, Color.LANE),
        "fontsize": f"{style.GROUP_SIZE:g}", "fontcolor": _color(theme, Color.MUTED),
        "labelloc": "t", "labeljust": "l", "margin": "10", "label": label,
    }  # fmt: skip
    if mark not in style.MARKS:
        return usual
    line = _marked(mark, theme)
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
    """Return what marks a node: its line, of a text its colour; nothing without a mark."""
    if mark not in style.MARKS:
        return {}
    line = _marked(mark, theme)
    if style.NODE_STYLES[kind].outline is Outline.NONE:
        return {}  # its label says the colour
    return {**line, "fillcolor": line["color"]} if kind is NodeKind.MATMUL else line


def _marked(mark: Emphasis, theme: Theme) -> Attributes:
    color = _color(theme, style.MARKS[mark])
    if mark is Emphasis.WENT:
        return {"color": color, "style": "dotted"}
    return {"color": color, "penwidth": f"{style.MARKED_WIDTH:g}"}


def edge_attributes(kind: EdgeStyle, theme: Theme, mark: Emphasis = Emphasis.NONE) -> Attributes:
    """Return the look of an arrow: a double line has the background's colour in its middle."""
    line: Attributes = _marked(mark, theme) if mark in style.MARKS else {}
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
