"""Plans that random search has found to end in no answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fuzz.plans import differs
from verify.proof.daily import proof_of

import xg
from xg.frontend.project import read_project
from xg.verify.plan_proof import prove_ranks

NET = """\
dim B, D = 8
mesh N_D = 2, N_T = 2
block Net(X [B, D, D]) -> Y [B, D, D] {
    X -> tanh : H [B, D, D]
      -> tanh : Y
}
"""


@pytest.mark.parametrize(
    ("lines", "refused", "instead"),
    [
        (
            ("X [B, D/N_T, D/N_D]", "H [B, D/(N_D*N_T), D]"),
            "H is cut along D by N_T: N_D cannot cut it too",
            "H [B, D/N_T, D/N_D]",
        ),
        (
            ("X [B, D, D/(N_D*N_T)]", "H [B, D/N_D, D/N_T]"),
            "H is cut along D by N_T: N_D cannot join it too",
            "H [B, D, D/(N_D*N_T)]",
        ),
    ],
)
def test_what_is_cut_already_cannot_be_cut_from_outside(
    lines: tuple[str, str], refused: str, instead: str
) -> None:
    def compiled(*own: str) -> None:
        text = NET + "plan P of Net {\n    " + "\n    ".join(own) + "\n}\n"
        assert xg.compile(source=text, plan="P").source()

    with pytest.raises(xg.DiagnosticError, match=re.escape(refused)) as found:
        compiled(*lines)
    assert f"keep it as computed: {instead}" in str(found.value)
    compiled(lines[0], instead)


def test_a_plan_may_cut_nothing(tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(NET + "plan P of Net {\n    X [B, D, D]\n}\n", "utf-8")
    program = xg.compile(tmp_path / "net.xg", plan="P")
    assert not program.graphs.mesh
    assert "def forward" in program.source()


MLP = """\
dim B, S, D = 8, D_ff = 16
mesh N_T = 2
block MLP(X [B, S, D]) -> Y [B, S, D] {
    param W_up [D, D_ff], W_down [D_ff, D]

    X -> •<=W_up -> tanh : U [B, S, D_ff] -> •<=W_down : Y
}
plan P of MLP {
"""


@pytest.mark.parametrize(
    ("wrong", "advised"),
    [
        ("W_up [D, D_ff/N_T]\nW_down [D_ff, D/N_T]\n", ["U [B, S, D_ff]"]),
        (
            "X [B, S/N_T, D]\nW_up [D, D_ff/N_T]\n",
            ["X [B, S, D]", "W_up [D, D_ff/N_T] -> [D, D_ff]"],
        ),
    ],
)
def test_what_the_message_advises_helps(tmp_path: Path, wrong: str, advised: list[str]) -> None:
    path = tmp_path / "mlp.xg"
    path.write_text(f"{MLP}{wrong}}}\n", encoding="utf-8")
    with pytest.raises(xg.DiagnosticError) as refused:
        xg.compile(path, plan="P")
    told = [each.split(": ")[1].split(" (")[0] for each in refused.value.diagnostics[0].help]
    assert told == advised
    for line in advised:
        name = line.split()[0]
        kept = "".join(f"{each}\n" for each in wrong.splitlines() if each.split()[0] != name)
        path.write_text(f"{MLP}{kept}{line}\n}}\n", encoding="utf-8")
        assert xg.compile(path, plan="P").distributed


def test_parts_with_an_axis_of_their_own_are_cut_without_sending(tmp_path: Path) -> None:
    """The advice of the error about a fused gate works: no collectives but those of any MLP."""
    text = """\
dim B, S, D = 8, D_ff = 16, N = 2
mesh N_T = 2
block Gated(X [B, S, D]) -> Y [B, S, D] {
    param W [N, D, D_ff], W_down [D_ff, D]
    W -> pick[N](0) : G [D, D_ff]
    W -> pick[N](1) : U [D, D_ff]
    X -> •<=G -> SwiGLU<-(X -> •<=U) -> •<=W_down : Y
}
plan TP of Gated {
    W      [N, D, D_ff/N_T]
    W_down [D_ff/N_T, D]
}
"""
    (tmp_path / "gated.xg").write_text(text, encoding="utf-8")
    sent = xg.compile(tmp_path / "gated.xg", plan="TP").cost().sent
    assert [(each.direction, each.kind) for each in sent] == [
        ("forward", "all_reduce"),
        ("backward", "all_reduce"),
    ]


def test_what_one_use_gathers_another_takes_in_parts(tmp_path: Path) -> None:
    """H goes into a product, whole, and past it to a sum of parts: nothing is summed whole."""
    text = """\
dim B, S = 4, D = 8, D_ff = 16
mesh N_T = 2
block Layer(X [B, S, D]) -> Y [B, S, D] {
    param W_up [D, D_ff], W_down [D_ff, D]
    X -> tanh : H [B, S, D] -> •<=W_up -> tanh -> •<=W_down -> ⊕<-H : Y
}
plan SP of Layer {
    X, Y   [B, S/N_T, D]
    H      [B, S, D]
    W_up   [D, D_ff/N_T]
    W_down [D_ff/N_T, D]
}
"""
    (tmp_path / "layer.xg").write_text(text, encoding="utf-8")
    sent = xg.compile(tmp_path / "layer.xg", plan="SP").cost().sent
    assert sorted((each.direction, each.kind) for each in sent) == [
        ("backward", "all_gather"),
        ("backward", "reduce_scatter"),
        ("forward", "all_gather"),
        ("forward", "reduce_scatter"),
    ]
    assert prove_ranks(read_project(tmp_path / "layer.xg"), "Layer", "SP", {}, seed=0).passed


PLANNED = {
    "a stretch of a split moves by itself": """\
dim B = 4, D = 3, K = 6
mesh N_T = 2
block Net(X [B, D]) -> R [B, D - 1], Y [B, K] {
    param W [1, K]
    X -> split : U [B, 1], R
    U -> •<=W : Y
}
plan P of Net {
    W [1, K/N_T]
}
""",
    "a loss of a partial sum needs the sum": """\
dim B = 4, D = 6
mesh N_T = 2
block Net(X [B, D], t [B, D]) -> loss [] {
    param W [D, D], V [D, D]
    X -> •<=W : Y [B, D]
    t -> •<=V : Z [B, D]
    Y -> MSE<-Z : loss
}
plan P of Net {
    X [B, D/N_T]
    t [B, D/N_T]
    W [D/N_T, D]
    V [D/N_T, D]
}
""",
    "an operator of the file takes its part of constants": """\
dim S = 4, V = 6
mesh N_T = 2
op Warp(x, y) = x + sin(y) * x
block Net() -> Y [S, V] {
    param b [V]
    sinusoid(S, V) -> Warp<-BC(b) : Y
}
plan P of Net {
    b [V/N_T]
}
""",
    "axes stay apart whose sizes are quotients": """\
dim H = 12, N_H = 3, D_h = H/N_H, K = 5
mesh N_T = 2
block Net(X [H, D_h, K]) -> Y [N_H, D_h, D_h, K] {
    X -> R[(a=N_H, b), c, d -> a, b, c, d] : Y
}
plan P of Net {
    Y [N_H, D_h, D_h/N_T, K]
}
""",
    "a loss on no mesh at all": """\
dim B = 3, K = 5
mesh N_T = 2
block Net(X [B, K], t [B] in K) -> loss [] {
    param W [K, K]
    X -> •<=W -> CE<-t : loss
}
plan P of Net {
    X [B, K]
}
""",
    # A row of equal numbers has a flat softmax, whatever they are: every gradient is zero.
    "gradients that are all zero may differ by rounding": """\
dim B = 6, D = 6, K = 5
mesh N_T = 3
block Net() -> Y [B, D, K] {
    param w [B], c []
    w -> SiLU -> BC[b -> b, d=D, k=K] -> ⊕<-BC(c) -> S : Y
}
plan P of Net {
    Y [B, D/N_T, K]
}
""",
}


@pytest.mark.parametrize("text", PLANNED.values(), ids=PLANNED)
def test_small_programs_that_failed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "net.xg"
    path.write_text(text, encoding="utf-8")
    assert not differs(xg.compile(path, plan="P"), seed=1)


def test_a_gathered_bias_may_be_cut_over_another_axis(tmp_path: Path) -> None:
    net = """\
dim B, D = 8, D_ff = 4*D
mesh N_D = 2, N_T = 2
block MLP(X [B, D]) -> Y [B, D] {
    param W_up [D, D_ff], b [D_ff], W_down [D_ff, D]

    X -> •<=W_up -> ⊕<-BC[B](b) -> tanh -> •<=W_down : Y
}
plan P of MLP {
    X      [B/N_D, D]
    *      [_/N_D, ..] -> [..]
    W_up   [D/N_D, D_ff/N_T] -> [D, D_ff/N_T]
    W_down [D_ff/(N_T*N_D), D] -> [D_ff/N_T, D]
}
"""
    (tmp_path / "net.xg").write_text(net, encoding="utf-8")
    proof = prove_ranks(read_project(tmp_path / "net.xg"), "MLP", "P", {}, 0)
    assert proof.passed


NAMED_ALIKE = """\
dim B, N = 3, H = 4
mesh N_D = 2
block F(x [N, H]) -> y [N, H] {
    param b [H]
    x -> ⊕<-BC(b) : y
}
block Around(v [N, H]) -> y [N, H] {
    v -> F -> tanh : y
}
block Net(V [B, H]) -> Y [B, H] {
    V -> Around -> F : Y
}
plan DP of Net {
    V [B/N_D, H]
}
"""


def test_a_call_says_which_size_is_cut_whatever_the_block_calls_it(tmp_path: Path) -> None:
    """N of F is B of its caller, also through Around: the 3 of the file is not its number."""
    (tmp_path / "net.xg").write_text(NAMED_ALIKE, encoding="utf-8")
    project = read_project(tmp_path / "net.xg")
    assert prove_ranks(project, "Net", "DP", {}, 0).passed
    free = NAMED_ALIKE.replace("N = 3", "N")
    (tmp_path / "free.xg").write_text(free, encoding="utf-8")
    project = read_project(tmp_path / "free.xg")
    assert prove_ranks(project, "Net", "DP", {"N": 3}, 0).passed
    same = NAMED_ALIKE.replace("V [B", "V [N").replace("Y [B", "Y [N")
    with pytest.raises(xg.DiagnosticError, match="N_D"):
        xg.compile(source=same, plan="DP")


REGATHER = """\
use LM, Layer, Attention, MLP from transformer
plan Regather of Attention { X, M again }
plan Regather of MLP { X again }
"""


@pytest.mark.parametrize("kernels", [False, True])
def test_inputs_that_are_gathered_again_are_proven(kernels: bool, tmp_path: Path) -> None:
    (tmp_path / "lean.xg").write_text(REGATHER, encoding="utf-8")
    project = read_project(tmp_path / "lean.xg")
    plan = "SP × Regather × Scores"
    assert proof_of(project, "LM", plan, {}, kernels=kernels, exact=not kernels).passed
