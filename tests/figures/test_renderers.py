"""SVG as other programs draw it: CairoSVG, and Typst, whose renderer is resvg."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import cast

import pytest
import typst
from figures.hand_made import mha_forward, mlp_backward, overview
from PIL import Image

from xg.figures import ThemeName, render
from xg.figures.model.figure import LIGHT, THEMES, Color

FIGURES = (mha_forward(), mlp_backward(), overview())
PAGE = '#set page(width: auto, height: auto, margin: 0pt)\n#image("figure.svg")'
BLACK = "#000000"
MANY = 30  # pixels: more than what is blended by chance at the rim of a letter


def by_cairo(svg: bytes, folder: Path) -> bytes:
    """Draw it as CairoSVG does, and WeasyPrint in much the same way."""
    (folder / "figure.svg").write_bytes(svg)
    drawn: bytes = import_module("cairosvg").svg2png(url=str(folder / "figure.svg"))
    return drawn


def by_typst(svg: bytes, folder: Path) -> bytes:
    """Draw it as an image of a Typst document."""
    (folder / "figure.svg").write_bytes(svg)
    (folder / "page.typ").write_text(PAGE, encoding="utf-8")
    return typst.compile(folder / "page.typ", root=folder, format="png", ppi=96)


def colors(png: bytes) -> dict[str, int]:
    """Count the pixels of each color, written as themes write it."""
    picture = Image.open(BytesIO(png)).convert("RGB")
    found = picture.getcolors(picture.width * picture.height)
    counts = cast("list[tuple[int, tuple[int, int, int]]]", found)
    return {"#{:02X}{:02X}{:02X}".format(*color): count for count, color in counts}


@pytest.mark.parametrize("draw", [by_cairo, by_typst])
@pytest.mark.parametrize("theme", ["light", "dark", "print", "auto"])
def test_others_draw_the_colors_of_the_theme(
    draw: Callable[[bytes, Path], bytes], theme: ThemeName, tmp_path: Path
) -> None:
    wanted = THEMES.get(theme, LIGHT).colors
    for figure in FIGURES:
        found = colors(draw(render(figure, "svg", theme), tmp_path))
        assert max(found, key=lambda color: found[color]) == wanted[Color.BACKGROUND]
        assert found.get(wanted[Color.INK], 0) > MANY
        if wanted[Color.INK] != BLACK:
            assert BLACK not in found


def test_a_sheet_of_variables_is_drawn_black(tmp_path: Path) -> None:
    """The tests above would notice a figure that other programs draw black."""
    rule = b"<style>.xg-background{fill:var(--paper)}</style>"
    planted = render(FIGURES[0]).replace(b"<title>", rule + b"<title>", 1)
    for draw in (by_cairo, by_typst):
        found = colors(draw(planted, tmp_path))
        assert max(found, key=lambda color: found[color]) == BLACK
