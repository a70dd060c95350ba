"""The legend of a DOT text: one label with a table of glyphs and their meanings."""

from __future__ import annotations

from typing import Final

from xg.diagnostics import escape
from xg.figures.formats.dot_label import html
from xg.figures.model import style
from xg.figures.model.figure import EdgeStyle, Emphasis, Figure, NodeKind
from xg.figures.model.legend import Meaning, meanings
from xg.figures.model.style import Color, Theme

_SIGNS: Final = {
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
        f'<TD ALIGN="LEFT">{_colored(escape.xml(one.words), theme, Color.MUTED)}</TD></TR>'
        for one in meanings(figure)
    )
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="4" CELLPADDING="1">{rows}</TABLE>>'


def _mark(meaning: Meaning, theme: Theme) -> str:
    kind = meaning.kind
    if isinstance(kind, Emphasis):
        return (
            f"<TD>{_colored('⇢' if kind is Emphasis.WENT else '→', theme, style.MARKS[kind])}</TD>"
        )
    if meaning.symbol:
        color = Color.MUTED if kind is NodeKind.SAVED else Color.INK
        return f"<TD>{html(meaning.symbol, theme, color)}</TD>"
    if isinstance(kind, EdgeStyle) or kind in _SIGNS:
        color = Color.BACKWARD if kind is EdgeStyle.DASHED else Color.INK
        return f"<TD>{_colored(meaning.letters or _SIGNS[kind], theme, color)}</TD>"
    look = style.NODE_STYLES[kind]
    fill, line = theme.colors[look.fill], theme.colors[look.line]
    size = (
        'WIDTH="26" HEIGHT="12"' if meaning.letters else 'WIDTH="26" HEIGHT="12" FIXEDSIZE="TRUE"'
    )
    letters = _colored(escape.xml(meaning.letters), theme, Color.INK) if meaning.letters else ""
    return f'<TD BORDER="1" {size} BGCOLOR="{fill}" COLOR="{line}">{letters}</TD>'


def _colored(words: str, theme: Theme, color: Color) -> str:
    shade, size = theme.colors[color], f"{style.SHAPE_SIZE:g}"
    return f'<FONT COLOR="{shade}" POINT-SIZE="{size}">{words}</FONT>'
