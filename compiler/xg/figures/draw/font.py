"""The bundled font's three faces: character widths in thousandths of an em, glyph numbers, bytes.

Text is measured with these faces and nothing else, so a figure's layout depends on no installed
font. XG Sans has the widths of Helvetica and Arial, so the same numbers hold where a viewer
substitutes one of those.
"""

from functools import cache
from pathlib import Path
from struct import unpack_from
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass

FOLDER: Final = Path(__file__).parent / "fonts"
FAMILY: Final = "XG Sans"
FILES: Final = {style: FOLDER / f"XGSans-{style}.ttf" for style in ("Regular", "Italic", "Bold")}
ASCENT: Final = 0.905
DESCENT: Final = 0.212
CAP_HEIGHT: Final = 0.688
_MISSING_WIDTH: Final = 1.0  # a character the font lacks is drawn by a viewer's own, often wide


@dataclass(frozen=True, slots=True)
class Face:
    """One face of the font: its file, its TrueType tables, its characters."""

    name: str
    path: Path
    data: bytes
    tables: dict[str, tuple[int, int]]  # tag -> (offset, length)
    glyphs: dict[int, int]  # character -> glyph number
    advances: tuple[float, ...]  # glyph number -> width in em

    def width(self, text: str) -> float:
        """Return the width of `text` in em; a character that the font lacks counts one em."""
        return sum(
            self.advances[self.glyphs[ord(character)]]
            if ord(character) in self.glyphs
            else _MISSING_WIDTH
            for character in text
        )


@cache
def face(*, bold: bool = False, italic: bool = False) -> Face:
    """Return one of the three faces, read from the package's data once; bold letters stand up."""
    style = "Bold" if bold else "Italic" if italic else "Regular"
    path = FILES[style]
    data = path.read_bytes()
    tables = _tables(data)
    return Face(path.stem, path, data, tables, _characters(data, tables), _advances(data, tables))


def _tables(data: bytes) -> dict[str, tuple[int, int]]:
    (count,) = unpack_from(">H", data, 4)
    entries = (unpack_from(">4sLLL", data, 12 + 16 * index) for index in range(count))
    return {tag.decode("ascii"): (offset, length) for tag, _, offset, length in entries}


def _advances(data: bytes, tables: dict[str, tuple[int, int]]) -> tuple[float, ...]:
    (units,) = unpack_from(">H", data, tables["head"][0] + 18)
    (glyph_count,) = unpack_from(">H", data, tables["maxp"][0] + 4)
    (metric_count,) = unpack_from(">H", data, tables["hhea"][0] + 34)
    start = tables["hmtx"][0]
    widths = [unpack_from(">H", data, start + 4 * i)[0] / units for i in range(metric_count)]
    # The table ends early where all further glyphs share the last width.
    return tuple(widths + widths[-1:] * (glyph_count - metric_count))


def _characters(data: bytes, tables: dict[str, tuple[int, int]]) -> dict[int, int]:
    """Read the character map: the one subtable of format 4 (segments of the Unicode BMP)."""
    start = tables["cmap"][0]
    start += unpack_from(">L", data, start + 8)[0]
    count = unpack_from(">H", data, start + 6)[0] // 2
    ends, firsts, deltas, offsets = (
        unpack_from(f">{count}H", data, start + 14 + part)
        for part in (0, 2 * count + 2, 4 * count + 2, 6 * count + 2)
    )
    glyphs: dict[int, int] = {}
    for segment in range(count):
        for code in range(firsts[segment], min(ends[segment], 0xFFFE) + 1):
            glyph = code
            if offsets[segment]:
                place = start + 14 + 6 * count + 2 + 2 * segment + offsets[segment]
                (glyph,) = unpack_from(">H", data, place + 2 * (code - firsts[segment]))
            glyphs[code] = (glyph + deltas[segment]) & 0xFFFF
    return glyphs
