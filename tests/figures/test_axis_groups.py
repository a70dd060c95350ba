"""Lanes "× N" are where nodes compute each index by itself, whatever the axis is called."""

from figures.flaws import flaws
from library import shipped

import xg
from xg.figures import painted
from xg.figures.model.richtext import characters
from xg.figures.views import View

MHA = shipped("mha").read_text(encoding="utf-8").partition("# ---- plans")[0]


def lanes(text: str, view: View = "forward") -> list[tuple[str, tuple[str, ...]]]:
    figure = xg.compile(source=text).figure(view)
    return [(characters(group.label), group.nodes) for group in figure.groups]


def test_heads_have_a_lane_under_any_name() -> None:
    named = [lanes(MHA.replace("N_H", name)) for name in ("N_H", "heads")]
    assert [[label for label, _ in found] for found in named] == [["× N_H"], ["× heads"]]
    assert named[0][0][1] == named[1][0][1] == ("A", "Z", "P", "AS", "O")
    ((label, nodes),) = lanes(MHA.replace("N_H", "heads"), "backward")
    assert label == "× heads"
    assert len(nodes) > 5


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
    display = painted(figure)[0]
    assert [one.title for one in display.elements if one.kind == "group"] == ["× N_E"]
    assert flaws(display) == []
