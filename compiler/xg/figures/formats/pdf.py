"""Write a display list as PDF, on sheets of paper if asked, the same bytes every time.

It is one page of the figure's size, or pages of paper: one form, shown on each page in part.

Nothing is compressed, dated or numbered at random. Of each face only the outlines in use are
embedded. A character is numbered when it is first used, and has its own number even if no font
has an outline for it: what a reader copies is what the file says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import groupby, pairwise
from struct import pack, unpack_from
from typing import Final

from xg.diagnostics import escape
from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw import font
from xg.figures.draw.font import ASCENT, CAP_HEIGHT, DESCENT, Face, TextSpan, line_bounds
from xg.figures.draw.glyph import (
    REPLACEMENT,
    Display,
    DrawnShape,
    DrawnText,
    Element,
    find_faces,
    missing_characters,
)
from xg.figures.formats.svg import number
from xg.figures.model.figure import Box, Color, DrawnPath, Theme

# Sheets of paper that a long figure is printed on, cut where only lines are cut.


_MARGIN: Final = 36.0  # of a sheet, above and below, left and right
_ROOM: Final = 2.0  # between a cut and a text or a glyph


class Paper(Enum):
    """Sizes of paper, in points."""

    a4 = (595.28, 841.89)
    letter = (612.0, 792.0)

    @property
    def room(self) -> tuple[float, float]:
        """Return the width and the height inside the margins."""
        width, height = self.value
        return width - 2 * _MARGIN, height - 2 * _MARGIN


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page: its size, which part of a figure is on it, and where."""

    width: float
    height: float
    top: float
    bottom: float
    x: float = 0.0
    y: float = 0.0


def one_sheet(display: Display) -> list[Sheet]:
    """Return the page that has a figure's own size."""
    return [Sheet(display.width, display.height, 0.0, display.height)]


def sheets_of(display: Display, paper: Paper) -> list[Sheet]:
    """Return the pages of a figure, in its order, each as full as can be."""
    width, height = paper.value
    cuts = [0.0, *_cuts(display, paper.room[1]), display.height]
    x = (width - display.width) / 2
    return [Sheet(width, height, top, bottom, x, _MARGIN) for top, bottom in pairwise(cuts)]


def _cuts(display: Display, room: float) -> Iterator[float]:
    """Yield where pages end: as low as they can, where no text and no glyph is cut."""
    solid = [box for element in display.elements for box in _solid(element)]
    top = 0.0
    while display.height - top > room:
        cut = top + room
        across = [box for box in solid if box.top < cut < box.bottom]
        while across and min(box.top for box in across) > top:
            cut = min(box.top for box in across)
            across = [box for box in solid if box.top < cut < box.bottom]
        top = top + room if across else cut  # what is higher than a page is cut
        yield top


def _solid(element: Element) -> Iterator[Box]:
    """Yield the boxes of texts and glyphs, without lines and frames."""
    is_node = element.kind.startswith("node ") or element.kind == "legend"
    for part in element.parts:
        if isinstance(part, DrawnText):
            yield line_bounds(part.line, part.x, part.y).grown(_ROOM)
        elif is_node:
            yield part.path.bounds().grown(_ROOM)


# One face as PDF objects: only the glyphs in use, and what they spell.


_SYMBOLIC = 4  # a flag of the font's descriptor: glyphs are addressed by number
_TABLES = ("glyf", "head", "hhea", "hmtx", "loca", "maxp")
_PROGRAMS = ("cvt ", "fpgm", "prep")  # which fit outlines to pixels, if a font has them


_LARGEST_BLOCK = 100  # entries of one map


def stream(data: bytes, entries: str = "") -> bytes:
    """Return the body of a stream object."""
    head = f"<< /Length {len(data)} {entries}>>\nstream\n".encode("ascii")
    return head + data + b"\nendstream"


class PdfFont:
    """A face, and the characters that a document has written in it so far."""

    def __init__(self, face: Face) -> None:
        self.face = face
        self.used: dict[str, int] = {}  # characters and their numbers, from 1 on

    def encode(self, text: str) -> str:
        """Return text as numbers in hexadecimal."""
        numbers = [self.used.setdefault(one, len(self.used) + 1) for one in text]
        return "".join(f"{number:04X}" for number in numbers)

    def objects(self, first: int) -> list[bytes]:
        """Return the font's objects, numbered from `first`."""
        name = f"XGSUBS+{self.face.name}"  # six capitals mark a subset
        lost = self.face.glyphs.get(ord(REPLACEMENT), 0)
        glyphs = [self.face.glyphs.get(ord(character), lost) for character in self.used]
        data = _subset(self.face, set(glyphs))
        widths = " ".join(f"{1000 * self.face.width(character):.0f}" for character in self.used)
        return [
            f"<< /Type /Font /Subtype /Type0 /BaseFont /{name} /Encoding /Identity-H"
            f" /DescendantFonts [{first + 1} 0 R] /ToUnicode {first + 4} 0 R >>".encode(),
            f"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /{name} /CIDToGIDMap {first + 5} 0 R"
            " /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>"
            f" /FontDescriptor {first + 2} 0 R /W [1 [{widths}]] >>".encode(),
            f"<< /Type /FontDescriptor /FontName /{name} /Flags {_SYMBOLIC}"
            f" /FontBBox [-600 -350 2100 1100] /ItalicAngle {-12 if 'Italic' in name else 0}"
            f" /Ascent {1000 * ASCENT:.0f} /Descent {-1000 * DESCENT:.0f}"
            f" /CapHeight {1000 * CAP_HEIGHT:.0f} /StemV 80 /FontFile2 {first + 3} 0 R >>".encode(),
            stream(data, f"/Length1 {len(data)} "),
            _to_unicode(self.used),
            stream(pack(f">{len(glyphs) + 1}H", 0, *glyphs)),
        ]


def _subset(face: Face, keep: set[int]) -> bytes:
    """Return the TrueType file with all outlines but the kept ones empty."""
    tags = (*_TABLES, *(tag for tag in _PROGRAMS if tag in face.tables))
    tables = {tag: _table(face, tag) for tag in tags}
    long = unpack_from(">h", tables["head"], 50)[0] == 1
    entries = len(tables["loca"]) // (4 if long else 2)
    raw = unpack_from(f">{entries}{'L' if long else 'H'}", tables["loca"])
    places = raw if long else tuple(2 * place for place in raw)
    outlines, starts = bytearray(), [0]
    needed_glyphs = _with_parts(tables["glyf"], places, keep)
    for glyph in range(entries - 1):
        if glyph in needed_glyphs:
            outlines += tables["glyf"][places[glyph] : places[glyph + 1]]
            outlines += b"\0" * (-len(outlines) % 4)
        starts.append(len(outlines))
    tables["glyf"] = bytes(outlines)
    tables["loca"] = pack(f">{entries}L", *starts)
    tables["head"] = tables["head"][:50] + pack(">h", 1) + tables["head"][52:]
    return _font_file(tables)


def _with_parts(outlines: bytes, places: tuple[int, ...], keep: set[int]) -> set[int]:
    """Add the glyphs that composed ones (é) are made of, and the box for missing characters."""
    glyphs: set[int] = set()
    waiting = [0, *sorted(keep)]
    while waiting:
        glyph = waiting.pop()
        if glyph not in glyphs:
            glyphs.add(glyph)
            waiting += _parts(outlines[places[glyph] : places[glyph + 1]])
    return glyphs


def _parts(outline: bytes) -> list[int]:
    if not outline or unpack_from(">h", outline)[0] >= 0:
        return []
    parts: list[int] = []
    place, more = 10, True
    while more:
        flags, part = unpack_from(">HH", outline, place)
        parts.append(part)
        # Arguments are words or bytes; a scale follows as one, two or four numbers.
        place += 4 + (4 if flags & 0x1 else 2)
        place += 2 * (1 if flags & 0x8 else 2 if flags & 0x40 else 4 if flags & 0x80 else 0)
        more = bool(flags & 0x20)
    return parts


def _font_file(tables: dict[str, bytes]) -> bytes:
    directory, body = bytearray(), bytearray()
    start = 12 + 16 * len(tables)
    for tag, data in sorted(tables.items()):
        directory += pack(">4sLLL", tag.encode(), _checksum(data), start + len(body), len(data))
        body += data + b"\0" * (-len(data) % 4)
    power = len(tables).bit_length() - 1  # exponent of the largest power of two up to the count
    search = 16 << power
    head = pack(">LHHHH", 0x10000, len(tables), search, power, 16 * len(tables) - search)
    return head + bytes(directory) + bytes(body)


def _checksum(data: bytes) -> int:
    padded = data + b"\0" * (-len(data) % 4)
    return sum(unpack_from(f">{len(padded) // 4}L", padded)) & 0xFFFFFFFF


def _table(face: Face, tag: str) -> bytes:
    start, length = face.tables[tag]
    return face.data[start : start + length]


def _to_unicode(used: Mapping[str, int]) -> bytes:
    rows = [
        f"<{number:04X}> <{character.encode('utf-16-be').hex().upper()}>\n"
        for character, number in used.items()
    ]
    blocks = (rows[i : i + _LARGEST_BLOCK] for i in range(0, len(rows), _LARGEST_BLOCK))
    maps = "".join(f"{len(b)} beginbfchar\n{''.join(b)}endbfchar\n" for b in blocks)
    text = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n"
        "/CMapName /Adobe-Identity-UCS def /CMapType 2 def\n"
        "1 begincodespacerange <0000> <FFFF> endcodespacerange\n"
        f"{maps}endcmap CMapName currentdict /CMap defineresource pop end end"
    )
    return stream(text.encode("ascii"))


_HEADER: Final = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"  # four high bytes mark the file as binary
_CATALOG, _PAGES, _INFO, _FORM, _FIRST_FONT = range(1, 6)
_OBJECTS_PER_FONT: Final = 6
_SLACK: Final = 0.01  # points


def pdf(display: Display, theme: Theme, paper: Paper | None = None) -> bytes:
    """Write a display list as a PDF document: a page of the figure's size, or pages of paper."""
    fonts = _Fonts(find_faces(missing_characters(display), embeds=True))
    content = "\n".join(_content(display, theme, fonts)).encode("ascii")
    references = " ".join(
        f"/{name} {_FIRST_FONT + _OBJECTS_PER_FONT * index} 0 R"
        for index, name in enumerate(fonts.used)
    )
    faces = [
        one
        for index, face in enumerate(fonts.used.values())
        for one in face.objects(_FIRST_FONT + _OBJECTS_PER_FONT * index)
    ]
    sheets = one_sheet(display) if paper is None else sheets_of(display, paper)
    first = _FIRST_FONT + len(faces)  # a page and its content, for each sheet
    pages = " ".join(f"{first + 2 * number} 0 R" for number in range(len(sheets)))
    box = f"[0 0 {number(display.width)} {number(display.height)}]"
    objects = [
        f"<< /Type /Catalog /Pages {_PAGES} 0 R /Lang (en)"
        " /ViewerPreferences << /DisplayDocTitle true >> >>".encode(),
        f"<< /Type /Pages /Kids [{pages}] /Count {len(sheets)} >>".encode(),
        f"<< /Title {escape.pdf_text(display.title)}"
        f" /Subject {escape.pdf_text(display.description)} /Producer (xg) >>".encode(),
        stream(content, f"/Type /XObject /Subtype /Form /BBox {box}"
                        f" /Resources << /Font << {references} >> >>"),
        *faces,
    ]  # fmt: skip
    for place, sheet in enumerate(sheets):
        objects += _page(sheet, display.height, first + 2 * place + 1)
    return _file(objects)


def _page(sheet: Sheet, height: float, content: int) -> Iterator[bytes]:
    """Yield a page, and its content: the part of the figure that is on it."""
    yield (
        f"<< /Type /Page /Parent {_PAGES} 0 R"
        f" /MediaBox [0 0 {number(sheet.width)} {number(sheet.height)}] /Contents {content} 0 R"
        f" /Resources << /XObject << /Figure {_FORM} 0 R >> >> >>"
    ).encode()
    low = sheet.height - sheet.y - (sheet.bottom - sheet.top)
    yield stream(
        f"0 {number(low)} {number(sheet.width)} {number(sheet.bottom - sheet.top)} re W n"
        f" 1 0 0 1 {number(sheet.x)} {number(low - (height - sheet.bottom))} cm"
        " /Figure Do".encode()
    )


def _file(objects: list[bytes]) -> bytes:
    out = bytearray(_HEADER)
    offsets: list[int] = []
    for index, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % index + body + b"\nendobj\n"
    start = len(out)
    count = len(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % count
    for offset in offsets:
        out += b"%010d 00000 n \n" % offset
    out += b"trailer\n<< /Size %d /Root %d 0 R /Info %d 0 R >>\n" % (count, _CATALOG, _INFO)
    out += b"startxref\n%d\n%%%%EOF\n" % start
    return bytes(out)


def _content(display: Display, theme: Theme, fonts: _Fonts) -> Iterator[str]:
    height = display.height
    if theme.colors[Color.BACKGROUND] != "#FFFFFF":  # a white page is paper: leave it blank
        page = f"0 0 {number(display.width)} {number(height)} re f"
        yield f"{_rgb(theme.colors[Color.BACKGROUND])} rg {page}"
    for element in display.elements:
        for part in element.parts:
            if isinstance(part, DrawnText):
                yield from _text(part, theme, height, fonts)
            else:
                yield _shape(part, theme, height)


def _shape(shape: DrawnShape, theme: Theme, height: float) -> str:
    steps: list[str] = []
    if shape.fill is not None:
        steps.append(f"{_rgb(theme.colors[shape.fill])} rg")
    if shape.line is not None:
        dashes = " ".join(map(number, shape.dashes))
        steps.append(f"{_rgb(theme.colors[shape.line])} RG {number(shape.width)} w [{dashes}] 0 d")
    steps.append(_path(shape.path, height))
    operators = {(True, True): "B", (True, False): "f", (False, True): "S", (False, False): "n"}
    steps.append(operators[shape.fill is not None, shape.line is not None])
    return " ".join(steps)


def _path(path: DrawnPath, height: float) -> str:
    def point(x: float, y: float) -> str:
        return f"{number(x)} {number(height - y)}"

    steps = [f"{point(*path.start)} m"]
    for segment in path.segments:
        if segment.controls is None:
            steps.append(f"{point(*segment.end)} l")
        else:
            first, second = segment.controls
            steps.append(f"{point(*first)} {point(*second)} {point(*segment.end)} c")
    return " ".join(steps) + (" h" if path.closed else "")


class _Fonts:
    """The fonts of a document: faces of the bundled one, and others of this machine."""

    def __init__(self, others: Sequence[Face]) -> None:
        self.used: dict[str, PdfFont] = {}
        self._others = {code: face for face in reversed(others) for code in face.glyphs}

    def runs(self, span: TextSpan) -> Iterator[tuple[PdfFont, str]]:
        """Yield the parts of a span that have one face each."""
        own = font.face(bold=span.bold, italic=span.italic)

        def pick(character: str) -> Face:
            has_own = ord(character) in own.glyphs
            return own if has_own else self._others.get(ord(character), own)

        for face, run in groupby(escape.clean(span.text), pick):
            yield self.used.setdefault(face.name, PdfFont(face)), "".join(run)


def _text(text: DrawnText, theme: Theme, height: float, fonts: _Fonts) -> Iterator[str]:
    for span in text.line.spans:
        if span.text:
            color = _rgb(theme.colors[Color.MUTED if span.muted else text.color])
            x, y = number(text.x + span.x), number(height - text.y - span.y)
            runs = list(fonts.runs(span))
            letters = " ".join(
                f"/{one.face.name} {number(span.size)} Tf <{one.encode(run)}> Tj"
                for one, run in runs
            )
            # Letters of another font that need more room than was measured become narrower.
            width = sum(one.face.width(run) for one, run in runs) * span.size
            narrow = (
                f" {number(100 * span.width / width)} Tz" if width > span.width + _SLACK else ""
            )
            yield f"BT {color} rg {x} {y} Td{narrow} {letters}{' 100 Tz' if narrow else ''} ET"


def _rgb(color: str) -> str:
    return " ".join(f"{int(color[i : i + 2], 16) / 255:.3f}" for i in (1, 3, 5))
