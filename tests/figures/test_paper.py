"""Long figures on sheets of paper: `--paper`."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from figures.flaws import Picture
from library import shipped
from tier import some

import xg
from xg.cli import main
from xg.figures import paint_figure, written
from xg.figures.draw.glyph import Display
from xg.figures.formats.pdf import Paper, sheets_of

BOX = re.compile(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]")


def _display(name: str, depth: int | None, paper: Paper) -> Display:
    figure = xg.compile(shipped(name)).figure("overview", depth=depth)
    return paint_figure(replace(figure, width=paper.room[0]))[0]


OPENED = [("gpt2", 3), ("bert", 3), ("transformer", 1)]
TRIED = some(OPENED, lambda each: each[1])


@pytest.mark.parametrize(("name", "depth"), TRIED)
def test_sheets_cut_lines_and_frames_alone(name: str, depth: int) -> None:
    display = _display(name, depth, Paper.a4)
    sheets = sheets_of(display, Paper.a4)
    assert [one.bottom for one in sheets[:-1]] == [one.top for one in sheets[1:]]
    assert (sheets[0].top, sheets[-1].bottom) == (0.0, display.height)
    assert all(0 < one.bottom - one.top <= Paper.a4.room[1] for one in sheets)
    cuts = [one.bottom for one in sheets[:-1]]
    picture = Picture(display)
    boxes = [glyph.box for glyph in picture.glyphs.values()]
    boxes += [box for arrow in picture.arrows for box in arrow.texts]
    assert not [box for box in boxes for cut in cuts if box.top < cut < box.bottom]


def test_each_sheet_has_the_size_of_the_paper_and_a_part_of_the_figure() -> None:
    display = _display("gpt2", 3, Paper.letter)
    sheets = sheets_of(display, Paper.letter)
    assert len(sheets) > 1
    data = written(display, "pdf", "print", Paper.letter)
    assert BOX.findall(data) == [(b"612", b"792")] * len(sheets)
    assert b"/Count %d " % len(sheets) in data
    tops = [float(top) for top in re.findall(rb"([-\d.]+) cm /Figure Do", data)]
    for (one, other), (a, b) in zip(pairwise(sheets), pairwise(tops), strict=True):
        assert b - a == pytest.approx(other.top - one.top, abs=0.05)


def test_a_figure_that_fits_is_on_one_sheet() -> None:
    display = paint_figure(xg.compile(shipped("mlp")).figure("forward"))[0]
    assert len(sheets_of(display, Paper.a4)) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["../wide.xg", "-o", "fig.pdf"], "smaller than 6 points: leave --paper out"),
        (["mlp", "-o", "fig.svg"], "--paper fits a PDF to the paper"),
        (["mlp", "-o", "fig.pdf", "--width", "4in"], "--paper fits a PDF to the paper"),
    ],
)
def test_what_paper_cannot_do_is_refused(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    edges = [f"an_edge_with_a_long_name_{number}" for number in range(40)]
    ways = "\n".join(f"    x -> tanh : {name}" for name in edges)
    text = f"{ways}\n    {', '.join(edges)} -> C : z [B, 40*D]\n    z -> slice[-1](0, D) : y\n"
    text = f"dim B, D\nblock Wide(x [B, D]) -> y [B, D] {{\n{text}}}\n"
    (tmp_path / "wide.xg").write_text(text, encoding="utf-8")
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["build", *words, "--pass", "backward", "--paper", "a4"]) != 0
    assert message in capsys.readouterr().err
    assert not list(folder.iterdir())
