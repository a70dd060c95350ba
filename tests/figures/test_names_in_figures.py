"""Tests of names that must not mislead: of parts of sums, of calls, of one of several results."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import xg
from xg.figures.model.figure import EdgeRole, EdgeStyle, Figure, NodeKind
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
    for name in ("dY_1", "dH_2,1", "dH_1,1"):
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
    symbols = Counter(characters(edge.label).partition(" ")[0] for edge in first.edges)
    assert symbols["X"] == 0  # what the attention calls X is H_1 here
    assert symbols["H_1"] == symbols["H_2"] == 2  # above its bar and under it
    assert symbols["dH_1"] == symbols["dH_1^(0)"] == 1


def test_what_has_no_name_outside_a_call_has_none_in_it() -> None:
    path = LIBRARY / "models" / "transformer.xg"
    figure = xg.compile(path, "Layer", plan="TP").figure("overview")
    symbols = {characters(edge.label).partition(" ")[0] for edge in figure.columns[0].edges}
    assert symbols & {"X", "dX^(0)"} == set()


def test_an_output_that_passes_no_gradient_on_has_none() -> None:
    """Counts of dropped tokens: an arrow from their gradient would lead nowhere."""
    figure = drawn("moe", "backward", "Experts")
    names = [characters(node.label) for node in figure.nodes if node.kind is NodeKind.TENSOR]
    assert "dbalance" in names
    assert "ddropped" not in names
