"""SVG: well-formed, a closed set of elements and attributes, nothing external, themes."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace

import pytest
from figures.hand_made import mha_forward, mlp_backward, overview, with_legend
from figures.hostile import HOSTILE, hostile_figure
from library import shipped

import xg
from xg.cli.commands.ops import dictionary
from xg.figures import paint_figure, render
from xg.figures.draw.glyph import Display, DrawnShape
from xg.figures.model.figure import (
    DARK,
    GLYPH_SIZE,
    LIGHT,
    MARKS,
    PRINT,
    Box,
    Color,
    Figure,
    FigureEdge,
    FigureNode,
    NodeKind,
    Theme,
)
from xg.figures.model.richtext import plain

SVG = "{http://www.w3.org/2000/svg}"
ATTRIBUTES = {
    "svg": {"class", "role", "width", "height", "viewBox", "font-family", "font-kerning"},
    "title": set[str](),
    "desc": set[str](),
    "style": set[str](),
    "g": {"id", "class", "data-op"},
    "path": {"class", "fill", "stroke", "stroke-width", "stroke-dasharray", "d"},
    "text": {"{http://www.w3.org/XML/1998/namespace}space"},
    "tspan": {
        *("class", "x", "y", "textLength", "lengthAdjust"),
        *("font-size", "font-weight", "font-style", "fill"),
    },
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
            assert name in ("data-op", "id") or "alert" not in value


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = render(mha_forward(), "svg", "auto").decode()
    addresses = re.findall(r"\w+://[^\"')]+", text)
    assert addresses == ["http://www.w3.org/2000/svg"]
    assert "url(" not in text


def test_text_keeps_its_width_in_any_font() -> None:
    """A letter of which only a viewer's font knows the width is left as it is."""
    node = FigureNode("a", NodeKind.NONLINEAR, plain("softmax"), lines=(plain("日本"),))
    spans = list(tree(Figure("", "", "", (node,), ())).iter(f"{SVG}tspan"))
    held = {span.text: span.get("textLength") for span in spans}
    assert held["日本"] is None
    assert abs(float(held["softmax"] or 0) - 3.501 * GLYPH_SIZE) < 0.01


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


def test_every_group_has_an_id_of_its_own() -> None:
    """Inkscape and Illustrator show it as the name of a layer."""
    ids = [group.get("id") for group in tree(mha_forward()).iter(f"{SVG}g")]
    assert {"title", "node-LN", "node-W_Q", "edge-LN-to-matmul_K", "group-heads"} <= {*ids}
    for file in ("flow", "mlp", "vae", "transformer"):
        figure = xg.compile(shipped(file)).figure("backward", legend=True)
        ids = [group.get("id") for group in tree(figure).iter(f"{SVG}g")]
        assert len(ids) == len({*ids})
        assert all(one and re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", one) for one in ids)


@pytest.mark.parametrize("text", HOSTILE)
def test_the_id_of_a_hostile_name_is_a_word(text: str) -> None:
    for name in paint_figure(hostile_figure(text))[0].names():
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name), name


def test_themes_differ_in_colors_only() -> None:
    def without_colors(text: bytes) -> str:
        return re.sub(r"#[0-9A-F]{6}", "#", text.decode())

    light, dark, gray = (render(mha_forward(), "svg", t) for t in ("light", "dark", "print"))
    assert light != dark != gray != light
    assert without_colors(light) == without_colors(dark) == without_colors(gray)
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


def contrast(theme: Theme, one: Color, other: Color) -> float:
    low, high = sorted(luminance(theme.colors[color]) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def pictures() -> Iterator[Display]:
    """Pictures that have all kinds of nodes, lanes, bars, tags and marks, and both passes."""
    for figure in (mha_forward(), mlp_backward(), overview(), dictionary()[0]):
        yield paint_figure(with_legend(figure))[0]
    for file in (shipped("flow"), shipped("mlp")):
        for plan in ("TP", "DP_TP"):
            yield paint_figure(xg.compile(file, plan=plan).figure("overview"))[0]
    edge = FigureEdge("a", "b", label=plain("X"))
    for mark in MARKS:
        nodes = tuple(FigureNode(name, NodeKind.NONLINEAR, plain("S"), mark=mark) for name in "ab")
        yield paint_figure(Figure("", "", "", nodes, (replace(edge, mark=mark),)))[0]


def grounds(display: Display) -> Iterator[tuple[Color, Color]]:
    """The color of every text, with that of what was painted there before it."""
    painted_so_far: list[tuple[Box, Color]] = []
    for element in display.elements:
        for part in element.parts:
            if isinstance(part, DrawnShape):
                if part.fill is not None and part.path.closed:
                    painted_so_far.append((part.path.bounds(), part.fill))
                continue
            for span in part.line.spans:
                x, y = part.x + span.x + span.width / 2, part.y + span.y - span.size / 4
                below = [color for box, color in painted_so_far
                         if box.left < x < box.right and box.top < y < box.bottom]  # fmt: skip
                yield (
                    Color.MUTED if span.muted else part.color,
                    below[-1] if below else Color.BACKGROUND,
                )


def test_text_can_be_read() -> None:
    """Text has a contrast of 4.5 to 1, lines of arrows 3 to 1 (WCAG 2.1, AA), in every theme."""
    drawn = list(pictures())
    pairs = {pair for display in drawn for pair in grounds(display)}
    lines = {part.line for display in drawn for element in display.elements
             if element.kind == "edge" for part in element.parts
             if isinstance(part, DrawnShape) and part.line is not None}  # fmt: skip
    assert len(pairs) > 8
    assert {Color.INK, Color.BACKWARD} <= lines
    for theme in (LIGHT, DARK, PRINT):
        pale = [(*pair, theme.name) for pair in pairs if contrast(theme, *pair) < 4.5]
        assert pale == []
        on = (Color.BACKGROUND, Color.LANE)
        thin = [(one, theme.name) for one in lines for g in on if contrast(theme, one, g) < 3]
        assert thin == []
