"""Bars across ranks: what passes them, what they say; the tags of parameters that name them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import pytest
from figures.flaws import crossings, flaws
from library import shipped

import xg
from xg.figures import paint_figure
from xg.figures.draw.glyph import Display, DrawnShape, DrawnText, Element, meanings
from xg.figures.draw.paint import bounds, line_bounds
from xg.figures.model.figure import Box, EdgeStyle, Figure, NodeKind, Point, path_points
from xg.figures.model.richtext import characters


@cache
def drawn(name: str, plan: str, **mesh: int) -> Figure:
    return xg.compile(shipped(name), plan=plan, mesh=mesh or None).figure("overview")


def entering(figure: Figure, bar: str, *, dashed: bool) -> list[bool]:
    """Whether each arrow of the first column into a bar passes it."""
    edges = (e for e in figure.columns[0].edges if e.head == bar)
    return [e.passes for e in edges if (e.style is EdgeStyle.DASHED) is dashed]


def words(figure: Figure, bar: str) -> list[str]:
    (node,) = (one.node for one in figure.bars if one.node.id == bar)
    return [characters(node.label), *map(characters, node.lines)]


def arrows(display: Display) -> Iterator[Element]:
    return (one for one in display.elements if one.wire is not None)


def heads(element: Element) -> int:
    return sum(isinstance(part, DrawnShape) and part.line is None for part in element.parts)


def line_of(element: Element) -> Sequence[Point]:
    return path_points(next(part for part in element.parts if isinstance(part, DrawnShape)).path)


def box_of(element: Element) -> Box:
    return bounds(element.parts[0])


# ---- lines through bars --------------------------------------------------------------------------


def test_lines_pass_a_bar_that_does_nothing_in_their_pass() -> None:
    figure = drawn("mha", "TP")
    assert entering(figure, "dAR N_T", dashed=False) == [True]
    assert entering(figure, "dAR N_T", dashed=True) == [False] * 3
    assert entering(figure, "AR N_T", dashed=False) == [False]
    assert entering(figure, "AR N_T", dashed=True) == [True]
    for arrow in arrows(paint_figure(figure)[0]):
        assert arrow.wire
        ends = arrow.wire.tail.partition(" @")[0], arrow.wire.head
        passes = ends in {("H", "dAR N_T"), ("A_out", "AR N_T")}
        assert heads(arrow) == (not passes), arrow.op


def test_a_bar_that_works_in_both_passes_is_passed_by_nothing() -> None:
    figure = xg.compile(shipped("bert"), "Layer", plan="Stream").figure("overview")
    assert any(characters(bar.node.label).startswith("AG N_T, RS in") for bar in figure.bars)
    edges = figure.columns[0].edges
    assert not any(edge.passes for edge in edges)
    part = xg.compile(shipped("llama"), "GQA", plan="TP").figure("overview")
    taken = [bar.node for bar in part.bars if characters(bar.node.label).startswith("part N_T, AG")]
    assert len(taken) == 2
    ids = {node.id for node in taken}
    assert not any(edge.passes for edge in part.columns[0].edges if edge.head in ids)


def test_a_line_branches_on_the_bar_that_it_passes() -> None:
    """It goes on to every arrow of its rank that leaves the bar, to Q, K and V, and to no other."""
    display = paint_figure(drawn("mha", "TP"))[0]
    (bar,) = (one for one in display.elements if one.op == "dAR N_T")
    paths = [part.path for part in bar.parts if isinstance(part, DrawnShape)][1:]
    shown = {(round(path.start[0]), round(path.end[0])) for path in paths}
    middle = round(box_of(bar).center[1])
    for rank in range(2):
        own = [one for one in arrows(display) if one.op.endswith(f" @{rank}")]
        (above,) = (one for one in own if one.op.startswith("H->dAR N_T "))
        below = [one for one in own if one.op.startswith("dAR N_T->•")]
        start = round(line_of(above)[-1][0])
        assert len(below) == 3
        assert shown >= {(start, round(line_of(one)[0][0])) for one in below}
    bent = [path for path in paths if path.start[0] != path.end[0]]
    assert all(any(round(y) == middle for _, y in path_points(path)) for path in bent)


def test_a_line_that_stops_at_a_bar_is_noticed() -> None:
    """The control: the same picture without hairlines."""
    figure = drawn("mha", "TP")
    display = paint_figure(figure)[0]
    assert flaws(display, figure.groups) == []
    elements = (
        replace(one, parts=tuple(p for n, p in enumerate(one.parts)
                                 if n == 0 or isinstance(p, DrawnText)))
        if one.op == "dAR N_T" else one
        for one in display.elements
    )  # fmt: skip
    found = flaws(replace(display, elements=tuple(elements)), figure.groups)
    lost = {flaw.what for flaw in found if flaw.kind == "ends nowhere"}
    assert lost == {"H->dAR N_T @0", "H->dAR N_T @1"}


@pytest.mark.parametrize(("name", "plan"), [("mha", "DP_TP"), ("mlp", "DP_TP"), ("flow", "TP")])
def test_no_hairline_is_under_the_text_of_its_bar(name: str, plan: str) -> None:
    for one in paint_figure(drawn(name, plan))[0].elements:
        if one.kind == "node communication":
            shapes = [part for part in one.parts if isinstance(part, DrawnShape)]
            lines = [bounds(part) for part in shapes if not part.path.closed]
            texts = [line_bounds(p.line, p.x, p.y) for p in one.parts if isinstance(p, DrawnText)]
            assert not any(line.overlaps(text) for line in lines for text in texts), one.op


def test_a_line_that_passes_a_bar_keeps_off_what_meets_it() -> None:
    """A residual of Whisper's decoder turned right below a bar, on the line that leaves that.

    It crosses nothing, either: the residuals in a row have changed sides.
    """
    figure = drawn("whisper", "FSDP_TP")
    display = paint_figure(figure)[0]
    assert flaws(display, figure.groups) == []
    assert crossings(display) == 0


def test_a_residual_goes_around_a_line_into_the_side_of_another_node() -> None:
    """The shared experts join from the right: the residual that ends below is farther right."""
    assert crossings(paint_figure(drawn("deepseek2", "SP"))[0]) == 0


# ---- what bars say -------------------------------------------------------------------------------


def test_a_bar_says_what_each_rank_adds_up_before_it() -> None:
    assert words(drawn("mha", "TP"), "dAR N_T")[:2] == [
        "AR N_T in the backward pass",
        "⊕ of 3 terms on each rank, then Σ over N_T",
    ]
    assert words(drawn("mlp", "TP"), "dAR N_T")[1] == "Σ over N_T"  # there is one


def test_a_bar_says_what_it_sums_in_the_backward_pass() -> None:
    figure = xg.compile(shipped("bert"), "Layer", plan="Stream").figure("overview")
    (gather, *_) = (bar.node for bar in figure.bars if bar.node.id.startswith("AG"))
    assert characters(gather.lines[0]) == "Σ over N_T in the backward pass"


# ---- boxes between bars -----------------------------------------------------------------------


def test_arrows_to_bars_outside_say_which_values_they_are() -> None:
    """Under FSDP parameters come from above and gradients go below: of no one node, so by words."""
    figure = drawn("bert", "FSDP_TP", N_D=2)
    display, _ = paint_figure(figure)
    loose = [one for one in display.elements if one.kind == "edge" and one.wire is None]
    parts = [part for one in loose for part in one.parts if isinstance(part, DrawnText)]
    said = ["".join(span.text for span in part.line.spans) for part in parts]
    assert sorted(said) == ["gradients", "gradients", "parameters", "parameters"]
    assert flaws(display, figure.groups) == []


def test_two_boxes_of_one_block_have_two_names() -> None:
    """Moves of key heads cut Llama's attention: both parts were Grouped-Query Attention."""
    nodes = drawn("llama", "TP").columns[0].nodes
    names = [characters(node.label) for node in nodes if node.kind is NodeKind.BLOCK]
    title = "Grouped-Query Attention"
    assert names == [f"{title}: RoPE", f"{title}: SM, S, causal", "Layer: SwiGLU"]


# ---- tags ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "plan"), [("mlp", "DP"), ("transformer", "FSDP")])
def test_tags_are_at_the_end_of_a_parameter_away_from_its_arrows(name: str, plan: str) -> None:
    """Between both, AR of a gradient seemed to be done to what goes forward too."""
    display = paint_figure(drawn(name, plan))[0]
    tagged = 0
    for one in display.elements:
        tags = [bounds(part) for part in one.parts if isinstance(part, DrawnShape)]
        if one.kind == "node tensor" and tags:
            whole = max(bounds(part).right for part in one.parts)
            tagged += 1
            ends = [path_points(part.path)[0][0] for arrow in arrows(display)
                    if arrow.wire and arrow.wire.tail == one.op
                    for part in arrow.parts if isinstance(part, DrawnShape)]  # fmt: skip
            assert min(ends) > whole
            assert max(tag.right for tag in tags) < whole - 10.0
    assert tagged >= 2


# ---- legends -------------------------------------------------------------------------------------


def meaning_of(figure: Figure) -> dict[str, str]:
    """The words of a legend, by the letters of boxes."""
    return {one.letters: one.words for one in meanings(replace(figure, legend=True))}


def test_a_legend_says_that_a_sum_is_one_and_no_mean() -> None:
    sum_over_ranks = "all-reduce: the sum over ranks"
    backward = xg.compile(shipped("mlp"), plan="DP").figure("backward")
    assert meaning_of(backward)["AR"] == sum_over_ranks
    assert meaning_of(drawn("mlp", "DP"))["AR"] == sum_over_ranks  # a bar
    gathered = meaning_of(drawn("transformer", "FSDP"))
    assert {"AG", "RS", "AR"} <= set(gathered)
