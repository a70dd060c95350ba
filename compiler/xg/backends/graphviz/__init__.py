"""Figures: a figure as data in, DOT text or a picture out."""

from __future__ import annotations

from typing import Literal

from xg.backends.graphviz.figure import Figure

Format = Literal["svg", "pdf", "png"]
ThemeName = Literal["light", "dark", "print", "auto"]


def dot(figure: Figure, theme: ThemeName = "light") -> str:
    """Return a figure as styled DOT text; "auto" is light."""
    from xg.backends.graphviz.dot import dot
    from xg.backends.graphviz.style import LIGHT, THEMES

    return dot(figure, THEMES.get(theme, LIGHT))


def render(figure: Figure, format: Format = "svg", theme: ThemeName = "light") -> bytes:
    """Draw a figure. "auto" is light, and dark in an SVG whose reader prefers dark pages."""
    from xg.backends.graphviz.layout import layout
    from xg.backends.graphviz.paint import paint
    from xg.backends.graphviz.style import LIGHT, THEMES

    colors = THEMES.get(theme, LIGHT)
    display = paint(layout(figure))
    match format:
        case "svg":
            from xg.backends.graphviz.svg import svg

            return svg(display, colors, follow=theme == "auto").encode("utf-8")
        case "png":
            from xg.backends.graphviz.png import png

            return png(display, colors)
        case "pdf":
            from xg.backends.graphviz.pdf import pdf

            return pdf(display, colors)
