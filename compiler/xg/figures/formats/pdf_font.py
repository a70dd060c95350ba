"""One face of the bundled font as PDF objects: only the glyphs in use, and what they spell."""

from __future__ import annotations

from struct import pack, unpack_from

from xg.figures.draw.font import ASCENT, CAP_HEIGHT, DESCENT, Face

_SYMBOLIC = 4  # a flag of the font's descriptor: glyphs are addressed by number
_TABLES = ("glyf", "head", "hhea", "hmtx", "loca", "maxp")


_LARGEST_BLOCK = 100  # entries of one map


def stream(data: bytes, entries: str = "") -> bytes:
    """Return the body of a stream object."""
    head = f"<< /Length {len(data)} {entries}>>\nstream\n".encode("ascii")
    return head + data + b"\nendstream"


class PdfFont:
    """A face, and the characters of it that a document has used so far."""

    def __init__(self, face: Face) -> None:
        self.face = face
        self.used: dict[int, str] = {}  # glyph number -> the character it shows

    def encode(self, text: str) -> str:
        """Return text as glyph numbers in hexadecimal; what the font lacks shows as a box."""
        numbers = [self.face.glyphs.get(ord(character), 0) for character in text]
        for glyph, character in zip(numbers, text, strict=True):
            self.used.setdefault(glyph, character)
        return "".join(f"{glyph:04X}" for glyph in numbers)

    def objects(self, first: int) -> list[bytes]:
        """Return the font's five objects, numbered from `first`."""
        name = f"XGSUBS+{self.face.name}"  # six capitals mark a subset
        data = _subset(self.face, set(self.used))
        return [
            f"<< /Type /Font /Subtype /Type0 /BaseFont /{name} /Encoding /Identity-H"
            f" /DescendantFonts [{first + 1} 0 R] /ToUnicode {first + 4} 0 R >>".encode(),
            f"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /{name} /CIDToGIDMap /Identity"
            " /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>"
            f" /FontDescriptor {first + 2} 0 R /W [{self._widths()}] >>".encode(),
            f"<< /Type /FontDescriptor /FontName /{name} /Flags {_SYMBOLIC}"
            f" /FontBBox [-600 -350 2100 1100] /ItalicAngle {-12 if 'Italic' in name else 0}"
            f" /Ascent {1000 * ASCENT:.0f} /Descent {-1000 * DESCENT:.0f}"
            f" /CapHeight {1000 * CAP_HEIGHT:.0f} /StemV 80 /FontFile2 {first + 3} 0 R >>".encode(),
            stream(data, f"/Length1 {len(data)} "),
            _to_unicode(self.used),
        ]

    def _widths(self) -> str:
        return " ".join(f"{g} [{1000 * self.face.advances[g]:.0f}]" for g in sorted(self.used))


def _subset(face: Face, keep: set[int]) -> bytes:
    """Return the TrueType file with all outlines but the kept ones empty."""
    tables = {tag: _table(face, tag) for tag in _TABLES}
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
    for tag, data in tables.items():
        directory += pack(">4sLLL", tag.encode(), _checksum(data), start + len(body), len(data))
        body += data + b"\0" * (-len(data) % 4)
    # Six tables: the search range is 4 entries, the largest power of two.
    return pack(">LHHHH", 0x10000, len(tables), 64, 2, 32) + bytes(directory) + bytes(body)


def _checksum(data: bytes) -> int:
    padded = data + b"\0" * (-len(data) % 4)
    return sum(unpack_from(f">{len(padded) // 4}L", padded)) & 0xFFFFFFFF


def _table(face: Face, tag: str) -> bytes:
    start, length = face.tables[tag]
    return face.data[start : start + length]


def _to_unicode(used: dict[int, str]) -> bytes:
    rows = [
        f"<{glyph:04X}> <{character.encode('utf-16-be').hex().upper()}>\n"
        for glyph, character in sorted(used.items())
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
