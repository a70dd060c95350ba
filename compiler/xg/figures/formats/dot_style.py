"""The attributes that DOT text may hold, and the looks of nodes and edges in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle, NodeKind
from xg.figures.model.style import Color, Outline, Theme

Attribute = Literal[
    "arrowhead", "arrowsize", "bgcolor", "color", "constraint", "dir", "fillcolor", "fixedsize",
    "fontcolor", "fontname", "fontsize", "group", "headclip", "headport", "height", "label",
    "labeljust", "labelloc", "margin", "newrank", "nodesep", "outputorder", "pad", "penwidth",
    "rank", "rankdir", "ranksep", "shape", "splines", "style", "tailclip", "tailport", "tooltip",
    "weight", "width",
]  # fmt: skip
Attributes = Mapping[Attribute, str]

_FONTS: Final = '"Helvetica,Arial,Liberation Sans,sans-serif"'


def attributes(values: Attributes) -> str:
    """Return an attribute list; values are written as they are, already quoted where needed."""
    return "[" + ", ".join(f"{name}={value}" for name, value in values.items()) + "]"


def graph_attributes(theme: Theme, label: str) -> Attributes:
    """Return how the whole drawing is laid out, and its heading."""
    return {
        "rankdir": "TB", "newrank": "true", "nodesep": "0.28", "ranksep": "0.20",
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


def group_attributes(theme: Theme, label: str) -> Attributes:
    """Return the look of a lane behind nodes."""
    return {
        "style": '"rounded,filled"', "color": _color(theme, Color.LANE),
        "fontsize": f"{style.GROUP_SIZE:g}", "fontcolor": _color(theme, Color.MUTED),
        "labelloc": "t", "labeljust": "l", "margin": "10", "label": label,
    }  # fmt: skip


def lane_box(theme: Theme, line: str = "") -> Attributes:
    """Return the look of the two small boxes that hold a residual edge in its lane.

    All lanes of one `line` are under each other.
    """
    ink = _color(theme, Color.INK)
    return {
        "shape": "box", "fixedsize": "true", "width": "0.0146", "height": "0.10", "style": "filled",
        "fillcolor": ink, "penwidth": "0", "label": '""', "group": f"lane{line}",
    }  # fmt: skip


def changed_attributes(theme: Theme) -> Attributes:
    """Return what marks a node that changed."""
    return {"color": _color(theme, Color.BACKWARD), "penwidth": f"{style.CHANGED_WIDTH:g}"}


def edge_attributes(kind: EdgeStyle, theme: Theme, *, changed: bool = False) -> Attributes:
    """Return the look of an arrow: a double line has the background's colour in its middle."""
    if changed:
        return {**edge_attributes(kind, theme), **_changed_line(kind, theme)}
    match kind:
        case EdgeStyle.SINGLE:
            return {}
        case EdgeStyle.DOUBLE:
            ink, background = theme.colors[Color.INK], theme.colors[Color.BACKGROUND]
            return {"color": f'"{ink}:{background}:{ink}"'}
        case EdgeStyle.DASHED:
            return {"style": "dashed", "color": _color(theme, Color.BACKWARD)}


def _changed_line(kind: EdgeStyle, theme: Theme) -> Attributes:
    if kind is not EdgeStyle.DOUBLE:
        return changed_attributes(theme)
    line, middle = theme.colors[Color.BACKWARD], theme.colors[Color.BACKGROUND]
    return {**changed_attributes(theme), "color": f'"{line}:{middle}:{line}"'}


def _color(theme: Theme, color: Color) -> str:
    return f'"{theme.colors[color]}"'
