"""Characters that the bundled font lacks: drawn in a font of the machine, or named in a warning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from struct import pack

import pytest
import typst
from figures.test_picture import pdf_text
from PIL import Image

import xg
from xg.figures import Format, pictures, render
from xg.figures.draw import font, glyph
from xg.figures.model.figure import Figure, FigureNode, NodeKind
from xg.figures.model.richtext import plain

LETTERS = {"日": "A", "𝓛": "E", "Ж": "B"}  # drawn as these of the bundled font
NAMES = ("XG Sans".encode("utf-16-be"), "YG Sans".encode("utf-16-be"))
EMBEDDING = 8  # where the table OS/2 says what may be done with the font


def font_file(letters: Mapping[str, str], *, is_restricted: bool = False) -> bytes:
    """A TrueType font with the outlines of the bundled one for other characters."""
    face = font.face()
    tables = {tag: face.data[at : at + size] for tag, (at, size) in face.tables.items()}
    rows = sorted((ord(one), face.glyphs[ord(other)]) for one, other in letters.items())
    groups = b"".join(pack(">LLL", code, code, glyph) for code, glyph in rows)
    form = pack(">HHLLL", 12, 0, 16 + len(groups), 0, len(rows)) + groups
    tables["cmap"] = pack(">HHHHL", 0, 1, 3, 10, 12) + form
    tables["name"] = tables["name"].replace(*NAMES)
    rights = pack(">H", 2 if is_restricted else 0)
    tables["OS/2"] = tables["OS/2"][:EMBEDDING] + rights + tables["OS/2"][EMBEDDING + 2 :]
    directory, body = pack(">LHHHH", 0x10000, len(tables), 0, 0, 0), b""
    start = 12 + 16 * len(tables)
    for tag, data in sorted(tables.items()):
        directory += pack(">4sLLL", tag.encode(), 0, start + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    return directory + body


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder with fonts of this machine, which has no fontconfig."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(glyph, "_FOLDERS", dict[str, tuple[str, ...]]())
    monkeypatch.setattr(glyph, "_USUAL_FOLDERS", (str(tmp_path),))
    caches = (glyph.find_faces, glyph.font_files)
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()


def drawing(text: str) -> Figure:
    node = FigureNode("a", NodeKind.TENSOR, plain(text))
    return Figure("", "", "", (node,), (), has_heading=False)


def ink(picture: bytes) -> int:
    image = Image.open(BytesIO(picture)).convert("L")
    return sum((255 - shade) * count for shade, count in enumerate(image.histogram()))


def pdf_ink(pdf: bytes, folder: Path) -> int:
    (folder / "figure.pdf").write_bytes(pdf)
    page = folder / "page.typ"
    page.write_text('#set page(width: auto, height: auto, margin: 0pt)\n#image("figure.pdf")')
    return ink(typst.compile(page, root=folder, format="png", ppi=192))


@pytest.mark.parametrize("one", LETTERS)
def test_a_letter_is_drawn_in_a_font_that_has_it(one: str, folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "YGSans.ttf").write_bytes(font_file(LETTERS))
    wanted, other = (drawing(text) for text in (LETTERS[one], "?"))
    found = ink(render(drawing(one), "png"))
    assert found == pytest.approx(ink(render(wanted, "png")), rel=0.06)
    assert found > 1.3 * ink(render(other, "png"))
    found = pdf_ink(render(drawing(one), "pdf"), folder)
    assert found == pytest.approx(pdf_ink(render(wanted, "pdf"), folder), rel=0.06)
    assert pictures(drawing(one), ("png", "pdf")).warning == ""


def test_a_letter_that_no_font_has_is_missed_by_name(folder: Path) -> None:
    (folder / "YGSans.ttf").write_bytes(font_file({"Ж": "B"}))
    figure = drawing("日Ж𝓛")
    wanted = (
        "the PNG shows ? for 日 (U+65E5), 𝓛 (U+1D4DB), because no font on this machine has them:"
        " install one that does, or write SVG"
    )
    assert pictures(figure, ("png",)).warning == wanted
    both = wanted.replace("PNG", "PDF").replace("no font", "no TrueType font")
    assert pictures(figure, ("pdf", "png")).warning == f"{both}; {wanted}"
    formats: tuple[Format, ...] = ("svg", "tex")
    assert pictures(figure, formats).warning == ""
    known = ink(render(drawing("?B?"), "png"))
    assert ink(render(figure, "png")) == pytest.approx(known, rel=0.06)


@pytest.mark.parametrize("has_font", [True, False])
def test_the_text_of_a_pdf_is_what_the_file_says(folder: Path, has_font: bool) -> None:
    if has_font:
        (folder / "YGSans.ttf").write_bytes(font_file({"Ж": "B", "日": "A"}))
    text = "Größe ЖЖ 日本語 ∇ 𝓛"
    assert "".join(pdf_text(render(drawing(text), "pdf")).split()) == "".join(text.split())


def test_a_font_whose_maker_forbids_it_is_in_no_pdf(folder: Path) -> None:
    (folder / "YGSans.ttf").write_bytes(font_file(LETTERS, is_restricted=True))
    assert pictures(drawing("日"), ("png",)).warning == ""
    found = pictures(drawing("日"), ("pdf",))
    assert "日 (U+65E5), because no TrueType font on this machine has it" in found.warning
    assert b"YGSans" not in found.files["pdf"]


def test_a_broken_font_is_passed_over(folder: Path) -> None:
    whole = font_file(LETTERS)
    (folder / "A.ttf").write_bytes(b"no font")
    (folder / "B.ttf").write_bytes(whole[:400])
    (folder / "C.otf").mkdir()
    (folder / "D.ttf").write_bytes(b"")
    assert pictures(drawing("日"), ("png", "pdf")).warning
    glyph.font_files.cache_clear()
    glyph.find_faces.cache_clear()
    (folder / "YGSans.ttf").write_bytes(whole)
    assert pictures(drawing("日"), ("png", "pdf")).warning == ""


def test_the_first_font_of_a_collection_is_read(folder: Path) -> None:
    head = pack(">4sLLL", b"ttcf", 0x10000, 1, 16)
    face = font_file(LETTERS)
    count = int.from_bytes(face[4:6], "big")
    rows = [bytearray(face[12 + 16 * n : 28 + 16 * n]) for n in range(count)]
    for row in rows:  # places are those in the file
        row[8:12] = pack(">L", int.from_bytes(row[8:12], "big") + len(head))
    data = head + face[:12] + b"".join(rows) + face[12 + 16 * count :]
    (folder / "YGSans.ttc").write_bytes(data)
    assert pictures(drawing("日"), ("png", "pdf")).warning == ""
    found = ink(render(drawing("日"), "png"))
    assert found == pytest.approx(ink(render(drawing("A"), "png")), rel=0.06)


def test_python_warns_of_a_letter_that_no_font_has() -> None:
    source = """
    dim B
    block F(X [B]) -> Y [B] {
        X -> tanh : Y
        note Y "日"
    }
    """
    program = xg.compile(source=source)
    assert program.render("forward", "svg")
    for format in ("png", "pdf"):
        with pytest.warns(UserWarning, match=f"the {format.upper()} shows \\? for 日") as caught:
            program.render("forward", format)
        assert [one.filename for one in caught] == [__file__]
