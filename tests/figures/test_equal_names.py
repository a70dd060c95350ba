"""Equal names of different things in one figure get the names of calls as indices."""

from __future__ import annotations

import pytest
from library import shipped

import xg
from xg.figures.model.figure import Figure, NodeKind
from xg.figures.model.richtext import characters
from xg.figures.views import View
from xg.figures.views.overview import Level

NESTED = """
dim B, D = 8, N = 2

block Inner (X [B, D]) -> Y [B, D] {
    param W [D, D]

    X -> •<=W : H [B, D]
      -> ReLU : Y
}

block Outer (X [B, D]) -> Y [B, D] {
    X -> Inner as low : H [B, D]
      -> Inner as high -> ⊕<-X : Y
}

block Main (X [B, D]) -> Y [B, D] {
    X -> Outer as first : H [B, D]
      -> Outer as second : Y
}
"""


def symbols(figure: Figure) -> set[str]:
    texts = [edge.label for edge in figure.edges]
    texts += [node.label for node in figure.nodes if node.kind is NodeKind.TENSOR]
    texts += [node.detail for node in figure.nodes]
    return {characters(text).partition(" [")[0] for text in texts}


def lines(figure: Figure) -> list[str]:
    return [characters(text) for node in figure.nodes for text in (node.detail, *node.lines)]


def test_values_and_parameters_of_two_opened_calls_have_the_names_of_these() -> None:
    figure = xg.compile(shipped("deepseek2")).figure("overview")
    found = symbols(figure)
    assert {"X_dense", "X_layers", "M_dense", "M_layers", "g_1,dense", "g_1,layers"} <= found
    assert not {"X", "M", "g_1"} & found
    assert {"g", "Y", "Z"} <= found


def test_the_tensor_that_a_row_of_calls_begins_with_keeps_its_name() -> None:
    found = symbols(xg.compile(shipped("gpt2")).figure("overview"))
    assert "X" in found
    assert "X_layers" not in found


def test_an_index_is_as_much_of_the_path_as_no_other_has() -> None:
    program = xg.compile(source=NESTED, block="Main").graphs
    level = Level.of(program, 2)
    first, second = program.main.calls
    assert level.indices["H"] == ""
    assert level.inside(first).indices["H"] == "first"
    low, high = program.graphs[first.callee].calls
    assert level.inside(first).inside(low).indices["H"] == "first,low"
    assert level.inside(second).inside(high).indices["W"] == "second,high"


def test_calls_of_one_title_in_different_blocks_have_their_names() -> None:
    figure = xg.compile(shipped("deepseek2")).figure("overview", depth=2)
    boxes = {characters(n.label): lines(figure) for n in figure.nodes if n.kind is NodeKind.BLOCK}
    assert "as shared" in boxes["MLP"]
    groups = [characters(group.label).strip() for group in figure.groups]
    assert "MLP" in groups  # its call is called mlp: that says nothing more
    decoder = lines(xg.compile(shipped("encoder_decoder"), "Transformer").figure("overview"))
    assert decoder.count("as self_attn") == 2


@pytest.mark.parametrize("view", ["overview", "backward"])
def test_a_count_that_is_a_sum_is_in_parentheses(view: View) -> None:
    figure = xg.compile(shipped("deepseek2")).figure(view)
    texts = [characters(group.label) for group in figure.groups] + lines(figure)
    assert any("× (N_L − N_dense)" in text for text in texts)
    assert any("× N_dense" in text for text in texts)


def test_a_box_counts_the_parameters_whose_gradients_calls_in_it_make() -> None:
    resnet = xg.compile(shipped("resnet"), "Down").figure("backward")
    assert "gradients of 9 parameters" in lines(resnet)
    layers = lines(xg.compile(shipped("deepseek2")).figure("backward"))
    assert "dg_1,dense, dg_2,dense, 11 more" in layers
