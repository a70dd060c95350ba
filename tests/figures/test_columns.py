"""Ranks side by side: equal columns, bars with rows of their own, text that nothing crosses."""

import re
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from figures.flaws import flaws
from figures.layout_checks import overlaps, struck
from figures.shipped_figures import programs
from figures.sweep import with_remarks
from library import shipped

import xg
from xg.figures import dot
from xg.figures.draw.glyph import Display, DrawnShape, DrawnText, Element
from xg.figures.draw.paint import bounds, line_bounds
from xg.figures.draw.side_by_side import side_by_side
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.run_engine import layout
from xg.figures.model.figure import (
    BarPlace,
    Box,
    Color,
    DrawnPath,
    Figure,
    NodeKind,
    bounding_box,
    path_points,
)
from xg.figures.model.richtext import characters
from xg.figures.model.structure import first_column

LIBRARY = Path(__file__).parents[2] / "diagrams"
CASES = [
    *((name, plan) for name in ("flow", "mlp", "mha") for plan in ("TP", "DP", "DP_TP")),
    ("transformer", "FSDP"),
    ("transformer", "SP"),
    ("transformer", "VP"),
]
each_case = pytest.mark.parametrize(("name", "plan"), CASES)


@cache
def drawn(name: str, plan: str) -> Figure:
    return xg.compile(shipped(name), plan=plan).figure("overview")


@cache
def painted(figure: Figure) -> Display:
    return side_by_side(figure, placement(figure))


@cache
def placement(figure: Figure) -> PlacedFigure:
    """The first column, which all are placed as."""
    return layout(first_column(figure))


def bars(display: Display) -> list[Element]:
    kinds = ("node communication", "node gradient_communication")
    return [element for element in display.elements if element.kind in kinds]


def box_of(bar: Element) -> Box:
    return next(part.path.bounds() for part in bar.parts if isinstance(part, DrawnShape))


def texts(element: Element) -> list[Box]:
    return [line_bounds(p.line, p.x, p.y) for p in element.parts if isinstance(p, DrawnText)]


@each_case
def test_a_column_is_clean_and_all_are_alike(name: str, plan: str) -> None:
    figure = drawn(name, plan)
    placed = placement(figure)
    assert overlaps(placed) == []
    assert struck(placed) == []
    first = figure.columns[0]
    for column in figure.columns:
        assert [node.id for node in column.nodes] == [node.id for node in first.nodes]
        ends = [(edge.tail, edge.head, edge.style) for edge in column.edges]
        assert ends == [(edge.tail, edge.head, edge.style) for edge in first.edges]
    for bar in figure.bars:
        if bar.where is BarPlace.BETWEEN:
            row = placed.nodes[bar.node.id]
            others = (box for node, box in placed.nodes.items() if node != bar.node.id)
            assert all(one.bottom < row.top or one.top > row.bottom for one in others)


def hairlines(bar: Element) -> list[DrawnPath]:
    """The lines through a bar; frames, its own and those of tags, are closed."""
    paths = (part.path for part in bar.parts if isinstance(part, DrawnShape))
    return [path for path in paths if not path.closed]


@each_case
def test_bars_hold_their_text_and_no_line_crosses_it(name: str, plan: str) -> None:
    display = painted(drawn(name, plan))
    for bar in bars(display):
        frame = box_of(bar)
        lines = hairlines(bar)
        for text in texts(bar):
            assert frame.left < text.left < text.right < frame.right
            assert frame.top < text.top < text.bottom < frame.bottom
            if not lines:  # else the text is where none passes
                assert text.center[0] == pytest.approx(frame.center[0])
            assert not any(
                text.left < x < text.right for line in lines for x, _ in path_points(line)
            )


def test_what_passes_a_bar_goes_on_as_a_hairline() -> None:
    """A residual lane and its way back in each of three columns, under the bars between.

    So does what a bar leaves as it is in one of the passes.
    """
    display = painted(drawn("flow", "TP"))
    found = [sum(isinstance(part, DrawnShape) for part in bar.parts) - 1 for bar in bars(display)]
    assert found == [9, 9, 9, 9]


@each_case
def test_bars_lie_over_lines_and_hide_no_label(name: str, plan: str) -> None:
    display = painted(drawn(name, plan))
    order = [element.kind for element in display.elements]
    first = min(place for place, kind in enumerate(order) if kind == bars(display)[0].kind)
    assert "edge" not in order[first:]
    frames = [box_of(bar) for bar in bars(display)]
    labels = [box for one in display.elements if one.kind == "edge" for box in texts(one)]
    assert not any(frame.overlaps(label) for frame in frames for label in labels)


def test_a_group_that_stands_together_has_a_bar_of_its_own() -> None:
    figure = drawn("flow", "DP_TP")
    spans = {characters(bar.node.label): bar.spans for bar in figure.bars}
    assert spans["AR N_T"] == ((0, 2), (3, 5))
    assert spans["AR N_D of 21 gradients tagged AR N_D, for every rank of N_T"] == ((0, 5),)


def test_what_is_sent_for_parameters_is_a_bar_outside_that_tags_name() -> None:
    figure = drawn("flow", "DP")
    (bar,) = (bar for bar in figure.bars if bar.where is not BarPlace.BETWEEN)
    assert bar.where is BarPlace.BELOW
    assert bar.node.kind is NodeKind.COMMUNICATION
    tagged = {node.id: [characters(line) for line in node.lines]
              for node in figure.columns[0].nodes
              if node.lines and node.kind is NodeKind.BLOCK}  # fmt: skip
    assert tagged == {key: ["AR N_D"] for key in ("embedding", "mha", "mlp", "output")}


def test_a_gathered_parameter_has_a_tag_for_each_pass() -> None:
    figure = drawn("transformer", "FSDP")
    above, below = ([bar.node for bar in figure.bars if bar.where is where]
                    for where in (BarPlace.ABOVE, BarPlace.BELOW))  # fmt: skip
    assert [node.kind for node in above] == [NodeKind.COMMUNICATION]
    assert [node.kind for node in below] == [NodeKind.COMMUNICATION]
    tags = {run.tag for node in figure.columns[0].nodes for line in (node.label, *node.lines)
            for run in line}  # fmt: skip
    assert tags == {"", "forward", "backward"}


def test_an_arrow_joins_each_column_with_each_bar_outside() -> None:
    """In flow DP an arrow goes down from every column; in FSDP one comes down to it too."""
    for name, plan, count in (("flow", "DP", 1), ("transformer", "FSDP", 2)):
        figure = drawn(name, plan)
        outer = [one for one in painted(figure).elements if one.kind == "edge" and not one.op]
        assert len(outer) == count * len(figure.columns)


def test_of_many_ranks_the_first_and_the_last_are_drawn() -> None:
    figure = xg.compile(LIBRARY / "notation" / "mlp.xg", plan="TP", sizes={"N_T": 8}).figure(
        "overview"
    )
    headings = [characters(column.heading) for column in figure.columns]
    assert headings == ["GPU 0", "GPU 1", "GPU 7"]
    assert figure.subtitle == "tensor parallel with 8 GPUs"


def test_dot_leads_lanes_through_the_cells_of_bars() -> None:
    text = dot(drawn("flow", "TP"))
    declared = set(re.findall(r'PORT="(\w+)"', text))
    used = set(re.findall(r'":([tb]\d+\w*):[ns]\b', text))
    assert used <= declared
    passing = {port for port in used if not port[1:].isdigit()}
    assert passing == {row + cell for row in "tb" for cell in ("0l", "1l", "2l")}
    starts = re.findall(r"rank=same; edge \[style=invis\]; (\"[^\"]+ @0\".*);", text)
    rows = [re.findall(r"@(\d)", row) for row in starts]
    assert ["0", "1", "2"] in rows


CALLS = """\
dim B, S, D = 16, F = 32, K
mesh N_T = 2

block Lin (X [B, S, D]) -> Y [B, S, D] {
    param W_1 [D, K], W_2 [K, D]

    X -> •<=W_1 : H [B, S, K] -> GELU : G -> •<=W_2 : Y
}

block Net (X [B, S, D]) -> Y [B, S, D] {
    X -> Lin(K=2*F) as two : Y
}

plan TP of Net {
    two.W_1 [D, K/N_T]
    two.W_2 [K/N_T, D]
}
"""


def test_an_opened_call_has_the_sizes_of_its_caller(tmp_path: Path) -> None:
    path = tmp_path / "calls.xg"
    path.write_text(CALLS, encoding="utf-8")
    figure = xg.compile(path, plan="TP").figure("overview")
    written = "; ".join(
        characters(text) for node in figure.nodes for text in (node.label, node.detail)
    )
    assert "W_1^(0) [D, 2·F/N_T]" in written
    assert "K" not in written


@pytest.mark.parametrize(
    ("name", "block", "tail", "bar", "head"),
    [
        ("t5", "DecoderLayer", "bias", "dAG N_T", "SelfAttention"),
        ("t5", "DecoderLayer", "C", "dAR N_T~3", "CrossAttention"),
        ("llama", "GQA", "X", "dAR N_G", "•_2"),
    ],
)
def test_a_value_leaves_a_bar_where_it_enters(
    name: str, block: str, tail: str, bar: str, head: str
) -> None:
    figure = first_column(xg.compile(shipped(name), block, plan="TP").figure("overview"))
    placed = layout(figure)
    paths = {(edge.tail, edge.head): placed.paths[n] for n, edge in enumerate(figure.edges)}
    assert paths[tail, bar].end[0] == pytest.approx(paths[bar, head].start[0], abs=0.01)


def test_blocks_opened_beside_each_other_have_braces_with_their_names() -> None:
    flow = drawn("flow", "TP")
    assert [characters(one.label) for one in flow.braces] == [
        "Multi-Head Attention",
        "Multi-Layer Perceptron",
    ]
    kinds = {node.id: characters(node.label) for node in flow.columns[0].nodes}
    for brace in flow.braces:  # γ, β and H of one are not those of the other
        assert [kinds[node] for node in brace.nodes].count("LN") == 1
    assert drawn("mha", "TP").braces == ()  # all names are the figure's


def test_braces_are_beside_each_other() -> None:
    figure = drawn("t5", "TP")
    braces = [one for one in painted(figure).elements if one.op.startswith("brace ")]
    boxes = [bounding_box([bounds(part) for part in one.parts]) for one in braces]
    assert len(boxes) == len(figure.braces) == 7
    assert [(a, b) for a, b in combinations(boxes, 2) if a.overlaps(b)] == []


def test_columns_leave_room_for_the_text_of_a_bar() -> None:
    """Two of Mixtral's bars are full of lines: their texts have room between two columns."""
    path = shipped("mixtral")
    program = next(one for name, one in programs(path, "TP") if name == "mixtral.Mixtral.TP")
    figure = with_remarks(program, "overview", "mixtral.Mixtral.TP.overview")
    assert flaws(painted(figure), figure.groups) == []


def test_text_of_a_bar_is_in_its_middle_where_no_line_is() -> None:
    centered = 0
    for name, plan in CASES:
        for bar in bars(painted(drawn(name, plan))):
            lines = [path.bounds() for path in hairlines(bar)]
            middle, reach = box_of(bar).center[0], max(text.width for text in texts(bar)) / 2 + 6.0
            if not any(one.left < middle + reach and middle - reach < one.right for one in lines):
                centered += 1
                middles = [text.center[0] for text in texts(bar)]
                assert middles == pytest.approx([middle] * len(middles))
    assert centered > len(CASES)


def test_a_bar_outside_shows_the_tag_that_names_it() -> None:
    """An arrow from all columns says nothing of whose gradients it carries; tags do."""
    figure = drawn("mlp", "DP")
    (bar,) = (one for one in figure.bars if one.where is BarPlace.BELOW)
    assert characters(bar.node.label) == "AR N_D of 6 gradients tagged AR N_D"
    (element,) = (one for one in painted(figure).elements if one.op == bar.node.id)
    frames = [p for p in element.parts if isinstance(p, DrawnShape) and p.path.closed]
    assert len(frames) == 2  # the bar's own, and that of the tag
    assert frames[1].line is Color.BACKWARD


def test_indices_have_a_place_for_every_axis_of_the_mesh() -> None:
    """W_Q is cut over the second axis alone, X over the first: both alone would be (0)."""
    figure = drawn("mha", "DP_TP")
    column = figure.columns[0]
    said = " ".join(characters(one.label) for one in (*column.nodes, *column.edges))
    assert "W_Q^(*,0)" in said
    assert "X^(0,*)" in said
    assert "^(0)" not in said


def test_a_lane_has_a_name_if_the_figure_need_not_be_wider() -> None:
    figure = xg.compile(LIBRARY / "models" / "llama.xg", plan="TP").figure("overview")
    lanes = {characters(e.name) for e in figure.columns[0].edges if e.name}
    assert lanes == {"X ", "M ", "Q^(0,0) "}
    edges = [one for one in painted(figure).elements if one.kind == "edge"]
    drawn_texts = {
        "".join(span.text for span in part.line.spans)
        for one in edges
        for part in one.parts
        if isinstance(part, DrawnText)
    }
    assert {"X [B, S, D]", "M [B, S, D]"} <= drawn_texts
    assert not [text for text in drawn_texts if text.startswith("Q")]
