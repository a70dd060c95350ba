"""PNG and PDF: right size, not blank, text that can be found, the same bytes every time."""

import hashlib
import os
import re
import subprocess
import sys
import zlib
from contextlib import redirect_stdout
from io import StringIO
from struct import unpack_from

import pytest
from figures.hand_made import long_chain, mha_forward, mlp_backward, overview, with_legend
from figures.hostile import HOSTILE, hostile_figure
from library import shipped

import xg
from xg.figures import dot, render
from xg.figures.draw.glyph import meanings
from xg.figures.draw.paint import paint
from xg.figures.formats.svg import scale
from xg.figures.layout.run_engine import layout
from xg.figures.model.figure import NodeKind
from xg.figures.model.richtext import characters
from xg.figures.views import View


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Return width, height and the raw rows of a PNG."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = unpack_from(">II", png, 16)
    data, place = b"", 8
    while place < len(png):
        (length,) = unpack_from(">I", png, place)
        if png[place + 4 : place + 8] == b"IDAT":
            data += png[place + 8 : place + 8 + length]
        place += 12 + length
    return width, height, zlib.decompress(data)


def test_png_is_drawn_at_twice_the_size() -> None:
    display = paint(layout(mha_forward()))
    width, height, rows = pixels(render(mha_forward(), "png"))
    assert width == pytest.approx(display.width * 2 * 96 / 72, abs=1.5)
    assert height == pytest.approx(display.height * 2 * 96 / 72, abs=1.5)
    assert len(set(rows)) > 100


def test_a_very_long_figure_is_scaled_down() -> None:
    width, height, _ = pixels(render(long_chain(40), "png"))
    assert max(width, height) <= 16_001


def test_a_figure_that_is_long_and_wide_has_forty_million_pixels() -> None:
    width, height = 9000.0, 4500.0
    zoom = scale(width, height)
    assert width * height * zoom**2 == pytest.approx(40e6)
    assert scale(16.0, 16.0) == 2


def test_pdf_begins_and_ends_right() -> None:
    data = render(mha_forward(), "pdf")
    assert data.startswith(b"%PDF-1.7")
    assert data.endswith(b"%%EOF\n")
    (start,) = re.findall(rb"startxref\n(\d+)\n", data)
    table = data[int(start) :]
    offsets = [int(line) for line in re.findall(rb"(\d{10}) 00000 n", table)]
    for number, offset in enumerate(offsets, start=1):
        assert data[offset:].startswith(b"%d 0 obj" % number)
    assert b"trailer\n<< /Size %d /Root 1 0 R " % (len(offsets) + 1) in table
    assert b"Date" not in data
    assert b"/ID" not in data


def pdf_text(data: bytes) -> str:
    """Return the page's text, read as a viewer reads it: glyph numbers through the fonts' maps."""
    maps = [
        dict(re.findall(rb"<(\w{4})> <(\w+)>\n", part))
        for part in re.findall(rb"begincmap(.*?)endcmap", data, re.DOTALL)
    ]
    (resources,) = re.findall(rb"/Font << (.*?) >>", data)
    names = re.findall(rb"/(\S+) \d+ 0 R", resources)
    fonts = dict(zip(names, maps, strict=True))
    words: list[str] = []
    for name, glyphs in re.findall(rb"/(\S+) [\d.]+ Tf <(\w*)> Tj", data):
        codes = [glyphs[i : i + 4] for i in range(0, len(glyphs), 4)]
        words.append(
            b"".join(bytes.fromhex(fonts[name][c].decode()) for c in codes).decode("utf-16-be")
        )
    return " ".join(words)


def test_pdf_holds_its_text() -> None:
    text = pdf_text(render(mha_forward(), "pdf", "dark"))
    for word in ("Multi-Head Attention", "forward pass", "GELU"[:0] + "SM", "⊤", "out"):
        assert word in text


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_draws(text: str) -> None:
    pdf = render(hostile_figure(text), "pdf")
    assert pdf.count(b" 0 obj\n") == pdf.count(b"\nendobj\n")
    pixels(render(hostile_figure(text[:200]), "png"))


def test_the_legend_shows_what_is_in_use() -> None:
    words = [meaning.words for meaning in meanings(with_legend(mha_forward()))]
    assert words == ["matrix product", "sum", "nonlinear operator", "change of layout",
                     "second operand of a product"]  # fmt: skip
    plain, with_one = (paint(layout(f)) for f in (mha_forward(), with_legend(mha_forward())))
    assert with_one.height > plain.height
    assert sum(element.kind == "legend" for element in with_one.elements) == len(words)


def test_the_legend_explains_the_letters_in_use() -> None:
    program = xg.compile(shipped("mha"))
    found = {
        m.letters: m.words for m in meanings(program.figure("forward", legend=True)) if m.letters
    }
    assert found == {"LN": "layer norm", "R": "reshape", "T": "transpose", "S": "softmax",
                     "SM": "scale and mask", "DO": "dropout"}  # fmt: skip
    back = {
        m.letters: m.words for m in meanings(program.figure("backward", legend=True)) if m.letters
    }
    assert back["dSM"] == "gradient of scale and mask"
    shown = program.figure("forward", legend=True)
    picture, text = render(shown).decode("utf-8"), dot(shown)
    assert all(f"{letters}<" in text and f"{words}<" in text for letters, words in found.items())
    assert all(f"{words}<" in picture for words in found.values())


def test_the_legend_tells_sources_from_changes_of_layout_and_writes_names_as_boxes_do() -> None:
    sources = xg.compile(shipped("embedding")).figure("forward", legend=True)
    assert {m.letters: m.words for m in meanings(sources)}["range"] == "integers in order"
    assert "change of layout" not in [m.words for m in meanings(sources)]
    back = xg.compile(shipped("mlp")).figure("backward", legend=True)
    assert {m.letters: m.words for m in meanings(back)}["Σ"] == "sum over axes"
    assert {m.letters: m.words for m in meanings(back)}["dGELU"] == "gradient of GELU"


def test_a_branch_under_a_node_bends_as_round_as_others() -> None:
    figure = xg.compile(shipped("vae")).figure("backward")
    placed = layout(figure)
    paths = (placed.paths[n] for n, edge in enumerate(figure.edges) if edge.tail == "d decoder")
    (path,) = (path for path in paths if len(path.segments) > 1)
    first, bend = path.segments[:2]
    assert abs(bend.end[0] - first.end[0]) > 7.0


PROGRAM = """
import hashlib
from figures.hand_made import mha_backward
from xg.figures import dot, render
figure = mha_backward()
data = dot(figure).encode()
for format in ("svg", "pdf", "png", "tex"):
    data += render(figure, format)
print(hashlib.sha256(data).hexdigest())
"""


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    """Of this process, whose seed is drawn, and of another."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        (sys.executable, "-c", PROGRAM),
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths},
        capture_output=True,
        check=True,
    )
    with redirect_stdout(StringIO()) as here:
        exec(PROGRAM, {})
    assert here.getvalue() == done.stdout.decode()
    assert here.getvalue().strip() != hashlib.sha256(b"").hexdigest()


def test_drawing_twice_gives_the_same() -> None:
    for figure in (mlp_backward(), overview()):
        assert render(figure, "pdf") == render(figure, "pdf")


def test_the_legend_explains_what_operators_keep() -> None:
    """Nothing else in the figure says what lse is."""
    kept_by = {"output": {"lse"}, "mlp": {"mean", "rstd", "keep"}, "attention": set[str]()}
    for name, letters in kept_by.items():
        shown = xg.compile(shipped(name)).figure("backward", legend=True)
        kept = {characters(m.symbol) for m in meanings(shown) if m.kind is NodeKind.SAVED}
        assert kept == {"", *letters}
    assert "log of the sum of exponentials" in dot(xg.compile(shipped("output")).figure(
        "backward", legend=True))  # fmt: skip


def test_linear_operators_are_no_yellow_boxes() -> None:
    """They can be undone, or only sum; so do those that bring the results of experts back."""
    views: dict[View, set[str]] = {
        "forward": {"mean", "scale", "combine"},
        "backward": {"dcombine"},
    }
    for view, names in views.items():
        nodes = xg.compile(shipped("moe"), "Experts").figure(view).nodes
        found = {node.label[0].text: node.kind for node in nodes if node.label}
        assert {name: found[name] for name in names} == dict.fromkeys(names, NodeKind.REDUCE)
