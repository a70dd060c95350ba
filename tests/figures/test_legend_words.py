"""Legends explain what a stranger cannot know: names of operators, and symbols that no file has."""

from __future__ import annotations

from library import shipped

import xg
from xg.figures import dot, render
from xg.figures.draw.glyph import meanings
from xg.figures.model.figure import Figure, NodeKind
from xg.figures.model.richtext import characters

OWN = """
dim B, D

block Own (X [B, D], keep [B, D] frozen) -> Y [B, D] {
    X -> ⊙<-keep : Y
}
"""


def boxes(figure: Figure) -> dict[str, str]:
    return {one.letters: one.words for one in meanings(figure) if one.letters}


def explained(figure: Figure) -> dict[str, str]:
    return {characters(one.symbol): one.words for one in meanings(figure) if one.symbol}


def test_the_operators_of_experts_are_explained() -> None:
    figure = xg.compile(shipped("moe"), "Experts").figure("forward", legend=True)
    found = boxes(figure)
    assert found["dispatch"] == "tokens to slots of their experts"
    assert found["combine"] == "weighed sum of what a token's experts give"
    assert {"topk", "scatter", "mean", "scale", "fill"} <= set(found)
    assert "change of layout" not in [one.words for one in meanings(figure)]


def test_no_abbreviation_of_an_operator_is_its_explanation() -> None:
    figure = xg.compile(shipped("legend")).figure("forward", legend=True)
    assert boxes(figure)["C"] == "concatenation"


def test_one_value_without_a_label_is_explained() -> None:
    forward = xg.compile(shipped("moe"), "Experts").figure("forward", legend=True)
    assert list(explained(forward)) == ["matmul_2"]
    assert not explained(xg.compile(shipped("attention")).figure("forward"))
    text = dot(forward)
    assert text.count("named after what gives it") == 1
    assert b"named after what gives it" in render(forward, "svg")
    layer = xg.compile(shipped("transformer"), "Layer").figure("backward", legend=True)
    assert "layer_norm_1" in explained(layer)  # which only a call reads


TURNED = """
dim B, S, D = 8

block F(X, K [B, S, D]) -> Y [B, S, S] {
    X -> •<=T(K) : Y
}
"""


def test_a_transpose_is_explained_by_what_it_is_the_transpose_of() -> None:
    program = xg.compile(source=TURNED)
    for view in ("forward", "backward"):
        found = explained(program.figure(view, legend=True))
        assert found["K^⊤"] == "transpose of K"
        assert not any("has no label" in words for words in found.values())


def test_a_broadcast_that_is_written_beside_a_bias_is_explained() -> None:
    """BC is a box only where it is a step of its own."""
    forward = xg.compile(shipped("mha")).figure("forward", legend=True)
    assert explained(forward) == {"BC_B,S": "broadcast: repeated along these axes"}
    assert boxes(xg.compile(shipped("embedding")).figure("forward", legend=True))["BC"]
    assert b"repeated along these axes" in render(forward, "svg")
    assert "repeated along these axes" in dot(forward)


def test_all_that_batch_norm_keeps_is_explained() -> None:
    figure = xg.compile(shipped("resnet"), "Conv").figure("backward", legend=True)
    assert {"center", "trained", "rstd"} <= set(explained(figure))


def test_a_value_of_the_file_is_not_taken_for_one_that_dropout_keeps() -> None:
    figure = xg.compile(source=OWN).figure("backward", legend=True)
    assert "keep" in [characters(n.label)[:4] for n in figure.nodes if n.kind is NodeKind.SAVED]
    assert "keep" not in explained(figure)


def test_what_a_rank_takes_of_its_own_is_explained() -> None:
    """In the figure of one rank it is no change of layout, and no reader knows the word."""
    figure = xg.compile(shipped("llama"), "GQA", "TP").figure("forward", legend=True)
    assert boxes(figure)["part"] == "a rank's part of what all hold"
    assert not any(one.words == "change of layout" for one in meanings(figure))
