"""Rich text as Graphviz's HTML labels."""

from __future__ import annotations

from typing import Final

from xg.diagnostics import escape
from xg.figures.model import style
from xg.figures.model.figure import FigureNode, NodeKind
from xg.figures.model.richtext import RichText, StyledRun, scripts
from xg.figures.model.style import Color, Theme

_SCRIPT_SIZE: Final = 7
_NESTED_SIZE: Final = 6
_SIGNS: Final = {
    NodeKind.MATMUL: "",
    NodeKind.ADD: "+",
    NodeKind.MUL: "•",
}


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
