"""Read the bundled font's three faces, and set rich text on a baseline with them.

Text is measured with these faces and nothing else, so a figure's layout depends on no installed
font. XG Sans has the widths of Helvetica and Arial, so the same numbers hold where a viewer
substitutes one of those.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from struct import unpack_from
from typing import Final
from unicodedata import category, east_asian_width

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.figures.model import figure as style
from xg.figures.model.figure import Box
from xg.figures.model.richtext import RichText, StyledRun, Tag, scripts

FOLDER: Final = Path(__file__).parent / "fonts"
FAMILY: Final = "XG Sans"
FILES: Final = {style: FOLDER / f"XGSans-{style}.ttf" for style in ("Regular", "Italic", "Bold")}
ASCENT: Final = 0.905
DESCENT: Final = 0.212
CAP_HEIGHT: Final = 0.688
# The estimated width, in em, of a character that the font lacks: another font draws it.
_WIDE: Final = 1.0  # Chinese, Japanese, Korean, emoji
_USUAL: Final = 0.65


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
        """Return the width of `text` in em, estimated for characters that the font lacks."""
        return sum(
            self.advances[self.glyphs[ord(character)]]
            if ord(character) in self.glyphs
            else _width_elsewhere(character)
            for character in text
        )


def _width_elsewhere(character: str) -> float:
    if category(character) in ("Mn", "Me", "Cf"):  # a mark on the letter before it
        return 0.0
    return _WIDE if east_asian_width(character) in "WF" else _USUAL


@cache
def face(*, bold: bool = False, italic: bool = False) -> Face:
    """Return one of the three faces, read from the package's data once; bold letters stand up."""
    style = "Bold" if bold else "Italic" if italic else "Regular"
    path = FILES[style]
    data = path.read_bytes()
    tables = table_places(data)
    return Face(
        path.stem, path, data, tables, characters(data, tables), advance_widths(data, tables)
    )


def table_places(data: bytes, start: int = 0) -> dict[str, tuple[int, int]]:
    """Return the offset and length of each table, by tag, of the font that begins at `start`."""
    (count,) = unpack_from(">H", data, start + 4)
    entries = (unpack_from(">4sLLL", data, start + 12 + 16 * index) for index in range(count))
    return {tag.decode("latin-1"): (offset, length) for tag, _, offset, length in entries}


def advance_widths(data: bytes, tables: dict[str, tuple[int, int]]) -> tuple[float, ...]:
    """Return the width of each glyph in em."""
    (units,) = unpack_from(">H", data, tables["head"][0] + 18)
    (glyph_count,) = unpack_from(">H", data, tables["maxp"][0] + 4)
    (metric_count,) = unpack_from(">H", data, tables["hhea"][0] + 34)
    start = tables["hmtx"][0]
    widths = [unpack_from(">H", data, start + 4 * i)[0] / units for i in range(metric_count)]
    # The table ends early where all further glyphs share the last width.
    return tuple(widths + widths[-1:] * (glyph_count - metric_count))


# A font's maps from characters to glyphs, by platform and encoding, the best ones first: those of
# all of Unicode, in format 12, then those of its first 65,536 characters, in format 4.
_MAPS: Final = ((3, 10), (0, 4), (0, 6), (3, 1), (0, 3), (0, 2), (0, 1), (0, 0))


def characters(
    data: bytes, tables: dict[str, tuple[int, int]], wanted: Collection[int] | None = None
) -> dict[int, int]:
    """Return the glyph number of each character of a font, or only of those that are `wanted`."""
    glyphs: dict[int, int] = {}
    for first, last, delta, place in _segments(data, tables["cmap"][0]):
        codes = range(first, last + 1)
        for code in codes if wanted is None else (one for one in wanted if one in codes):
            glyph = code
            if place:
                (glyph,) = unpack_from(">H", data, place + 2 * (code - first))
            # In the lists of format 4, which has 16-bit numbers, 0 means no glyph.
            if glyph or not place:
                glyphs[code] = (glyph + delta) & 0xFFFF
    return glyphs


def _segments(data: bytes, start: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield each range of characters: first, last, what to add, and where its list is, or 0."""
    (count,) = unpack_from(">H", data, start + 2)
    records = (unpack_from(">HHL", data, start + 4 + 8 * place) for place in range(count))
    maps = {(platform, encoding): start + offset for platform, encoding, offset in records}
    start = next(maps[kind] for kind in _MAPS if kind in maps)
    (form,) = unpack_from(">H", data, start)
    if form == 12:
        (count,) = unpack_from(">L", data, start + 12)
        for place in range(start + 16, start + 16 + 12 * count, 12):
            first, last, glyph = unpack_from(">LLL", data, place)
            yield first, last, glyph - first, 0
    elif form == 4:
        count = unpack_from(">H", data, start + 6)[0] // 2
        ends, firsts, deltas, offsets = (
            unpack_from(f">{count}H", data, start + 14 + part)
            for part in (0, 2 * count + 2, 4 * count + 2, 6 * count + 2)
        )
        for segment, (first, last) in enumerate(zip(firsts, ends, strict=True)):
            place = start + 14 + 6 * count + 2 + 2 * segment + offsets[segment]
            yield first, min(last, 0xFFFE), deltas[segment], place if offsets[segment] else 0


# Rich text set on a baseline: every span with its place, size and face, in points.


_SCRIPT_SIZE: Final = 0.72  # of the base's size
_NESTED_SIZE: Final = 0.82  # of a script's size, of a script below it
_SUB_DROP: Final = 0.22  # of the base's size, below the baseline
_SUP_RISE: Final = 0.42
_WORD: Final = re.compile(r"\s*\S+\s*")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters of one face at `x`, `y` relative to the line's start; y grows downwards."""

    text: str
    x: float
    y: float
    size: float
    bold: bool
    italic: bool
    muted: bool
    tag: Tag = ""

    @property
    def width(self) -> float:
        """Return the advance width in points."""
        return face(bold=self.bold, italic=self.italic).width(self.text) * self.size


@dataclass(frozen=True, slots=True)
class TextLine:
    """A set line: its spans, its width, how far it reaches above and below the baseline."""

    spans: tuple[TextSpan, ...]
    width: float
    ascent: float
    descent: float

    @property
    def height(self) -> float:
        """Return the distance from the highest to the lowest point of the line."""
        return self.ascent + self.descent

    def tags(self) -> Iterator[tuple[Tag, float, float]]:
        """Yield the tags of the line: the pass of each, and where it starts and ends."""
        for is_tag, group in groupby(self.spans, lambda span: span.tag != ""):
            if is_tag:
                spans = list(group)
                yield spans[0].tag, spans[0].x, max(span.x + span.width for span in spans)


def line_bounds(line: TextLine, x: float, y: float) -> Box:
    """Return the box of a set line."""
    return Box(x, y - line.ascent, x + line.width, y + line.descent)


@lru_cache(maxsize=4096)  # a label is measured, placed, drawn: set several times
def typeset(text: RichText, size: float, muted_size: float | None = None) -> TextLine:
    """Set a label at `size`; muted runs, which are shapes, at `muted_size` if that is given."""
    spans: list[TextSpan] = []
    x = 0.0
    before: Tag = ""
    for run in text:
        base = muted_size if run.muted and muted_size is not None else size
        if run.tag != before:
            x += style.TAG_PADDING
        base, before = style.TAG_SIZE if run.tag else base, run.tag
        placed = _set_run(run, x, base)
        spans += placed
        x = max((span.x + span.width for span in placed), default=x)
    x += style.TAG_PADDING if before else 0.0
    return TextLine(tuple(spans), x, _ascent(spans, size), _descent(spans, size))


def _set_run(run: StyledRun, x: float, size: float) -> list[TextSpan]:
    base = TextSpan(run.text, x, 0.0, size, run.bold, run.italic, run.muted, run.tag)
    # A slanted letter leans over its subscript's corner less than over its superscript's.
    right = x + base.width
    script = size * _SCRIPT_SIZE
    spans = [base]
    if run.sub:
        spans += _set_below(run, right, size)
    if run.sup:
        lean = 0.06 * size if run.italic else 0.0
        rise = -size * _SUP_RISE
        right += lean
        spans.append(TextSpan(run.sup, right, rise, script, False, False, run.muted, run.tag))
    return spans


def _set_below(run: StyledRun, x: float, size: float) -> Iterator[TextSpan]:
    """Set a subscript, and the subscripts of its letters lower and smaller."""
    for text, is_nested in scripts(run.sub):
        script, drop = size * _SCRIPT_SIZE, size * _SUB_DROP
        if is_nested:
            script, drop = script * _NESTED_SIZE, drop + script * _SUB_DROP
        span = TextSpan(text, x, drop, script, False, False, run.muted, run.tag)
        yield span
        x += span.width


def _ascent(spans: Sequence[TextSpan], size: float) -> float:
    return max((CAP_HEIGHT * span.size - span.y for span in spans), default=0.7 * size)


def _descent(spans: Sequence[TextSpan], size: float) -> float:
    return max((DESCENT * span.size + span.y for span in spans), default=0.2 * size)


def wrap_text(text: RichText, size: float, room: float) -> Iterator[RichText]:
    """Yield a text in lines no wider than a room, as far as its words allow."""
    if typeset(text, size).width <= room:
        yield text
        return
    words = [
        replace(run, text=word) for run in text for word in _WORD.findall(run.text) or [run.text]
    ]
    line: RichText = ()
    for word in words:
        longer = (*line, word)
        if line and typeset(longer, size).width > room:
            yield line
            longer = (replace(word, text=word.text.lstrip()),)
        line = longer
    yield line
