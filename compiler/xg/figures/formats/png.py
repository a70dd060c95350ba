"""PNG: the SVG drawn by resvg with the bundled font, so it looks the same on every machine."""

from __future__ import annotations

import math
from typing import Final

from xg.figures.draw import font
from xg.figures.draw.display import Display
from xg.figures.formats.svg import plain_svg
from xg.figures.model.style import Theme

SCALE: Final = 2.0
_PIXELS_PER_POINT: Final = 96 / 72
_LARGEST_SIDE: Final = 16_000  # pixels; a larger figure is drawn at a smaller scale
_LARGEST_AREA: Final = 40_000_000  # pixels: 160 MB in the memory of a viewer


def png(display: Display, theme: Theme) -> bytes:
    """Draw a display list at twice the usual 96 pixels per inch."""
    from resvg_py import svg_to_bytes  # a large library, for PNG only

    return bytes(
        svg_to_bytes(
            svg_string=plain_svg(display, theme),
            dpi=96,
            zoom=scale(display.width * _PIXELS_PER_POINT, display.height * _PIXELS_PER_POINT),
            skip_system_fonts=True,
            font_family=font.FAMILY,
            sans_serif_family=font.FAMILY,
            font_files=[str(path) for path in font.FILES.values()],
        )
    )


def scale(width: float, height: float) -> float:
    """The pixels of the picture for a pixel at 96 to the inch: fewer where it is large."""
    side, area = _LARGEST_SIDE / max(width, height), _LARGEST_AREA / (width * height)
    return min(SCALE, side, math.sqrt(area))
