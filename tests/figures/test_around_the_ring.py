"""Figures of keys and values that go around a ring inside attention, in order or in zigzag."""

from figures.test_bars import entering
from library import shipped

import xg
from xg.figures.model.figure import Figure, FigureNode
from xg.figures.model.richtext import characters


def drawn(plan: str) -> Figure:
    return xg.compile(shipped("transformer"), plan=plan).figure("overview")


def bar(figure: Figure, words: str) -> FigureNode:
    """The only bar whose label has these words."""
    (node,) = (one.node for one in figure.bars if words in characters(one.node.label))
    return node


def test_the_result_of_attention_passes_the_bar_of_its_ring() -> None:
    """Keys and values go round, before there is a result; its gradient passes it, too."""
    figure = drawn("Zigzag")
    ring = bar(figure, "around the ring").id
    assert entering(figure, ring, dashed=False) == [True]
    assert entering(figure, ring, dashed=True) == [True]


def test_a_sum_inside_a_loss_is_passed_by_nothing() -> None:
    """The control: without it there is no loss."""
    figure = xg.compile(shipped("transformer"), plan="VP").figure("overview")
    inside = bar(figure, "inside CE").id
    assert entering(figure, inside, dashed=False) == [False]


def test_a_bar_says_what_goes_round_in_which_pass_in_the_symbols_of_the_figure() -> None:
    for plan, order in (("Ring", ""), ("Zigzag", " in zigzag")):
        node = bar(drawn(plan), "around the ring")
        assert characters(node.label) == f"around the ring N_S{order} inside Ring"
        assert [characters(line) for line in node.lines] == [
            "forward K, V: naive, ring (N_S − 1)/N_S · 2·B·N_H·S·D_h",
            "backward K, V, dK, dV: naive, ring (N_S − 1)/N_S · 4·B·N_H·S·D_h",
        ]


def test_where_both_passes_cost_the_same_one_line_is_for_both() -> None:
    node = bar(xg.compile(shipped("bert"), plan="DP").figure("overview"), "inside CE")
    assert [characters(line) for line in node.lines] == [
        "forward and backward: naive 2(N_D − 1),  ring 2(N_D − 1)/N_D"
    ]


def test_a_bar_of_slices_says_that_they_are_in_zigzag() -> None:
    assert bar(drawn("Zigzag"), "part N_S in zigzag, AG in the backward pass")
    assert bar(drawn("Ring"), "part N_S, AG in the backward pass")
