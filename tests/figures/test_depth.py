"""Overviews with calls opened to a depth: `--depth N`."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from figures.flaws import Picture, crossings, flaws, frames
from library import shipped
from tier import THOROUGH

import xg
from xg.driver import Program
from xg.figures import dot, paint_figure
from xg.figures.draw.glyph import Display
from xg.figures.draw.paint import paint
from xg.figures.layout.lanes import lanes
from xg.figures.layout.placement import PlacedFigure
from xg.figures.layout.request import strips
from xg.figures.layout.run_engine import layout
from xg.figures.model.figure import EdgeStyle, Figure, NodeKind
from xg.figures.model.richtext import characters
from xg.figures.model.structure import nest_groups


@cache
def compiled(name: str) -> Program:
    path, _, block = name.partition(".")
    return xg.compile(shipped(path), block=block or None)


def _figure(name: str, depth: int | None) -> Figure:
    return compiled(name).figure("overview", depth=depth)


@cache
def _painted(name: str, depth: int | None, direction: str) -> tuple[Display, PlacedFigure]:
    return paint_figure(replace(_figure(name, depth), rightward=direction == "right"))


def _blocks(figure: Figure) -> list[str]:
    return [node.id for node in figure.nodes if node.kind is NodeKind.BLOCK]


OPENED = [
    *[("gpt2", 2), ("transformer", 2), ("vae", 1), ("t5", 2)],
    *[("dpo", 1), ("perceiver", 3)],  # calls that share parameters
    ("lora", 2),  # heads whose lane has no room for its heading beside the lines of others
    ("resnet", 2),  # subscripts of subscripts
    ("resnet.Stage", 2),  # a frame that is narrower than its heading, around two lines
]
LARGE = ("t5", "perceiver")  # opened as gpt2 and transformer are, and as dpo is
LONG = ("gpt2", "transformer", "resnet")  # to the right: lora and resnet.Stage have theirs


@pytest.mark.parametrize(
    ("name", "depth", "direction"),
    [
        (name, depth, direction)
        for direction in ("down", "right")
        for name, depth in OPENED
        if THOROUGH or name not in (LARGE if direction == "down" else (*LARGE, *LONG))
    ],
)
def test_an_opened_overview_has_no_flaw(name: str, depth: int, direction: str) -> None:
    display, placed = _painted(name, depth, direction)
    assert placed.warning == ""
    assert flaws(display, _figure(name, depth).groups) == []


def test_a_rim_is_clear_of_a_line_and_its_way_back_on_a_narrow_page() -> None:
    """The rim is not between the two: its heading gives way where the rim belongs."""
    figure = replace(_figure("resnet.Stage", 2), width=5.1 * 72)
    assert list(frames(Picture(paint_figure(figure)[0], figure.groups))) == []


def test_a_figure_whose_frame_cannot_be_wider_is_placed_in_another_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A heading on a line is as bad as a rim on one."""
    figure = _figure("resnet.Stage", 2)
    monkeypatch.setattr("xg.figures.layout.request._WIDEST", 0.0)
    assert flaws(paint(layout(figure)), figure.groups) == []


def test_each_depth_opens_the_calls_of_the_one_before() -> None:
    assert _blocks(_figure("gpt2", 0)) == ["layers"]
    assert _blocks(_figure("gpt2", 1)) == ["attn"]
    assert _blocks(_figure("gpt2", 2)) == []
    assert _figure("gpt2", 3) == _figure("gpt2", 2)


def test_calls_that_share_parameters_have_a_frame_each() -> None:
    figure = _figure("dpo", 1)
    assert [group.id for group in figure.groups] == ["policy", "policy~2"]
    assert not {*figure.groups[0].nodes} & {*figure.groups[1].nodes}


def test_equal_layers_are_opened_once_and_say_how_often() -> None:
    figure = _figure("gpt2", 2)
    assert [characters(group.label) for group in figure.groups] == [
        "Transformer Layer × N_L",
        "Multi-Head Attention ",
        "batch axis N_H",
    ]
    assert [group.id for group in figure.groups][:2] == ["layers", "layers.attn"]
    assert nest_groups(figure.groups) == {None: [0], 0: [1], 1: [2]}
    text = dot(figure)
    assert text.index("subgraph cluster_0") < text.index("    subgraph cluster_1")


@pytest.mark.parametrize(
    ("name", "depth"), [("transformer", None), ("gpt2", 2), ("llama", None), ("bert", 3), ("t5", 1)]
)
def test_what_goes_round_branches_inside_its_frame(name: str, depth: int | None) -> None:
    """An arrow past the frame would say that each round adds what the first one begins with."""
    figure = _figure(name, depth)
    rows = [group for group in figure.groups if "×" in characters(group.label)]
    rows = [group for group in rows if not group.is_axis]
    assert rows
    for row in rows:
        inside = set(row.nodes)
        solid = [edge for edge in figure.edges if edge.style is not EdgeStyle.DASHED]
        entering = [e.value for e in solid if e.head in inside and e.tail not in inside]
        assert sorted(entering) == sorted(set(entering))
        first = next(node for node in figure.nodes if node.id in inside)
        assert first.kind is NodeKind.TENSOR
        assert sum(edge.tail == first.id for edge in solid) > 1


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_what_goes_round_on_ranks_branches_beside_its_brace(name: str) -> None:
    """The rest of a layer is named after its operator: the whole of it is what is repeated."""
    figure = xg.compile(shipped(name), plan="TP").figure("overview")
    inside = set(figure.braces[0].nodes)
    column = figure.columns[0]
    ends = [edge for edge in column.edges if edge.style is not EdgeStyle.DASHED]
    entering = [edge.tail for edge in ends if edge.head in inside and edge.tail not in inside]
    operations = {edge.head for edge in ends}
    assert len([tail for tail in entering if tail in operations]) == 1
    kinds = {node.id: node for node in column.nodes}
    first = kinds[figure.braces[0].nodes[0]]
    assert (first.kind, characters(first.label)) == (NodeKind.TENSOR, "X [B, S, D]")
    blocks = {characters(node.label) for node in column.nodes if node.kind is NodeKind.BLOCK}
    assert blocks & {"Transformer Layer: GELU", "Layer: SwiGLU"}


def test_what_a_call_does_not_take_passes_outside_of_its_frame() -> None:
    figure = _figure("gpt2", 2)
    placed = _painted("gpt2", 2, "down")[1]
    found, inside = lanes(placed), set(figure.groups[1].nodes)
    frame = found.frames["layers.attn"].box
    passing = [n for n, edge in enumerate(figure.edges) if not {edge.tail, edge.head} & inside]
    assert len(passing) > 10
    around = [strip for n in passing if n in placed.paths for strip in strips(placed.paths[n])]
    around += [found.labels[n] for n in passing if n in found.labels]
    assert not [box for box in around if box.overlaps(frame)]


def test_shapes_in_opened_calls_are_in_sizes_of_the_caller() -> None:
    """Where the caller says N_P, they do not say H*W/P**2."""
    labels = {characters(edge.label) for edge in _figure("mixer", None).edges}
    assert "[B, D, N_P]" in labels
    assert not [label for label in labels if "H" in label and "P" in label]


def test_gradients_run_through_opened_calls() -> None:
    """Each dashed arrow is beside a solid one, and the opened heads have some."""
    figure = _figure("gpt2", 2)
    inside = set(figure.groups[1].nodes)
    solid = {(e.tail, e.head) for e in figure.edges if e.style is not EdgeStyle.DASHED}
    dashed = {(e.head, e.tail) for e in figure.edges if e.style is EdgeStyle.DASHED}
    assert dashed <= solid
    within = {pair for pair in solid if inside.issuperset(pair)}
    assert within
    assert within <= dashed


def test_a_frame_has_its_name_in_its_first_line() -> None:
    opened = [_painted(name, None, "down")[1] for name in ("gpt2", "transformer", "vit", "llama")]
    frames = [frame for placed in opened for frame in lanes(placed).frames.values()]
    assert len(frames) >= 4
    for frame in frames:
        assert frame.text.top - frame.box.top < frame.text.height
        assert frame.text.right <= frame.box.right


CHOSEN = """
dim B = 3, D = 5, k = 2
block F(x [B, D]) -> y [B, k], e [B, k] in D {
    param b [D]

    x -> sigmoid            : s [B, D]
      -> ⊕<-BC(b) -> topk(k) : w [B, k], e
    s -> gather[D]<-e       : y
}
"""


def test_no_gradient_comes_out_of_what_passes_none_on() -> None:
    """A sum is read by topk alone, of which only the places are read."""
    figure = xg.compile(source=CHOSEN).figure("overview")
    dashed = {(e.tail, e.head) for e in figure.edges if e.style is EdgeStyle.DASHED}
    (added,) = (node.id for node in figure.nodes if node.kind is NodeKind.ADD)
    (scored,) = (each for each in figure.nodes if characters(each.label) == "sigmoid")
    assert not any(added in ends for ends in dashed)
    assert any(head == scored.id for _, head in dashed)


@pytest.mark.parametrize(
    ("name", "depth"), [("gpt2", 2), ("t5", 2)] if THOROUGH else [("gpt2", 2), ("transformer", 2)]
)
def test_heads_have_a_lane_in_opened_attention(name: str, depth: int) -> None:
    """Inside its frame, under the name of the caller's axis; columns keep their order."""
    figure = _figure(name, depth)
    axes = [group for group in figure.groups if group.is_axis]
    assert {characters(group.label) for group in axes} == {"batch axis N_H"}
    calls = [set(group.nodes) for group in figure.groups if not group.is_axis]
    assert all(any({*group.nodes} < call for call in calls) for group in axes)
    placed = _painted(name, depth, "down")[1]
    assert {group.id for group in axes} <= lanes(placed).frames.keys()


def test_lanes_keep_an_opened_block_in_order() -> None:
    display, _ = _painted("gpt2", 2, "down")
    assert crossings(display) == 0
