"""Figures for a page of a given width: `--width`."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from figures.flaws import flaws
from library import shipped

import xg
from xg.figures import dot, paint_figure, render
from xg.figures.draw.font import TextSpan
from xg.figures.draw.glyph import DrawnText
from xg.figures.model.figure import LEAST_SIZE, Figure, TooNarrow


@cache
def _figure(name: str) -> Figure:
    return replace(xg.compile(shipped(name)).figure("forward"), legend=True)


def _spans(figure: Figure) -> list[TextSpan]:
    parts = [part for element in paint_figure(figure)[0].elements for part in element.parts]
    return [span for part in parts if isinstance(part, DrawnText) for span in part.line.spans]


@pytest.mark.parametrize(("name", "width"), [("mlp", 150.0), ("mlp", 240.0), ("mha", 340.0)])
def test_a_page_has_its_width_and_text_that_is_read(name: str, width: float) -> None:
    figure = replace(_figure(name), width=width)
    display = paint_figure(figure)[0]
    assert display.width == width
    assert f'width="{width:g}pt"' in render(figure).decode()
    assert f"[0 0 {width:g} " in render(figure, "pdf").decode("latin-1")
    assert f'size="{width / 72:.3f},200"' in dot(figure)
    assert min(span.size for span in _spans(figure) if span.y == 0) >= LEAST_SIZE
    assert {flaw.kind for flaw in flaws(display)} <= {"broken pixel"}  # the width is as asked for


def test_a_title_takes_several_lines_and_none_of_its_words_is_lost() -> None:
    wide, narrow = _figure("mlp"), replace(_figure("mlp"), width=170.0, title="a b c " * 12)
    assert len({span.y for span in _spans(wide)}) > 1
    (heading,) = (one for one in paint_figure(narrow)[0].elements if one.kind == "title")
    lines = [part.line for part in heading.parts if isinstance(part, DrawnText)]
    assert len(lines) > 3
    assert all(line.width <= 170.0 for line in lines)
    words = "".join(span.text for line in lines for span in line.spans)
    assert words.split() == f"{narrow.title} — {narrow.subtitle}".split()


def _lines(figure: Figure) -> list[str]:
    (heading,) = (one for one in paint_figure(figure)[0].elements if one.kind == "title")
    lines = [part.line for part in heading.parts if isinstance(part, DrawnText)]
    return ["".join(span.text for span in line.spans).rstrip() for line in lines]


def test_a_subtitle_is_not_broken_where_it_fits_in_a_line() -> None:
    narrow = replace(_figure("mlp"), width=240.0)
    assert _lines(narrow) == ["Multi-Layer Perceptron —", "forward pass"]
    assert len(_lines(replace(narrow, title="Two Layers"))) == 1
    long = replace(narrow, title="A perceptron with two layers and")
    assert _lines(long)[1].endswith("— forward pass")  # one of its own would be a line more


def test_a_page_that_is_too_narrow_is_refused_with_a_width_that_fits() -> None:
    with pytest.raises(TooNarrow, match="smaller than 6 points") as refused:
        paint_figure(replace(_figure("mha"), width=200.0))
    needed = refused.value.inches * 72
    assert paint_figure(replace(_figure("mha"), width=needed))[0].width == needed
    with pytest.raises(TooNarrow):
        paint_figure(replace(_figure("mha"), width=needed - 8))


STEPPED = """\
dim D = 2, C = 3, E = 2*D

op Mix(x [.., k]; c = 0.7) = x + min(sin(x), min[k](x - c)) + 0.3 * c

block Main(φ [D, C, E]) -> μ [D, C, 3*D] {
    param E_1 [D, E]

    φ -> @<=T(E_1) -> Mix -> C<-φ -> GLU<-(φ -> mean[E] -> BC[a, b -> a, b, c=3*D]) : μ
}
"""


def test_a_line_with_a_step_of_less_than_two_corners_gets_more_room() -> None:
    figure = replace(xg.compile(source=STEPPED).figure("backward"), width=360.0)
    assert {flaw.kind for flaw in flaws(paint_figure(figure)[0])} <= {
        "broken pixel",
        "line at corner",
    }
