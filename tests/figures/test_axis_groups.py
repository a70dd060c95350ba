"""Lanes "× N" are where nodes compute each index by itself, whatever the axis is called."""

from itertools import combinations

import pytest
from figures.flaws import flaws
from library import shipped

import xg
from xg.figures import paint_figure
from xg.figures.layout.lanes import lanes as placed_lanes
from xg.figures.model.richtext import characters
from xg.figures.views import View

MHA = shipped("mha").read_text(encoding="utf-8").partition("# ---- plans")[0]


def lanes(text: str, view: View = "forward") -> list[tuple[str, tuple[str, ...]]]:
    figure = xg.compile(source=text).figure(view)
    return [(characters(group.label), group.nodes) for group in figure.groups]


def test_heads_have_a_lane_under_any_name() -> None:
    named = [lanes(MHA.replace("N_H", name)) for name in ("N_H", "heads")]
    assert [[label for label, _ in found] for found in named] == [
        ["batch axis N_H"],
        ["batch axis heads"],
    ]
    assert named[0][0][1] == named[1][0][1] == ("A", "Z", "P", "AS", "O")
    ((label, nodes), *others) = lanes(MHA.replace("N_H", "heads"), "backward")
    assert label == "batch axis heads"
    assert len(nodes) > 5
    assert [name for name, _ in others] == ["batch axis heads"] * 2


def test_heads_of_a_rank_have_a_lane() -> None:
    for view in ("forward", "backward"):
        parts = xg.compile(shipped("mha"), plan="TP").figure(view).groups
        wholes = xg.compile(shipped("mha")).figure(view).groups
        assert {characters(group.label) for group in parts} == {"batch axis N_H/N_T"}
        assert [group.nodes for group in parts] == [group.nodes for group in wholes]
    assert xg.compile(shipped("mlp"), plan="TP").figure("forward").groups == ()


NORMALIZED = """
dim B, S, D = 64, N_H = 4, D_h = D/N_H
op RMS(x [.., D_h]; g [D_h], eps = 1e-6) = x / sqrt(mean[D_h](x^2) + eps) * g
block Attention(X [B, S, D]) -> Y [B, S, D] {
    param W_Q, W_K, W_V [D, D]
    param g_Q, g_K [D_h] = ones
    X -> •<=W_Q -> R -> RMS(g_Q) -> RoPE : Q [B, N_H, S, D_h]
    X -> •<=W_K -> R -> RMS(g_K) -> RoPE : K [B, N_H, S, D_h]
    X -> •<=W_V -> R                     : V [B, N_H, S, D_h]
    Q -> •<=T(K) -> SM(1/sqrt(D_h)) -> S -> •<=V -> R : Y
}
"""


def test_a_lane_runs_from_product_to_product() -> None:
    """Norms and rotations of queries are out of it as those of keys are, in both passes."""
    expected: dict[View, list[str]] = {"forward": ["SM", "S"], "backward": ["dS", "dSM"]}
    for view, inside in expected.items():
        figure = xg.compile(source=NORMALIZED).figure(view)
        group = figure.groups[0]
        of_lane = [node for node in figure.nodes if node.id in group.nodes]
        assert [node.kind.name for node in of_lane].count("MATMUL") == 2
        texts = [characters(node.label) for node in of_lane]
        assert [text for text in texts if text.removeprefix("d") in {"SM", "S"}] == inside
        assert not [text for text in texts if "RMS" in text or "RoPE" in text]


def test_products_at_the_side_are_in_the_lane() -> None:
    """The gate of an expert is, and the scores' keys with their T; what takes them decides."""
    for name, block, products in (("mixtral", "Experts", 3), ("sentiment", "Heads", 5)):
        figure = xg.compile(shipped(name), block=block).figure("forward")
        (group,) = figure.groups
        kinds = [node.kind.name for node in figure.nodes if node.id in group.nodes]
        assert kinds.count("MATMUL") == products
        assert kinds.count("LAYOUT") == (block == "Heads")
        display = paint_figure(figure)[0]
        assert [one.kind for one in display.elements].count("group") == 1
        assert flaws(display, figure.groups) == []


@pytest.mark.parametrize(
    ("name", "block", "gradients"),
    [("mha", "MHA", {"dV", "dK^⊤"}), ("moe", "Experts", {"dW_1", "dW_2"})],
)
def test_products_of_other_columns_have_lanes_of_their_own(
    name: str, block: str, gradients: set[str]
) -> None:
    """They are done for each head, for each expert, as those of the main column.

    A product with a weight of all heads is in none, nor is a T, as in the forward pass.
    """
    figure = xg.compile(shipped(name), block=block).figure("backward")
    first, *others = figure.groups
    inside = {node for group in others for node in group.nodes}
    results = {node.removeprefix("• ") for node in inside}
    assert gradients <= results
    products = [node for group in figure.groups for node in group.nodes if node.startswith("•")]
    assert len(products) == len(set(products)) == 4
    assert {group.label for group in others} == {first.label}
    assert not inside & {"• dW_Q", "• dW_r", "T dK"}
    display = paint_figure(figure)[0]
    assert [one.kind for one in display.elements].count("group") == 3
    assert flaws(display, figure.groups) == []


def test_what_mixes_heads_ends_the_lane() -> None:
    """Softmax over the heads joins them: no three nodes are left in a row."""
    mixed = MHA.replace("-> S  ", "-> S[N_H]  ")
    assert mixed != MHA
    assert lanes(mixed) == []


def test_rows_and_columns_of_one_product_have_none() -> None:
    """Nodes after a product by a weight compute each column by itself, but nothing is repeated."""
    text = """
dim B, S, D = 8, N_F = 4*D
block MLP (X [B, S, D]; p = 0.1) -> Y [B, S, D] {
    param W [D, N_F], b [N_F], V [N_F, D]
    X -> •<=W -> ⊕<-BC(b) -> GELU -> DO(p) -> •<=V : Y
}
"""
    assert lanes(text) == []


def test_a_lane_is_painted_where_another_node_is_near() -> None:
    """The tensor `dropped` is in the room that the frame of the experts usually takes."""
    figure = xg.compile(shipped("moe"), block="Experts").figure("forward")
    display = paint_figure(figure)[0]
    assert [one.title for one in display.elements if one.kind == "group"] == ["batch axis N_E"]
    assert flaws(display) == []


def test_no_lane_reaches_into_another() -> None:
    """That of queries begins where that of scores has its padding: both keep some."""
    figure = xg.compile(shipped("node_i"), "MHA_i").figure("backward")
    frames = [frame.box for frame in placed_lanes(paint_figure(figure)[1]).frames.values()]
    assert len(frames) == 3
    pairs = combinations(frames, 2)
    assert not any(one.grown(1.0).overlaps(other) for one, other in pairs)
