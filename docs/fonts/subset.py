"""Make XG Sans: a part of Liberation Sans 2.1.5, and the three signs that it lacks (⊤ ⊕ ⊙).

usage: python subset.py FOLDER_OF_LIBERATION_FONTS TARGET_FOLDER   (needs fonttools 4.68)

The result is committed; this file says how it came about. Outlines lose their hints and kerning:
text is measured by advance widths alone, PNG and PDF are drawn with it, and an SVG asks for it
after Helvetica, Arial and Liberation Sans, which have the same widths. It has a name of its own
because the licence, `OFL.txt` beside it, reserves the original's.
"""

import sys
from math import cos, pi, sin
from pathlib import Path

from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

FACES = ("Regular", "Bold", "Italic")  # no name is bold and slanted
LETTERS = [*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x391, 0x3CA), 0x3D1, 0x3D5, 0x3D6]
SIGNS = [ord(sign) for sign in "–—‘’“”†‡•…′″←↑→↓↔∂∆∏∑−√∞∩∫≈≠≤≥◊ﬁﬂ"]
UNDESIRED = ["GPOS", "GSUB", "GDEF", "FFTM", "DSIG", "kern", "gasp"]
MIDDLE, MIDDLE_HEIGHT, RADIUS, CAP_HEIGHT = 717, 690, 620, 1409  # of 2048 units to the em


class Drawing:
    """A glyph being drawn: bars and circles of one stroke width."""

    def __init__(self, stroke: int) -> None:
        self.pen = TTGlyphPen(None)
        self.half = stroke / 2
        self.stroke = stroke

    def bar(self, left: float, low: float, right: float, high: float) -> None:
        """Fill a rectangle."""
        self.pen.moveTo((left, low))
        for corner in ((left, high), (right, high), (right, low)):
            self.pen.lineTo(corner)
        self.pen.closePath()

    def disc(self, radius: float, *, hole: bool = False) -> None:
        """Fill a circle around the middle, or cut one out: eight arcs."""
        angles = [step * pi / 8 for step in range(16)]
        if not hole:
            angles.reverse()
        # Every other point is a control point, pushed outwards until the arcs touch the circle.
        reach = [radius, radius / cos(pi / 8)] * 8
        shift = angles.index(0.0)
        angles = angles[shift:] + angles[:shift]
        points = [
            (MIDDLE + r * cos(angle), MIDDLE_HEIGHT + r * sin(angle))
            for angle, r in zip(angles, reach, strict=True)
        ]
        self.pen.moveTo(points[0])
        for control, end in zip(points[1::2], [*points[2::2], points[0]], strict=True):
            self.pen.qCurveTo(control, end)
        self.pen.closePath()

    def ring(self) -> None:
        """Draw the circle of ⊕ and ⊙."""
        self.disc(RADIUS)
        self.disc(RADIUS - self.stroke, hole=True)


def top(drawing: Drawing) -> None:
    """Draw ⊤."""
    drawing.bar(90, CAP_HEIGHT - drawing.stroke, 1161, CAP_HEIGHT)
    drawing.bar(625 - drawing.half, 0, 625 + drawing.half, CAP_HEIGHT - drawing.stroke)


def circled_plus(drawing: Drawing) -> None:
    """Draw ⊕."""
    drawing.ring()
    reach, half = RADIUS - drawing.stroke, drawing.half
    drawing.bar(MIDDLE - reach, MIDDLE_HEIGHT - half, MIDDLE + reach, MIDDLE_HEIGHT + half)
    drawing.bar(MIDDLE - half, MIDDLE_HEIGHT - reach, MIDDLE + half, MIDDLE_HEIGHT + reach)


def circled_dot(drawing: Drawing) -> None:
    """Draw ⊙."""
    drawing.ring()
    drawing.disc(190)


ADDED = {0x22A4: (1251, top), 0x2295: (1434, circled_plus), 0x2299: (1434, circled_dot)}


def build(source: Path, face: str, target: Path) -> None:
    """Write one face."""
    font = TTFont(source, recalcTimestamp=False)
    options = Options(hinting=False, name_IDs=["*"], notdef_outline=True)
    options.drop_tables += UNDESIRED
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=[*LETTERS, *SIGNS])
    subsetter.subset(font)
    font.setGlyphOrder([*font.getGlyphOrder(), *(f"uni{code:04X}" for code in ADDED)])
    for code, (width, draw) in ADDED.items():
        drawing = Drawing(210 if "Bold" in face else 140)
        draw(drawing)
        font["glyf"][f"uni{code:04X}"] = drawing.pen.glyph(dropImpliedOnCurves=False)
        font["hmtx"][f"uni{code:04X}"] = (width, 0)
        for table in font["cmap"].tables:
            table.cmap[code] = f"uni{code:04X}"
    rename(font, face)
    font["maxp"].numGlyphs = len(font.getGlyphOrder())
    font.save(target)


def rename(font: TTFont, face: str) -> None:
    """Give the font a name of its own, as its licence asks of a modified version."""
    notice = font["name"].getDebugName(0)
    names = {
        0: notice,
        1: "XG Sans",
        2: face,
        3: f"XG Sans {face} 1.0",
        4: f"XG Sans {face}",
        5: "Version 1.0; a modified part of another font, see OFL.txt",
        6: f"XGSans-{face}",
        13: "SIL Open Font License 1.1",
        14: "https://openfontlicense.org",
    }
    font["name"].names = []
    for name_id, value in names.items():
        font["name"].setName(value, name_id, 3, 1, 0x409)


if __name__ == "__main__":
    folder, target_folder = map(Path, sys.argv[1:])
    for name in FACES:
        build(folder / f"LiberationSans-{name}.ttf", name, target_folder / f"XGSans-{name}.ttf")
