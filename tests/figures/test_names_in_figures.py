"""Tests of names that must not mislead: of parts of sums, of calls, of one of several results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from library import shipped

import xg
from xg.figures.model.figure import EdgeRole, EdgeStyle, Figure, FigureEdge, NodeKind
from xg.figures.model.richtext import characters
from xg.figures.views import View

LIBRARY = Path(__file__).parents[2] / "diagrams"
TWICE = """
dim B, S, S_k, D = 64

block Weigh "Weigh" (Q [B, S, D], X [B, S_k, D]) -> Y [B, S, S_k] {
    param W [D, D], b [D] = zeros

    X -> •<=W -> ⊕<-BC[B, S_k](b) -> T : KT [B, D, S_k]
    Q -> •<=KT                         : Y [B, S, S_k]
}

block Twice (X [B, S, D]) -> Y [B, S, S] {
    X, X -> Weigh as first  : U
    X, X -> Weigh as second : V
    U -> ⊕<-V               : Y
}
"""
JOINED = """
dim B, S, D = 64, N_H = 4, D_h = D/N_H, D_r = 6

block Joined (A [B, S, D_h], R [B, S, D_r]) -> Y [B, S, D_h] {
    param W [2*D_h + D_r, D_h]

    A, R, A -> C -> T -> T -> •<=W : Y
}
"""


def drawn(name: str, view: View, block: str | None = None, depth: int | None = None) -> Figure:
    return xg.compile(LIBRARY / "examples" / f"{name}.xg", block).figure(view, depth=depth)


def drawn_notation(
    name: str, view: View, plan: str | None = None, block: str | None = None
) -> Figure:
    return xg.compile(LIBRARY / "notation" / f"{name}.xg", block, plan).figure(view)


def said(edge: FigureEdge) -> str:
    return characters(edge.label)


def test_only_the_sum_bears_the_name_of_a_gradient() -> None:
    figure = drawn("vae", "backward")
    labels = Counter(characters(edge.label) for edge in figure.edges)
    assert labels["dL [B, D]"] == labels["dKL"] == 1
    sources = [characters(node.label) for node in figure.nodes if node.kind is NodeKind.TENSOR]
    assert "dL [B, D] from outside, 0 if unused" in sources
    assert "dKL from outside" in sources


def test_a_call_in_the_backward_says_what_it_reads_and_gives() -> None:
    figure = drawn("vae", "backward")
    (decoder,) = (node for node in figure.nodes if characters(node.label) == "dDecoder")
    (given,) = (characters(line) for line in decoder.lines)
    assert given == "dW_decoder, db_decoder, dW_out, db_out"
    saved = {node.id: characters(node.label) for node in figure.nodes}
    assert "z [B, D_z]" in [saved[e.tail] for e in figure.edges if e.head == decoder.id]


def test_each_arrow_of_a_node_with_several_results_is_named() -> None:
    figure = drawn("moe", "forward", "Experts")
    labels = Counter(characters(edge.label).partition(" ")[0] for edge in figure.edges)
    assert labels["e"] == 2
    assert labels["slot"] == labels["g"] == 1


def test_a_gradient_beside_others_of_its_node_is_named_on_each_arrow() -> None:
    figure = xg.compile(LIBRARY / "models" / "encoder_decoder.xg", "Decoder").figure("backward")
    roles: dict[str, list[EdgeRole]] = {}
    for edge in figure.edges:
        roles.setdefault(characters(edge.label).partition(" ")[0], []).append(edge.role)
    for name in ("dadd_3", "dadd_2", "dadd"):
        assert roles[name] == [EdgeRole.MAIN, EdgeRole.RESIDUAL], roles


def test_opened_calls_have_their_names_and_the_sizes_of_the_caller() -> None:
    figure = xg.compile(source=TWICE, block="Twice").figure("overview", depth=1)
    assert [characters(group.label).strip() for group in figure.groups] == [
        "Weigh as first",
        "Weigh as second",
    ]
    labels = [characters(edge.label) for edge in figure.edges]
    labels += [characters(node.label) for node in figure.nodes]
    assert "KT_first [B, D, S]" in labels
    assert "BC_B,S(b_first [D])" in labels
    assert not [label for label in labels if "S_k" in label or "Sk" in label]
    back = [edge for edge in figure.edges if edge.style is EdgeStyle.DASHED]
    assert "dX [B, S, D]" not in [characters(edge.label) for edge in back]


def test_sizes_without_a_label_are_written_with_the_names_of_the_file() -> None:
    figure = xg.compile(source=JOINED).figure("forward")
    labels = [characters(edge.label) for edge in figure.edges]
    assert "[B, S, 2·D_h + D_r]" in labels
    assert "[B, 2·D_h + D_r, S]" in labels


def test_what_a_call_takes_keeps_the_name_that_the_caller_gives_it() -> None:
    figure = xg.compile(LIBRARY / "models" / "t5.xg", "DecoderLayer", plan="TP").figure("overview")
    first = figure.columns[0]
    inside = (edge for edge in first.edges if edge.tail != "X")  # where the caller's X has a lane
    symbols = Counter(characters(edge.label).partition(" ")[0] for edge in inside)
    assert symbols["X"] == 0  # what the attention calls X is H_1 here
    assert symbols["H_1"] == symbols["H_2"] == 2  # above its bar and under it
    assert symbols["dH_1"] == symbols["dH_1^(0)"] == 1


def test_what_has_no_name_outside_a_call_has_none_in_it() -> None:
    path = LIBRARY / "models" / "transformer.xg"
    figure = xg.compile(path, "Layer", plan="TP").figure("overview")
    inside = (edge for edge in figure.columns[0].edges if edge.tail != "X")
    symbols = {characters(edge.label).partition(" ")[0] for edge in inside}
    assert symbols & {"X", "dX^(0)"} == set()


def test_an_output_that_passes_no_gradient_on_has_none() -> None:
    """Counts of dropped tokens: an arrow from their gradient would lead nowhere."""
    figure = drawn("moe", "backward", "Experts")
    names = [characters(node.label) for node in figure.nodes if node.kind is NodeKind.TENSOR]
    assert "dbalance" in names
    assert "ddropped" not in names


def test_each_term_of_a_gradient_says_which_it_is() -> None:
    figure = drawn_notation("mha", "backward")
    terms = [said(edge) for edge in figure.edges if "of 3" in said(edge)]
    assert sorted(terms) == [f"dH [B, S, D], {one} of 3" for one in ("1 + 2", "1", "2", "3")]
    assert [said(e) for e in figure.edges if e.tail.startswith("dLN") and said(e)] == [
        "dX [B, S, D], less dY"
    ]
    partial = drawn_notation("mha", "backward", "TP")
    assert "dH_i [B, S, D] partial, 3 of 3" in map(said, partial.edges)


def test_a_term_that_is_the_gradient_of_another_tensor_keeps_its_name() -> None:
    source = """
dim B, D
block Sums (X [B, D], Y [B, D]) -> Z [B, D] {
    X -> ⊕<-Y       : M [B, D]
    M -> GELU       : G [B, D]
    M -> ⊕<-G       : N [B, D]
    X -> GELU -> ⊕<-N : Z
}
"""
    labels = [said(edge) for edge in xg.compile(source=source).figure("backward").edges]
    assert "dM [B, D], less dZ" in labels
    assert [one for one in labels if one.startswith("dX")] == ["dX [B, D], less dM"]
    assert "dM [B, D]" in labels


def test_only_terms_of_one_gradient_are_counted() -> None:
    """Of those of dX that have no other name there are two; that of the residual is dY."""
    source = """
dim B, D
block Sums (X [B, D]) -> Y [B, D], Z [B, D] {
    X -> GELU -> ⊕<-X : Y
    X -> ReLU         : Z
}
"""
    edges = xg.compile(source=source).figure("backward").edges
    terms = sorted(said(edge) for edge in edges if said(edge).startswith("dX"))
    assert terms == ["dX [B, D], 1 of 2", "dX [B, D], 2 of 2", "dX [B, D], dY + 1 of 2"]


def test_a_reshape_has_the_name_at_both_sides() -> None:
    """The shape says which: Q [B, S, D], which R makes Q [B, N_H, S, D_h]."""
    forward = Counter(map(said, drawn_notation("mha", "forward").edges))
    assert forward["Q [B, S, D]"] == forward["Q [B, N_H, S, D_h]"] == 1
    backward = Counter(map(said, drawn_notation("mha", "backward").edges))
    assert backward["dQ [B, N_H, S, D_h]"] == backward["dQ [B·S, D]"] == 1
    assert backward["dQ [B, S, D]"] == 2  # into the product and into the sum of db


def test_nothing_in_front_of_a_transpose_is_called_one() -> None:
    path = LIBRARY / "models" / "whisper.xg"
    labels = [said(e) for e in xg.compile(path, "Attention").figure("forward").edges]
    assert [one for one in labels if one.startswith("KT")] == ["KT [B, N_H, D_h, S_k]"]


def test_what_is_put_together_of_parts_has_their_name() -> None:
    """A rank has a part of the sequence; attention reads all of it."""
    labels = [said(e) for e in drawn_notation("node_i", "forward", block="MLP_sp").edges]
    assert {"H [B, S/N_T, D]", "H [B, S, D]"} <= set(labels)


def test_calls_of_one_title_in_several_blocks_have_their_names() -> None:
    """An overview opens the encoder and the decoder: there are three kinds of attention."""
    path = LIBRARY / "models" / "encoder_decoder.xg"
    figure = xg.compile(path, "Transformer").figure("overview")
    boxes = [n for n in figure.nodes if characters(n.label).startswith("Multi-Head")]
    assert [characters(box.detail) for box in boxes] == [
        "as self_attn",
        "as self_attn",
        "as cross_attn",
    ]


def test_a_saved_tensor_says_that_it_is_saved() -> None:
    nodes = drawn_notation("flow", "backward").nodes
    titles = [one.title for one in nodes if one.kind is NodeKind.SAVED]
    assert "A [B, S, D], saved in the forward pass" in titles


def test_a_rank_says_of_how_many_it_is() -> None:
    figure = drawn_notation("mha", "forward", "TP")
    assert figure.subtitle == "forward pass (Node i of 2 GPUs), tensor parallel"


@pytest.mark.parametrize(
    ("plan", "subtitle"),
    [("PP", "overall flow, pipeline"), ("Checkpoints", "overall flow, layers computed again")],
)
def test_an_overview_of_a_plan_that_has_no_columns_names_the_plan(plan: str, subtitle: str) -> None:
    assert xg.compile(shipped("transformer"), plan=plan).figure("overview").subtitle == subtitle


def test_many_tensors_of_which_a_gradient_has_terms_are_named_by_the_ends() -> None:
    """A label that named them all would grow with the block."""
    steps = "".join(f"-> ⊕<-X : H_{n} [B] -> tanh : G_{n} [B]\n" for n in range(5))
    source = f"dim B\nblock Net(X [B]) -> Y [B] {{\n X -> tanh : G [B]\n{steps} -> tanh : Y\n}}\n"
    labels = [said(edge) for edge in xg.compile(source=source).figure("backward").edges]
    terms = [one.removeprefix("dX [B], ") for one in labels if one.startswith("dX")]
    assert terms == [
        "dH_4 + dH_3",
        "dH_4 + dH_3 + dH_2",
        "dH_4 + … + dH_1",
        "dH_4 + … + dH_0",
        "less dH_4 + … + dH_0",
    ]
