"""SVG: well-formed, a closed set of elements and attributes, nothing external, themes."""

import re
import xml.etree.ElementTree as ET

import pytest
from figures.hand_made import mha_forward, mlp_backward, overview
from figures.hostile import HOSTILE, hostile_figure

from xg.figures import render
from xg.figures.model.figure import Figure
from xg.figures.model.style import DARK, LIGHT, PRINT, Color, Theme

SVG = "{http://www.w3.org/2000/svg}"
ATTRIBUTES = {
    "svg": {"class", "role", "width", "height", "viewBox", "font-family", "font-kerning"},
    "title": set[str](),
    "desc": set[str](),
    "style": set[str](),
    "g": {"class", "data-op"},
    "path": {"class", "fill", "stroke", "stroke-width", "stroke-dasharray", "d"},
    "text": {"{http://www.w3.org/XML/1998/namespace}space"},
    "tspan": {"class", "x", "y", "font-size", "font-weight", "font-style", "fill"},
}


def tree(figure: Figure) -> ET.Element:
    return ET.fromstring(render(figure, "svg", "auto"))


def unknown(root: ET.Element) -> list[str]:
    """Return what is in a document that no figure may hold."""
    found: list[str] = []
    for element in root.iter():
        name = element.tag.removeprefix(SVG)
        found += [name] if name not in ATTRIBUTES else []
        found += [f"{name}.{a}" for a in element.attrib if a not in ATTRIBUTES.get(name, set())]
    return found


@pytest.mark.parametrize("figure", [mha_forward(), mlp_backward(), overview()])
def test_elements_and_attributes_are_known(figure: Figure) -> None:
    assert unknown(tree(figure)) == []


def test_an_unknown_element_is_found() -> None:
    planted = ET.fromstring(f'<svg xmlns="{SVG[1:-1]}"><script/><g onclick=""/></svg>')
    assert unknown(planted) == ["script", "g.onclick"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_stays_text(text: str) -> None:
    root = tree(hostile_figure(text))
    assert unknown(root) == []
    harmless = tree(hostile_figure("harmless"))
    assert len(list(root.iter())) <= len(list(harmless.iter()))
    for element in root.iter():
        for name, value in element.attrib.items():
            assert name == "data-op" or "alert" not in value


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = render(mha_forward(), "svg", "auto").decode()
    addresses = re.findall(r"\w+://[^\"')]+", text)
    assert addresses == ["http://www.w3.org/2000/svg"]
    assert "url(" not in text


def test_title_and_description_come_first() -> None:
    root = tree(mha_forward())
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert root[0].text == "Multi-Head Attention — forward pass"


def test_every_node_edge_and_group_has_its_id() -> None:
    figure = mha_forward()
    ids = [group.get("data-op") for group in tree(figure).iter(f"{SVG}g")]
    expected = [group.id for group in figure.groups]
    expected += [f"{edge.tail}->{edge.head}" for edge in figure.edges]
    expected += [node.id for node in figure.nodes]
    assert [one for one in ids if one is not None] == expected


def test_themes_differ_in_colours_only() -> None:
    def without_colours(text: bytes) -> str:
        return re.sub(r"#[0-9A-F]{6}", "#", text.decode())

    light, dark, grey = (render(mha_forward(), "svg", t) for t in ("light", "dark", "print"))
    assert light != dark != grey != light
    assert without_colours(light) == without_colours(dark) == without_colours(grey)
    assert DARK.colors[Color.INK] not in light.decode()


def test_auto_follows_the_reader() -> None:
    text = render(mha_forward(), "svg", "auto").decode()
    assert "prefers-color-scheme:dark" in text
    assert DARK.colors[Color.INK] in text
    assert LIGHT.colors[Color.INK] in text


def test_print_has_no_hue() -> None:
    for color in PRINT.colors.values():
        assert len({color[1:3], color[3:5], color[5:7]}) == 1


def luminance(color: str) -> float:
    channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [LIGHT, DARK, PRINT], ids=lambda theme: theme.name)
def test_text_can_be_read(theme: Theme) -> None:
    colors = theme.colors
    for text, ground in (
        (Color.INK, Color.BACKGROUND),
        (Color.INK, Color.NONLINEAR),
        (Color.INK, Color.LAYOUT),
        (Color.INK, Color.COMMUNICATION),
        (Color.MUTED, Color.BACKGROUND),
        (Color.MUTED, Color.LANE),
    ):
        low, high = sorted(luminance(colors[color]) for color in (text, ground))
        assert (high + 0.05) / (low + 0.05) >= 4.5
