"""Figures as parts of a page: a closed set of elements, shared shapes, the same lines."""

import re
import xml.etree.ElementTree as ET

import pytest
from figures.hand_made import mha_forward, mlp_backward, overview
from figures.hostile import HOSTILE, hostile_figure

from xg.figures import parts, render
from xg.figures.formats.svg import sheet
from xg.figures.model.figure import LIGHT, Figure

SVG = "{http://www.w3.org/2000/svg}"
ATTRIBUTES = {
    "svg": {"class", "role", "viewBox", "width", "height", "aria-label"},
    "desc": set[str](),
    "defs": set[str](),
    "g": {"class", "data-op"},
    "path": {"class", "stroke-width", "stroke-dasharray", "d"},
    "text": {"id", "class", "x", "y", "font-size"},
    "tspan": {"class", "x", "y", "font-size"},
    "use": {"href", "x", "y"},
}
FIGURES = (mha_forward(), mlp_backward(), overview())
figures = pytest.mark.parametrize("figure", FIGURES)


def unknown(markup: str) -> list[str]:
    """The elements and attributes of a part that no part may hold."""
    found: list[str] = []
    for element in ET.fromstring(markup).iter():
        known = ATTRIBUTES.get(element.tag)
        found += [element.tag] if known is None else [a for a in element.attrib if a not in known]
    return found


@figures
def test_elements_and_attributes_are_known(figure: Figure) -> None:
    drawn = parts([figure])
    assert [unknown(markup) for markup in (*drawn.markup, drawn.shared, drawn.more)] == [[], [], []]


def test_an_unknown_element_is_found() -> None:
    assert unknown('<svg onload="x"><script/></svg>') == ["onload", "script"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_stays_text(text: str) -> None:
    drawn = parts([hostile_figure(text)])
    for markup in (*drawn.markup, drawn.shared, drawn.more):
        assert unknown(markup) == []


@figures
def test_shapes_are_shared_and_all_there(figure: Figure) -> None:
    drawn = parts([figure, figure])
    assert drawn.markup[0] == drawn.markup[1]
    defined = re.findall(r'<text id="([^"]*)"', drawn.shared + drawn.more)
    used = re.findall(r'<use href="#([^"]*)"', drawn.markup[0])
    assert set(used) == set(defined)
    assert len(set(defined)) == len(defined) < len(used)


def test_what_only_later_figures_use_is_apart() -> None:
    first, second = FIGURES[:2]
    drawn = parts([first, second])
    for markup, element in zip(drawn.markup, (drawn.shared, drawn.more), strict=True):
        defined = set(re.findall(r'<text id="([^"]*)"', element))
        used = set(re.findall(r'<use href="#([^"]*)"', markup))
        assert defined <= used
        assert defined
    alone = parts([first])
    assert (alone.shared, alone.markup[0]) == (drawn.shared, drawn.markup[0])
    assert "<text" not in alone.more


@figures
def test_every_line_is_where_the_document_has_it(figure: Figure) -> None:
    """Relative steps in tenths do not add up to an error."""
    document = ET.fromstring(render(figure))
    _, *paths = document.iter(f"{SVG}path")  # the first one is the paper
    wanted = [absolute(path.attrib["d"]) for path in paths]
    part = ET.fromstring(parts([figure]).markup[0])
    found = [relative(path.attrib["d"]) for path in part.iter("path")]
    for here, there in zip(found, wanted, strict=True):
        assert len(here) == len(there)
        for one, other in zip(here, there, strict=True):
            assert one == pytest.approx(other, abs=0.056)


def absolute(path: str) -> list[tuple[float, float]]:
    """The points at which the segments of a document's path end."""
    pieces = re.findall(r"[MLC]([^MLCZ]*)", path)
    return [(float(p.split(" ")[-2]), float(p.split(" ")[-1])) for p in pieces]


def relative(path: str) -> list[tuple[float, float]]:
    """The points at which the segments of a part's path end."""
    x = y = 0.0
    points: list[tuple[float, float]] = []
    for letter, text in re.findall(r"([Mlhvc])([^Mlhvcz]*)", path):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", text)]
        dx, dy = {"h": (numbers[0], 0.0), "v": (0.0, numbers[0])}.get(letter, (0.0, 0.0))
        if letter in "Mlc":
            dx, dy = numbers[-2:]
        x, y = x + dx, y + dy
        points.append((x, y))
    return points


def test_every_class_has_a_rule() -> None:
    rules = sheet(LIGHT)
    for markup in parts(FIGURES).markup:
        for names in re.findall(r'<(?:path|text|tspan) class="([^"]*)"', markup):
            assert all(f".{name}{{" in rules for name in names.split())
