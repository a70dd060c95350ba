"""`xg diff`: two plans, or two files, as text, data and a figure."""

import json
from pathlib import Path

import pytest
from cli.conftest import Xg

NET = """\
dim B, D = 8
mesh N_T = 2
block Net(X [B, D]) -> Y [B, D] {
    param W [D, 4*D], V [4*D, D]
    X -> •<=W -> ReLU : U
      -> •<=V         : Y
}
plan TP of Net {
    W [D, 4*D/N_T]
    V [4*D/N_T, D]
}
"""


@pytest.fixture
def net(folder: Path) -> Path:
    (folder / "net.xg").write_text(NET, encoding="utf-8")
    newer = NET.replace("ReLU : U", "GELU : U")
    (folder / "newer.xg").write_text(newer, encoding="utf-8")
    return folder


def test_exit_code_tells_whether_anything_differs(xg: Xg, net: Path) -> None:
    assert xg("diff", "net.xg", "newer.xg").code == 0
    assert xg("diff", "net.xg", "newer.xg", "--exit-code").code == 1
    assert xg("diff", "net.xg", "net.xg", "--exit-code").code == 0


def test_a_plan_against_one_device(xg: Xg, net: Path) -> None:
    said = xg("diff", "net.xg", "--plan", "TP", "--set", "B=3")
    lines = [line.split() for line in said.out.splitlines()]
    assert said.out.startswith("Net: TP against one device\n")
    assert ["~", "·", "W", "[D,", "4*D]", "[D,", "4*D/N_T]"] in lines
    assert "[B, D], a term over N_T" in said.out
    assert ["parameters", "512", "256", "-256"] in lines
    assert ["sent", "ring", "0", "48", "+48"] in lines  # twice 2 * 1/2 * 3 * 8
    assert "+  forward   AR over N_T  Net  Y   line 6  2*(N_T - 1)/N_T*B*D" in said.out


def test_two_plans_the_other_way_round(xg: Xg, net: Path) -> None:
    said = xg("diff", "net.xg", "--against", "TP")
    assert said.out.startswith("Net: one device against TP\n")
    assert "-  forward   AR over N_T" in said.out


def test_two_files(xg: Xg, net: Path) -> None:
    said = xg("diff", "net.xg", "newer.xg")
    assert said.out.startswith("Net: newer.xg against net.xg\n")
    assert "made by GELU, was ReLU" in said.out
    assert "backward FLOPs: 8*B*D + 32*B*D^2 -> " in said.out
    assert "saved bytes: 36*B*D, as before" in said.out
    spelled = xg("diff", "net.xg", "--plan", "TP").out
    assert "sent ring: 0 -> 2*(N_T - 1)/N_T*2*B*D\n" in spelled
    planned = xg("diff", "net.xg", "newer.xg", "--plan", "TP").out
    assert planned.startswith("Net: newer.xg under TP against net.xg under TP\n")
    assert "collectives" not in planned


def test_an_edge_without_a_label_has_its_name_in_figures_and_code(xg: Xg, net: Path) -> None:
    words = [(net / "net.xg", "ReLU -> GELU"), (net / "newer.xg", "SiLU -> GELU")]
    for path, chain in words:
        path.write_text(NET.replace("ReLU", chain), encoding="utf-8")
    assert "silu_1 = silu(matmul)  #" in xg("show", "newer.xg", "--as", "numpy").out
    said = [line.split() for line in xg("diff", "net.xg", "newer.xg").out.splitlines()]
    changed = ["~", "·", "silu_1", *["[B,", "4*D]"] * 2, "made", "by", "SiLU,", "was", "ReLU"]
    assert changed in said
    data = json.loads(xg("diff", "net.xg", "newer.xg", "--json").out)
    assert [each["edge"] for each in data["edges"]] == ["silu_1"]


def test_one_device_sends_nothing(xg: Xg, net: Path) -> None:
    said = xg("diff", "net.xg", "newer.xg").out
    assert "edges of the forward pass\n" in said
    assert "cost, bytes of float32\n" in said
    assert all(word not in said for word in ("sent", "ring", "rank"))


def test_the_same_file_twice(xg: Xg, net: Path) -> None:
    said = xg("diff", "net.xg", "-", stdin=NET.encode())
    assert said.code == 0
    assert said.out.startswith("Net: standard input against net.xg\nno edge and no collective")


def test_as_data(xg: Xg, net: Path) -> None:
    found = json.loads(xg("diff", "net.xg", "--plan", "TP", "--json", "--set", "B=3").out)
    assert (found["before"], found["after"]) == ("one device", "TP")
    w = next(each for each in found["edges"] if each["edge"] == "W")
    lies: dict[str, object] = {"shape": "[D, 4*D/N_T]", "term_over": [], "made_by": "param"}
    start: dict[str, object] = {"from": [], "arguments": {"start": "D^(-0.5)"}, "formula": None}
    assert w["after"] == {**lies, **start}
    assert [each["of"] for each in found["collectives"]] == ["Y", "dX"]
    assert found["cost"]["parameters"]["before"] == {"formula": "8*D^2", "number": 512}


CHANGES = {  # what a version writes otherwise: the edge that differs, and what is said of it
    ("ReLU : U\n      -> •<=V", "ReLU : U\n    X -> •<=V"): ("Y", "from X and V, was U and V"),
    ("Sq : S", "Sq -> scale(3) : S"): ("S", "made by scale, was Sq"),
    ("max(x, 0)", "min(x, 0)"): ("S", "Sq computes something else"),
    ("scale(2)", "scale(3)"): ("T", "c 3, was 2"),
    ("eps=1e-5", "eps=1e-6"): ("Z", "eps 1e-06, was 1e-05"),
    ("SM(0.5, causal)", "SM(0.5)"): ("P", "mask none, was causal"),
    ("β [D] = zeros", "β [D] = ones"): ("b", "start ones, was zeros"),
    ("Y -> Sq", "U_2 -> Sq"): ("S", "from U_2, was Y"),
    ("2 × Part as parts", "3 × Part as parts"): ("R", "count 3, was 2"),
    ("next h = o", "next h = k"): ("h", "goes on as k, was o"),
    ("Cell over S :", "Cell over S reversed :"): ("E", "reversed True, was left out"),
}
EVERYTHING = """\
dim S, D = 8
op Sq(x) = max(x, 0)
block Part(a [S, D]) -> r [S, D] { a -> tanh : r }
block Cell(i [D]) -> o [D] {
    state h [D]
    i -> tanh : k
    h -> ⊕<-k : o
    next h = o
}
block Net(X [S, D]) -> P [S, S], Z, R, E [S, D] {
    param W, V [D, D], b, γ, β [D] = zeros
    X -> •<=W -> ReLU : U
      -> •<=V         : Y
    X -> tanh : U_2
    Y -> Sq : S
    S -> scale(2) : T
    T -> ⊕<-BC(b) -> ⊕<-U_2 -> LN(γ, β, eps=1e-5) : Z
    Z -> •<=T(Z) -> SM(0.5, causal) : P
    Z -> 2 × Part as parts : R
    X -> Cell over S : E
}
"""


@pytest.mark.parametrize("change", CHANGES, ids=" to ".join)
def test_an_edge_that_is_made_otherwise(change: tuple[str, str], xg: Xg, folder: Path) -> None:
    """By the same operator: of other operands, with other arguments, by another formula."""
    newer = EVERYTHING.replace(*change)
    assert newer != EVERYTHING
    (folder / "a.xg").write_text(EVERYTHING, encoding="utf-8")
    (folder / "b.xg").write_text(newer, encoding="utf-8")
    assert "no edge and no collective differs" in xg("diff", "a.xg", "a.xg").out
    said = xg("diff", "a.xg", "b.xg", "-o", "d.svg")
    assert said.code == 0, said.err
    assert "no edge" not in said.out
    edge, told = CHANGES[change]
    row = next(line for line in said.out.splitlines() if line.endswith(told))
    assert f" {edge} " in row
    assert ">changed<" in (folder / "d.svg").read_text(encoding="utf-8")
    data = json.loads(xg("diff", "a.xg", "b.xg", "--json").out)
    (found,) = (one for one in data["edges"] if (one["pass"], one["edge"]) == ("forward", edge))
    assert found["before"] != found["after"]


@pytest.mark.parametrize("name", ["d.svg", "d.png", "d.pdf", "d.tex", "d.dot"])
def test_a_figure(xg: Xg, net: Path, name: str) -> None:
    said = xg("diff", "net.xg", "newer.xg", "-o", name)
    assert said.code == 0
    data = (net / name).read_bytes()
    starts = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF", "tex": b"% Dr", "dot": b"digr"}
    first = starts[name[2:]]
    assert first in data[:200]


def test_a_figure_of_a_plan(xg: Xg, net: Path) -> None:
    assert xg("diff", "net.xg", "--plan", "TP", "-o", "d.svg").code == 0
    drawn = (net / "d.svg").read_text(encoding="utf-8")
    boxes = drawn.count('stroke-width="1.9"')
    # Two double arrows, the edges behind them, the AR and what it gives, a key with two signs.
    assert boxes == 2 * 2 + 3 + 2 + 2


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["net.xg"], 2, "xg diff: name what to compare with: a second file, or --plan NAME"),
        (["-", "-"], 2, "xg diff: standard input can be one of the two files, not both"),
        (
            ["net.xg", "--plan", "TP", "-o", "d.gif"],
            2,
            "xg diff: -o draws .svg, .png, .pdf, .tex, .dot",
        ),
        (["net.xg", "--plan", "XP"], 1, "error[XG0236]: no plan is called XP"),
        (["net.xg", "none.xg"], 5, "error[XG0601]: cannot read none.xg"),
        (["net.xg", "wrong.xg"], 1, "error[XG0301]: matmul contracts D with E"),
    ],
)
def test_what_cannot_be_compared(xg: Xg, net: Path, words: list[str], code: int, told: str) -> None:
    said = xg("diff", *words)
    assert said.code == code
    assert told in said.err
