"""Figures of ranks: partial values and their totals, even rows, lanes, strips of wide figures."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from figures.flaws import flaws
from library import shipped
from tier import THOROUGH

import xg
from xg.figures import paint_figure
from xg.figures.draw.glyph import Display, DrawnShape, DrawnText
from xg.figures.draw.paint import line_bounds, node_boxes
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.run_engine import layout, with_even_results
from xg.figures.model.figure import EdgeStyle, Figure, NodeKind, path_points, polyline
from xg.figures.model.richtext import characters
from xg.figures.model.structure import first_column
from xg.figures.views import View
from xg.figures.views.forward import forward_drawn
from xg.ir.graph import Apply


@cache
def drawn(name: str, plan: str | None, view: View = "overview", **mesh: int) -> Figure:
    return xg.compile(shipped(name), plan=plan, mesh=mesh or None).figure(view)


# ---- terms and totals ----------------------------------------------------------------------------


def sums(figure: Figure) -> set[str]:
    """The ids of collectives that make a total of terms."""
    found = (node for node in figure.nodes if node.kind is NodeKind.COMMUNICATION)
    return {node.id for node in found if characters(node.label).startswith(("AR ", "RS "))}


def unlike(figure: Figure) -> Iterator[str]:
    """Arrows into a sum over ranks that are not called partial, and others that are."""
    adds = {node.id for node in figure.nodes if node.kind is NodeKind.ADD} | sums(figure)
    for edge in figure.edges:
        text = characters(edge.label)
        if edge.style is not EdgeStyle.DASHED and text:
            if edge.head in sums(figure) and not text.endswith(" partial"):
                yield f"not partial: {text}"
            elif edge.head not in adds and text.endswith(" partial"):
                yield f"partial: {text}"


@pytest.mark.parametrize("view", ["forward", "backward"])
@pytest.mark.parametrize(("name", "plan"), [("mha", "TP"), ("mlp", "TP"), ("mlp", "DP_TP")])
def test_of_one_rank_what_is_summed_is_partial_and_nothing_else(
    name: str, plan: str, view: View
) -> None:
    figure = drawn(name, plan, view)
    assert sums(figure)
    assert list(unlike(figure)) == []
    whole = drawn(name, None, view)
    assert not any("partial" in characters(edge.label) for edge in whole.edges)


def test_a_missing_mark_is_noticed() -> None:
    """The control: a term without the word, and a product with it."""
    figure = drawn("mha", "TP", "forward")
    (term,) = (edge for edge in figure.edges if edge.head in sums(figure))
    scores = next(edge for edge in figure.edges if characters(edge.label).startswith("A ["))
    for edge, label in ((term, term.label[:-1]), (scores, (*scores.label, term.label[-1]))):
        edges = (replace(one, label=label) if one is edge else one for one in figure.edges)
        assert len(list(unlike(replace(figure, edges=tuple(edges))))) == 1


def test_a_box_says_which_terms_have_which_total() -> None:
    boxes = {node.id: node for node in drawn("mlp", "DP", "backward").nodes}
    lines = {characters(boxes[one].lines[0]) for one in boxes if one.startswith("AR ")}
    assert "dW_up = Σ_i dW_up,i" in lines
    assert "dγ = Σ_i dγ_i" in lines
    (bar,) = (node for node in drawn("mha", "TP", "forward").nodes if node.id == "AR N_T")
    assert characters(bar.lines[0]) == "Σ over N_T"  # neither terms nor total have a name
    gathers = [node for node in drawn("transformer", "FSDP", "forward").nodes
               if characters(node.label).startswith("AG")]  # fmt: skip
    assert gathers
    assert not any("Σ" in characters(line) for node in gathers for line in node.lines)


def test_side_by_side_each_line_at_a_bar_has_its_tensor() -> None:
    """Three ways leave the bar in front of Q, K and V, and three terms enter it from below."""
    for place in range(2):
        edges = drawn("mha", "TP").columns[place].edges
        below = [characters(edge.label) for edge in edges if edge.tail == "dAR N_T"]
        above = [characters(edge.label) for edge in edges if edge.head == "dAR N_T"]
        assert below.count("H [B, S, D]") == 3
        assert above.count("[B, S, D] partial") == 3


def test_a_term_without_a_name_is_partial_too() -> None:
    edges = drawn("transformer", "TP").columns[0].edges
    texts = [characters(e.label) for e in edges if e.head.startswith("dAR") and e.tail == "MLP"]
    assert texts == ["[B, S, D] partial"]


# ---- even rows, lanes ----------------------------------------------------------------------------


def reshapes(placed: PlacedFigure) -> list[float]:
    """How high the reshapes of queries, keys and values are."""
    found = (n.id for n in placed.figure.nodes if characters(n.label) == "R")
    return [placed.nodes[node].center[1] for node in found][:3]


@pytest.mark.parametrize("plan", ["TP", "DP_TP"])
def test_queries_keys_and_values_are_in_the_same_rows(plan: str) -> None:
    heights = reshapes(layout(first_column(drawn("mha", plan))))
    assert len(heights) == 3
    assert max(heights) - min(heights) < 0.01


def test_heads_of_a_rank_have_a_lane_side_by_side_too() -> None:
    figure = drawn("mha", "TP")
    (lane,) = figure.lanes
    assert characters(lane.label) == "batch axis N_H/N_T"
    (alone,) = drawn("mha", "TP", "forward").groups
    assert lane.nodes == alone.nodes
    frames = [one.op for one in paint_figure(figure)[0].elements if one.kind == "group"]
    assert [f"{lane.id} @{place}" in frames for place in range(2)] == [True, True]
    assert drawn("mlp", "TP").lanes == ()


# ---- results -------------------------------------------------------------------------------------


def lengths(figure: Figure) -> list[float]:
    """How long the arrows are that lead from an all-reduce down to a result."""
    placed = layout(figure)
    ends = {edge.tail for edge in figure.edges}
    return [
        points[-1][1] - points[0][1]
        for number, edge in enumerate(figure.edges)
        if edge.tail in sums(figure) and edge.head not in ends
        for points in [list(path_points(placed.paths[number]))]
    ]


def test_results_hang_at_equal_distances() -> None:
    for name in ("mlp", "mha") if THOROUGH else ("mlp",):
        found = lengths(drawn(name, "DP", "backward"))
        assert len(found) >= 6
        assert max(found) - min(found) < 0.01


def test_a_result_stays_where_something_is_in_the_way() -> None:
    """The control: what is far below stays there if it would come to lie on a label."""
    placed = layout(drawn("mlp", "DP", "backward"))
    number = next(n for n, e in enumerate(placed.figure.edges) if e.head == "dβ")
    box = placed.nodes["dβ"].moved(0.0, 40.0)
    (x, start), (_, end) = path_points(placed.paths[number])
    path = polyline(((x, start), (x, end + 40.0)))
    low = replace(placed, nodes={**placed.nodes, "dβ": box}, paths={**placed.paths, number: path})
    assert with_even_results(low).nodes["dβ"] == placed.nodes["dβ"]
    blocked = replace(low, labels={**low.labels, -1: placed.nodes["dβ"]})
    assert with_even_results(blocked).nodes["dβ"] == box


def test_gradients_of_parameters_are_in_the_order_of_the_parameters() -> None:
    placed = layout(drawn("mlp", "DP", "backward"))
    assert placed.nodes["dγ"].center[0] < placed.nodes["dβ"].center[0]


# ---- strips --------------------------------------------------------------------------------------


def headings(display: Display) -> list[str]:
    return [
        one.title
        for one in display.elements
        if one.op.startswith("rank ") and one.op.endswith(".0")
    ]


def strips(display: Display) -> list[str]:
    """The ranks that are drawn as strips: their frames have dots and no node is in them."""
    return [
        one.title
        for one in display.elements
        if one.op.startswith("rank ")
        and one.op.endswith(".0")
        and any(isinstance(p, DrawnText) and p.line.spans[0].text == "· · ·" for p in one.parts)
    ]


def test_of_ranks_that_are_too_wide_those_between_are_strips() -> None:
    wide = drawn("llama", "TP")
    display = paint_figure(wide)[0]
    assert headings(display) == ["GPU (0,0)", "GPU (0,1)", "GPU (1,0)", "GPU (1,1)"]
    assert strips(display) == ["GPU (0,1)", "GPU (1,0)"]
    assert display.width < 1500
    assert flaws(display, wide.groups) == []
    boxes = node_boxes(display)
    assert {one.partition(" @")[2] for one in boxes if one.startswith("Emb")} == {"0", "3"}
    narrow = paint_figure(drawn("transformer", "TP", N_T=4))[0]
    assert headings(narrow) == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]
    assert strips(narrow) == []


def test_no_bar_is_over_strips_alone() -> None:
    """Of three groups the one in the middle has a rank in full: the text of its bar needs it."""
    figure = drawn("mha", "DP_TP", N_D=3, N_T=2)
    display = paint_figure(figure)[0]
    assert strips(display) == ["GPU (0,1)", "GPU (1,1)", "GPU (2,0)"]
    assert flaws(display, figure.groups) == []
    for bar in (one for one in display.elements if one.op.startswith("AR N_T #")):
        frame = next(p.path.bounds() for p in bar.parts if isinstance(p, DrawnShape))
        for part in bar.parts:
            if isinstance(part, DrawnText):
                text = line_bounds(part.line, part.x, part.y)
                assert frame.left <= text.left
                assert text.right <= frame.right


def test_no_line_bends_under_a_bar() -> None:
    """A bar shows what passes it as a hairline: a corner at its rim ended in the middle of it."""
    figure = xg.compile(shipped("moe"), "Layer", plan="TP").figure("overview")
    assert flaws(paint_figure(figure)[0], figure.groups) == []


def test_a_lane_from_a_bar_has_one_label() -> None:
    """A residual that begins at a gather: its gradient runs beside it, and has no text."""
    figure = xg.compile(shipped("bert"), "Layer", plan="Stream").figure("overview")
    assert flaws(paint_figure(figure)[0], figure.groups) == []


# ---- parts that a rank takes ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["transformer", "deepseek2"])
def test_what_a_loss_cuts_inside_is_cut_in_front_of_it(name: str) -> None:
    """Each rank has the targets whole, and logits of its part of the sequence."""
    first, second = drawn(name, "SP").columns
    for column, rank in ((first, 0), (second, 1)):
        (part,) = (n.id for n in column.nodes if characters(n.label) == "part N_T")
        ends = [
            (e.tail, e.head, characters(e.label)) for e in column.edges if part in (e.tail, e.head)
        ]
        assert ends == [("t", part, ""), (part, "loss", f"t^({rank}) [B, S/N_T]")]
    forward = {edge.tail: edge for edge in drawn(name, "SP", "forward").edges}
    assert characters(forward[forward["t"].head].label) == "t [B, S/N_T]"


def test_what_is_read_whole_too_is_not_cut_in_front() -> None:
    """The weights of a loss: their sum is that of all ranks."""
    edges = drawn("distilbert", "SP").columns[0].edges
    assert {(edge.tail, edge.head) for edge in edges} >= {("t", "part"), ("w", "loss")}


def test_parts_over_several_mesh_axes_are_one() -> None:
    nodes = drawn("llama", "SP").columns[0].nodes
    labels = [characters(node.label) for node in nodes if node.kind is NodeKind.LAYOUT]
    assert labels.count("part N_G · N_T") == 1


def test_a_step_behind_its_part_has_its_node() -> None:
    """For those who ask for the node of a step of the program."""
    program = xg.compile(shipped("transformer"), plan="SP").graphs
    (loss,) = (s for s in program.main.steps if isinstance(s, Apply) and s.op.glyph == "CE")
    assert forward_drawn(program, program.main).nodes[loss] == "loss"


# ---- tags of parameters --------------------------------------------------------------------------


def texts(figure: Figure, node_id: str) -> list[str]:
    """The lines below the heading of a node in the first column."""
    (node,) = (one for one in figure.columns[0].nodes if one.id == node_id)
    return [characters(line) for line in (node.detail, *node.lines)]


def test_a_tag_is_beside_the_parameters_that_it_is_of() -> None:
    """Of one box some are reduced, those of calls and vectors too, and others are not."""
    figure = drawn("deepseek2", "SP")
    assert texts(figure, "MLA") == [
        "W_U^(0) [D_c, N_H·D_n/N_T + N_H·D_v/N_T], W_O^(0) [N_H·D_v/N_T, D]",
        "query: W_D [D, D_q], g [D_q] AR N_T",
        "W_D [D, D_c], g [D_c], W_R [D, D_r] AR N_T",
    ]
    assert texts(figure, "Experts") == [
        "W_gate^(0), W_up^(0) [N_E, D, D_e/N_T], W_down^(0) [N_E, D_e/N_T, D]",
        "router: W_r [D, N_E] AR N_T",
    ]


def test_a_tag_of_all_parameters_is_below_their_matrices() -> None:
    assert texts(drawn("transformer", "Zigzag"), "Attention") == [
        "W_Q, W_K, W_V [D, D]",
        "AR N_S",
    ]


def test_a_parameter_that_one_use_moves_has_a_tag_at_that_use() -> None:
    """Each rank embeds all tokens, but its logits are of its part of the sequence."""
    figure = drawn("transformer", "SP")
    assert texts(figure, "Emb_1") == ["E [V, D]"]
    (head,) = (n for n in figure.columns[0].nodes if n.id == "E^⊤")
    assert characters(head.label) == "AR N_T E^⊤ [D, V]"
    assert texts(drawn("transformer", "DP"), "Emb_1") == ["E [V, D]", "AR N_D"]


def test_parameters_that_are_gathered_have_the_number_of_their_part() -> None:
    """Gathered over one mesh axis, they are parts over the other."""
    first, _ = texts(drawn("transformer", "FSDP_TP"), "MLP")
    assert first == "W_up^(0,*) [D, D_ff/N_T], W_down^(0,*) [D_ff/N_T, D]"
