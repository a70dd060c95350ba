"""The boxes of a figure say with which arguments an operator is used, and which call a box is."""

from pathlib import Path

from library import shipped

import xg
from xg.figures.model.figure import Figure, NodeKind
from xg.figures.model.richtext import characters
from xg.figures.views import View

PROGRAM = """\
dim B, S, D, D_h

block Head(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D]

    X -> •<=W : Y
}

block Main(X [B, S, D], K [B, S, D_h]) -> Y [B, S, D], P [B, S, S], F [B, D] {
    param b [D] = zeros

    X -> Head as a : A [B, S, D]
      -> Head as b : C [B, S, D]
      -> a -> scale(-1) -> DO(0.25) -> GELU(exact) : Y
    K -> T -> T : L [B, S, D_h]
    L -> T : R [B, D_h, S]
    K -> •<=R -> SM(1/sqrt(D_h), causal) -> S : P
    X -> ⊕<-BC[B, S](b) -> pick[S](0) : F
}
"""


def drawn(text: str, tmp_path: Path, view: View) -> Figure:
    path = tmp_path / "arguments.xg"
    path.write_text(text, encoding="utf-8")
    return xg.compile(path, "Main").figure(view)


def boxes(figure: Figure) -> list[str]:
    quiet = NodeKind.TENSOR, NodeKind.SAVED
    lines = ((n.label, n.detail, *n.lines) for n in figure.nodes if n.kind not in quiet)
    return [" | ".join(characters(text) for text in some if text) for some in lines]


def test_arguments_are_drawn_and_defaults_are_not(tmp_path: Path) -> None:
    found = boxes(drawn(PROGRAM, tmp_path, "forward"))
    assert {"scale(−1)", "DO(0.25)", "GELU | exact", "SM | 1/√D_h, causal", "pick[S](0)"} <= {
        *found
    }
    assert "S" in found
    plain = PROGRAM.replace("GELU(exact)", "GELU").replace("SM(1/sqrt(D_h), causal)", "SM")
    assert {"GELU", "SM"} <= {*boxes(drawn(plain, tmp_path, "forward"))}


def test_calls_of_one_block_have_their_names(tmp_path: Path) -> None:
    found = [one for one in boxes(drawn(PROGRAM, tmp_path, "forward")) if one.startswith("Head")]
    assert found == ["Head | as a, shared", "Head | as b", "Head | as a, shared"]
    back = [one for one in boxes(drawn(PROGRAM, tmp_path, "backward")) if one.startswith("dHead")]
    assert [one.split(" | ")[1] for one in back] == ["as a, shared", "as b", "as a, shared"]
    alone = PROGRAM.replace("-> Head as b : C [B, S, D]\n      -> a ", "")
    assert "Head" in boxes(drawn(alone, tmp_path, "forward"))


def test_a_sum_says_over_which_axes(tmp_path: Path) -> None:
    assert "Σ B, S" in boxes(drawn(PROGRAM, tmp_path, "backward"))


def test_a_broadcast_says_along_which_axes() -> None:
    """In the backward pass too: that of a mean repeats."""
    assert "BC_B" in boxes(xg.compile(shipped("embedding")).figure("forward"))
    assert "BC_N_H/N_KV" in boxes(xg.compile(shipped("llama"), "GQA").figure("forward"))
    assert "BC_H/2,W/2" in boxes(xg.compile(shipped("convnet")).figure("backward"))


def test_what_a_rank_repeats_has_the_axes_of_its_sum() -> None:
    """A bias that is added to a rank's part goes along the axes of that part."""
    views: list[View] = ["forward", "overview"]
    for view in views:
        figure = xg.compile(shipped("mlp"), plan="DP").figure(view)
        nodes = figure.columns[0].nodes if figure.columns else figure.nodes
        labels = [characters(node.label) for node in nodes]
        assert [one.split("BC_")[1] for one in labels if "BC_" in one] == [
            "B/N_D,S(b_up [D_ff])",
            "B/N_D,S(b_down [D])",
        ]


def test_several_arguments_are_a_line_however_short(tmp_path: Path) -> None:
    text = """\
dim B, D

block Main(X [B, D]) -> Y [B, 3*D] {
    X, X, X -> C : Y
}
"""
    found = boxes(drawn(text, tmp_path, "backward"))
    assert {"slice | 0, D", "slice | D, 2·D", "slice | 2·D, 3·D"} <= {*found}


def test_a_convolution_with_zeros_at_both_ends_is_drawn(tmp_path: Path) -> None:
    """Kernels have its numbers: a stride is drawn where it is not 1."""
    text = """\
dim B, S, C, D

block Main(X [B, 2*S, C]) -> Y [B, S, D] {
    param K [3, C, D]

    X -> conv[-2](K, stride=2, pad=1) : Y
}
"""
    assert "conv[2·S] | K [3, C, D] | stride=2, pad=1" in boxes(drawn(text, tmp_path, "forward"))
    near = text.replace("stride=2, ", "").replace("[B, S, D]", "[B, 2*S, D]")
    assert "conv[2·S] | K [3, C, D] | pad=1" in boxes(drawn(near, tmp_path, "forward"))


def test_instances_of_one_block_have_their_names_too() -> None:
    """For other sizes or arguments a block is compiled again, but its title is the same."""
    program = xg.compile(shipped("resnet"), "Basic")
    for view in ("forward", "backward"):
        found = [one for one in boxes(program.figure(view)) if "Convolution" in one]
        assert sorted(one.split(" | ")[1] for one in found) == ["as conv_1", "as conv_2"]


def test_boxes_have_the_arguments_of_the_file(tmp_path: Path) -> None:
    """Those that may be missing by their names; windows of a pool are side by side without one."""
    text = """\
dim B, S, D

block Main(X [B, 4*S, D]) -> Y [B, S, D], Z [B, 2*S, D] {
    param K [3, 1, D], P [4*S, D]

    X -> maxpool[-2](2) -> maxpool[-2](3, stride=2, pad=1) : Y
    range(4*S) -> Emb(P)                                   : E
    X -> ⊕<-BC(E) -> conv[-2](K, causal, groups=D)
      -> meanpool[-2](2)                                   : Z
}
"""
    assert {
        "maxpool[4·S](2)",
        "maxpool[2·S] | 3, stride=2, pad=1",
        "range(4·S)",
        "conv[4·S] | K [3, 1, D] | causal, groups=D",
        "meanpool[4·S](2)",
    } <= {*boxes(drawn(text, tmp_path, "forward"))}
    assert "dconv | causal, groups=D" in boxes(drawn(text, tmp_path, "backward"))


def test_a_call_has_the_sizes_that_no_shape_shows() -> None:
    """C and D are read off what goes in and out; k of the kernel and the stride are not."""
    program = xg.compile(shipped("resnet"))
    assert {"Convolution and norm | as stem | k=7, s=2", "Stage | as stage_2 | N=N_2 − 1, s=2"} <= {
        *boxes(program.figure("forward"))
    }
    assert "dStage | as stage_2 | N=N_2 − 1, s=2 | gradients of 21 parameters" in boxes(
        program.figure("backward")
    )
    assert "MLP | D_ff=F_e" in boxes(
        xg.compile(shipped("whisper"), "EncoderLayer").figure("forward")
    )


def test_the_shape_of_what_a_broadcast_repeats_is_with_it() -> None:
    figure = xg.compile(shipped("mlp")).figure("forward")
    assert "BC_B,S(b_up [D_ff])" in [characters(node.label) for node in figure.nodes]


def test_equal_axes_are_all_named_and_one_of_several_by_its_place(tmp_path: Path) -> None:
    square = "dim B, H, C\nblock Square(X [B, H, H, C]) -> Y [B, H, H, C] {\n    X -> BN : Y\n}\n"
    (tmp_path / "square.xg").write_text(square, encoding="utf-8")
    assert "dBN[B, H, H]" in boxes(xg.compile(tmp_path / "square.xg").figure("backward"))
    source = PROGRAM.replace("P [B, S, S]", "P [B, S]").replace("-> S : P", "-> S -> mean[-1] : P")
    assert "mean[2nd S]" in boxes(drawn(source, tmp_path, "forward"))


def test_lowercase_sizes_are_set_as_sizes() -> None:
    (conv,) = (n for n in xg.compile(shipped("resnet"), "Conv").figure("forward").nodes
               if n.label and n.label[0].text == "conv")  # fmt: skip
    runs = [run for line in conv.lines for run in line]
    assert {run.text: run.italic for run in runs}["s"]
    assert {run.text: run.italic for run in runs}["k"]


def test_a_box_has_the_sizes_that_its_sisters_give() -> None:
    found = boxes(xg.compile(shipped("resnet"), "Bottleneck").figure("forward"))
    sizes = [one.split(" | ")[2] for one in found if one.startswith("Convolution")]
    assert sizes == ["k=1, s=1", "k, s", "k=1, s=1"]


def test_the_number_of_a_call_is_below_its_name_as_in_gradients() -> None:
    figure = xg.compile(shipped("resnet"), "Bottleneck").figure("backward")
    node = next(n for n in figure.nodes if characters(n.detail) == "as conv_3")
    assert (node.detail[-1].text, node.detail[-1].sub) == ("conv", "3")
    assert characters(node.lines[-1]).startswith("dK_conv_3")
