"""PDF: a display list as vectors and selectable text, the same bytes every time.

It is one page of the figure's size, or pages of paper: one form, shown on each page in part.

Nothing is compressed, dated or numbered at random. Of each face only the outlines in use are
embedded, under the numbers they have in the font.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xg.diagnostics import escape
from xg.figures.draw import font
from xg.figures.draw.display import Display, DrawnShape, DrawnText
from xg.figures.formats.paper import Paper, Sheet, one_sheet, sheets_of
from xg.figures.formats.pdf_font import PdfFont, stream
from xg.figures.formats.svg import number
from xg.figures.model.geometry import DrawnPath
from xg.figures.model.style import Color, Theme

_HEADER: Final = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"  # four high bytes mark the file as binary
_CATALOG, _PAGES, _INFO, _FORM, _FIRST_FONT = range(1, 6)
_OBJECTS_PER_FONT: Final = 5


def pdf(display: Display, theme: Theme, paper: Paper | None = None) -> bytes:
    """Write a display list as a PDF document: a page of the figure's size, or pages of paper."""
    fonts: dict[str, PdfFont] = {}
    content = "\n".join(_content(display, theme, fonts)).encode("ascii")
    references = " ".join(
        f"/{name} {_FIRST_FONT + _OBJECTS_PER_FONT * index} 0 R" for index, name in enumerate(fonts)
    )
    faces = [
        one
        for index, face in enumerate(fonts.values())
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


def _content(display: Display, theme: Theme, fonts: dict[str, PdfFont]) -> Iterator[str]:
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


def _text(text: DrawnText, theme: Theme, height: float, fonts: dict[str, PdfFont]) -> Iterator[str]:
    for span in text.line.spans:
        if span.text:
            face = font.face(bold=span.bold, italic=span.italic)
            used = fonts.setdefault(face.name, PdfFont(face))
            color = _rgb(theme.colors[Color.MUTED if span.muted else text.color])
            x, y = number(text.x + span.x), number(height - text.y - span.y)
            glyphs = used.encode(escape.clean(span.text))
            yield f"BT {color} rg /{face.name} {number(span.size)} Tf {x} {y} Td <{glyphs}> Tj ET"


def _rgb(color: str) -> str:
    return " ".join(f"{int(color[i : i + 2], 16) / 255:.3f}" for i in (1, 3, 5))
