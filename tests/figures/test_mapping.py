"""From programs to figures: the seed's notation holds in every view."""

from collections import Counter
from pathlib import Path

import pytest
from figures.layout_checks import overlaps, struck

import xg
from xg.figures.layout.run_engine import layout
from xg.figures.model.figure import EdgeRole, EdgeStyle, Figure, NodeKind
from xg.figures.model.richtext import characters
from xg.figures.views import View, figure

SOURCE = """\
dim B, S, V = 32, D = 64, D_ff = 4*D, N_H = 4, D_h = D/N_H, N_L = 3

block MHA "Multi-Head Attention" (X [B, S, D]; p = 0.1) -> Y [B, S, D] {
    param γ [D] = ones, β [D] = zeros
    param W_Q, W_K, W_V, W_O [D, D]
    param b_Q, b_K, b_V, b_O [D] = zeros

    X -> LN(γ, β)                        : H  [B, S, D]
    H -> •<=W_Q -> ⊕<-BC(b_Q) -> R       : Q  [B, N_H, S, D_h]
    H -> •<=W_K -> ⊕<-BC(b_K) -> R       : K  [B, N_H, S, D_h]
      -> T                               : KT [B, N_H, D_h, S]
    H -> •<=W_V -> ⊕<-BC(b_V) -> R       : V  [B, N_H, S, D_h]

    Q -> •<=KT                           : A  [B, N_H, S, S]
      -> SM(1/sqrt(D_h), causal)         : Z  [B, N_H, S, S]
      -> S                               : P  [B, N_H, S, S]
      -> DO(p)                           : AS [B, N_H, S, S]
      -> •<=V                            : O  [B, N_H, S, D_h]
      -> R                               : [B, S, D]
      -> •<=W_O -> ⊕<-BC(b_O)            : A_out [B, S, D]
      -> DO(p) -> ⊕<-X                   : Y
}

block GatedMLP(X [B, S, D]) -> Y [B, S, D] {
    param W_gate, W_up [D, D_ff], W_down [D_ff, D]

    X -> •<=W_gate -> SwiGLU<-(X -> •<=W_up) : U [B, S, D_ff]
      -> •<=W_down                           : Y
}

block Layer(X [B, S, D]) -> Y [B, S, D] {
    X -> MHA as attn                     : M [B, S, D]
    M -> GatedMLP as ffn -> ⊕<-M         : Y
}

block LM "Language Model" (ids [B, S] in V, t [B, S] in V) -> Z [B, S, V], loss [] {
    param E [V, D]

    ids -> Emb(E) -> N_L × Layer as layers : Y [B, S, D]
      -> •<=T(E)                           : Z
      -> CE<-t                             : loss
}
"""
EDGES = """\
dim B, D = 4
block Kept(X [B, D]) -> Y [B, D], g [D], Z [B, D] {
    param γ [D]

    X -> LN(γ) : Y
    γ          : g
    X          : Z
}
block Scalar(X [B, D]) -> y [] {
    X -> sum[B, D] -> tanh -> tanh -> SiLU : y
}
"""
BLOCKS = ("MHA", "GatedMLP", "Layer", "LM")
VIEWS: tuple[View, ...] = ("forward", "backward", "overview")
CASES = [(block, view) for block in BLOCKS for view in VIEWS]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("figures") / "blocks.xg"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def drawn(source: Path, block: str, view: View) -> Figure:
    return figure(xg.compile(source, block=block).graphs, view)


def entering(found: Figure, node: str) -> list[EdgeStyle]:
    styles = [edge.style for edge in found.edges if edge.head == node]
    return sorted((one for one in styles if one is not EdgeStyle.DASHED), key=lambda s: s.value)


@pytest.mark.parametrize(("block", "view"), CASES)
def test_the_notation_holds(source: Path, block: str, view: View) -> None:
    found = drawn(source, block, view)
    ids = Counter(node.id for node in found.nodes)
    assert max(ids.values()) == 1
    for node in found.nodes:
        if node.kind is NodeKind.MATMUL:
            assert entering(found, node.id) == [EdgeStyle.SINGLE, EdgeStyle.DOUBLE]
        if node.kind is NodeKind.ADD:
            assert len(entering(found, node.id)) == 2
    dashed = any(edge.style is EdgeStyle.DASHED for edge in found.edges)
    assert dashed is (view == "overview")
    solid = (edge for edge in found.edges if edge.style is not EdgeStyle.DASHED)
    continued = Counter(edge.tail for edge in solid if edge.role is EdgeRole.MAIN)
    assert max(continued.values()) == 1


@pytest.mark.parametrize(("block", "view"), CASES)
def test_nothing_overlaps(source: Path, block: str, view: View) -> None:
    placed = layout(drawn(source, block, view))
    assert overlaps(placed) == []
    assert struck(placed) == []


def labels(found: Figure) -> set[str]:
    edges = {characters(edge.label) for edge in found.edges if edge.label}
    return edges | {characters(n.label) for n in found.nodes if n.kind is NodeKind.TENSOR}


def test_mha_forward_is_the_seeds(source: Path) -> None:
    found = drawn(source, "MHA", "forward")
    assert {"X [B, S, D]", "H [B, S, D]", "Q [B, N_H, S, D_h]", "K^⊤ [B, N_H, D_h, S]",
            "A [B, N_H, S, S]", "AS [B, N_H, S, S]", "A_out [B, S, D]", "Y [B, S, D]",
            "W_Q [D, D]", "BC_B,S(b_O [D])"} <= labels(found)  # fmt: skip
    glyphs = Counter(characters(n.label) for n in found.nodes if n.kind is NodeKind.NONLINEAR)
    assert glyphs == {"LN": 1, "SM": 1, "S": 1, "DO(0.1)": 2}
    assert [characters(n.detail) for n in found.nodes if characters(n.label) == "SM"] == [
        "1/√D_h, causal"
    ]
    spine = ["X"]
    below = {edge.tail: edge.head for edge in found.edges if edge.role is EdgeRole.MAIN}
    while spine[-1] in below:
        spine.append(below[spine[-1]])
    assert spine[-1] == "Y~2"
    assert {"H", "Q", "A", "Z", "P", "AS", "O", "A_out"} <= set(spine)
    assert [group.label[-1].sub for group in found.groups] == ["H"]
    assert {"A", "Z", "P", "AS", "O"} == set(found.groups[0].nodes)
    (residual,) = (edge for edge in found.edges if edge.role is EdgeRole.RESIDUAL)
    assert (residual.tail, characters(residual.label)) == ("X", "X [B, S, D]")


def test_mha_backward_has_every_gradient(source: Path) -> None:
    found = drawn(source, "MHA", "backward")
    weights = {f"dW_{letter} [D, D]" for letter in "QKVO"}
    biases = {f"db_{letter} [D]" for letter in "QKVO"}
    assert weights | biases | {"dγ [D]", "dβ [D]", "dX [B, S, D]", "dY [B, S, D]"} <= labels(found)
    assert {"dK^⊤ [B, N_H, D_h, S]", "dAS [B, N_H, S, S]", "dZ [B, N_H, S, S]"} <= labels(found)
    kept = {characters(n.label) for n in found.nodes if n.kind is NodeKind.SAVED}
    assert {"P [B, N_H, S, S]", "K [B, N_H, S, D_h]", "V^⊤ [B, N_H, D_h, S]"} <= kept
    assert "X [B, S, D], γ [D], mean, rstd [B, S, 1]" in kept


def test_the_gradient_is_the_double_edge_of_a_weights_product(source: Path) -> None:
    found = drawn(source, "MHA", "backward")
    product = next(edge.tail for edge in found.edges if edge.head == "dW_O")
    double = next(e for e in found.edges if e.head == product and e.style is EdgeStyle.DOUBLE)
    single = next(e for e in found.edges if e.head == product and e.style is EdgeStyle.SINGLE)
    assert double.tail == "dDO dA_out"
    kinds = {node.id: node.kind for node in found.nodes}
    assert kinds[single.tail] is NodeKind.SAVED


def test_a_repeated_block_is_one_box(source: Path) -> None:
    found = drawn(source, "LM", "forward")
    (box,) = (node for node in found.nodes if node.kind is NodeKind.BLOCK)
    assert (characters(box.label), characters(box.detail)) == ("Layer", "× N_L")
    back = drawn(source, "LM", "backward")
    (box,) = (node for node in back.nodes if node.kind is NodeKind.BLOCK)
    assert (characters(box.label), characters(box.detail)) == ("dLayer", "× N_L")


def test_the_overview_opens_the_repeated_block(source: Path) -> None:
    found = drawn(source, "LM", "overview")
    blocks = [characters(n.label) for n in found.nodes if n.kind is NodeKind.BLOCK]
    assert blocks == ["Multi-Head Attention, causal", "GatedMLP"]
    (group,) = found.groups
    assert characters(group.label) == "Layer × N_L"
    dashed = [edge for edge in found.edges if edge.style is EdgeStyle.DASHED]
    assert not any(edge.head == "ids" for edge in dashed)  # integers have no gradient
    assert any(edge.tail == "loss~2" for edge in dashed)


def test_an_overview_opens_one_block_at_two_calls(tmp_path: Path) -> None:
    path = tmp_path / "twice.xg"
    block = SOURCE.partition("block LM")[0]
    body = "X -> N_L × Layer as a -> N_L × Layer as b : Y"
    net = f"block Net(X [B, S, D]) -> Y [B, S, D] {{\n    {body}\n}}\n"
    path.write_text(block + net, encoding="utf-8")
    found = drawn(path, "Net", "overview")
    assert [group.id for group in found.groups] == ["a", "b"]
    solid = {(e.tail, e.head) for e in found.edges if e.style is not EdgeStyle.DASHED}
    assert {("X", "attn"), ("attn", "ffn"), ("Y", "attn~2"), ("Y~2", "Y~3")} <= solid
    assert overlaps(layout(found)) == []


def test_a_tied_table_is_drawn_at_both_uses(source: Path) -> None:
    found = drawn(source, "LM", "forward")
    assert "E [V, D]" in {characters(n.detail) for n in found.nodes}
    assert "E^⊤ [D, V]" in labels(found)


def test_a_description_says_what_goes_in_and_out(source: Path) -> None:
    found = drawn(source, "GatedMLP", "forward")
    assert found.description == "Computes Y [B, S, D] from X [B, S, D] in 4 steps."
    assert (found.title, found.subtitle) == ("GatedMLP", "forward pass")


@pytest.mark.parametrize("view", ["forward", "backward"])
@pytest.mark.parametrize("block", ["Kept", "Scalar"])
def test_what_leaves_as_it_is_and_what_has_neither_name_nor_shape(
    tmp_path: Path, block: str, view: View
) -> None:
    path = tmp_path / "edges.xg"
    path.write_text(EDGES, encoding="utf-8")
    placed = layout(drawn(path, block, view))
    assert "" not in placed.nodes
    assert len(placed.nodes) == len(placed.figure.nodes)
