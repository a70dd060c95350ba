"""Dims that a block declares without a size: inputs, a proof or `--set` decide."""

from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Xg

from xg_runtime import arrays

NET = """\
mesh N_D = 2
dim D = 4

block F(q [M, D], g [K, D]) -> y [M, K] {
    dim M, K

    q -> •<=T(g) : y
}

block G(x [D]) -> z [D] {
    x -> tanh : z
}

plan DP of F {
    q [M/N_D, D]
}
"""


@pytest.fixture
def net(folder: Path) -> Path:
    """A file whose first block has two dims of its own."""
    (folder / "net.xg").write_text(NET, encoding="utf-8")
    return folder


def test_a_proof_chooses_them(xg: Xg, net: Path) -> None:
    said = xg("verify", "net.xg", "--block", "F")
    assert said.code == 0
    assert "D = 2, K = 3, M = 5" in said.out
    said = xg("verify", "net.xg", "--block", "F", "--plan", "DP")
    assert (said.code, "1 parallel program: all proven" in said.out) == (0, True)


def test_a_page_of_numbers_chooses_them(xg: Xg, net: Path) -> None:
    assert xg("explain", "net.xg", "--block", "F", "--seed", "0", "-o", "f.html").code == 0


def test_set_decides(xg: Xg, net: Path) -> None:
    numbers = ["--set", "M=6", "--set", "K=7"]
    assert "K = 7, M = 6" in xg("cost", "net.xg", "--block", "F", *numbers).out
    assert "K = 7, M = 6" in xg("verify", "net.xg", *numbers).out  # G has neither
    assert "K = 7, M = 6" in xg("verify", "net.xg", "--plan", "DP", *numbers).out


def test_set_is_checked(xg: Xg, net: Path) -> None:
    assert "M = 0: it is at least 1" in xg("check", "net.xg", "--block", "F", "--set", "M=0").err
    assert "M may be a whole number" in xg("check", "net.xg", "--block", "F", "--set", "M=a").err
    assert "did you mean M?" in xg("cost", "net.xg", "--block", "F", "--set", "MM=2").err


def test_a_number_of_the_block_and_one_of_the_file_can_be_set(xg: Xg, folder: Path) -> None:
    text = "dim M = 4\nblock F(q [M, j]) -> y [M, j] {\n    dim M, j = 3\n    q -> tanh : y\n}\n"
    (folder / "own.xg").write_text(text, encoding="utf-8")
    assert "M = 5, j = 2" in xg("cost", "own.xg", "--set", "M=5", "--set", "j=2").out


def test_inputs_decide(xg: Xg, net: Path) -> None:
    arrays.write(net / "in.npz", {"q": np.ones((3, 4)), "g": np.ones((5, 4))})
    words = ["--block", "F", "--inputs", "in.npz", "-o", "out.npz"]
    assert xg("run", "net.xg", *words).code == 0
    assert arrays.read(net / "out.npz")["y"].shape == (3, 5)
    said = xg("run", "net.xg", *words, "--set", "M=4")
    assert (said.code, "q has shape [3, 4], expected [4, 4]" in said.err) == (1, True)


OTHERS = """\
dim B, D = 4

block G(X [B, D]; mask = none | causal) -> Y [B, M] {
    dim M = 3
    param W [D, M]

    X -> tanh if mask = causal -> •<=W : Y
}

block H(X [B, D]) -> Y [B, M] {
    dim M = 2

    X -> G(M=M) : Y
}

block I(X [B, D]) -> Y [B, D] {
    X -> tanh : Y
}

example of I {
    given X = [[0, 0, 0, 0]]
    expect Y = [[0, 0, 0, 0]]
}
"""


@pytest.fixture
def others(folder: Path) -> Path:
    """A file in which two blocks have a dim of their own that the last one does not have."""
    (folder / "net.xg").write_text(OTHERS, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["M=5", "mask=causal"])
@pytest.mark.parametrize(
    "command",
    [
        ["check", "net.xg"],
        ["verify", "net.xg"],
        ["verify", "net.xg", "--every-choice"],
        ["verify", "net.xg", "--against", "single"],
        ["verify", "net.xg", "--against", "document"],
        ["cost", "net.xg"],
        ["show", "net.xg"],
        ["explain", "net.xg"],
        ["build", "net.xg", "--all"],
        ["build", "net.xg"],
        ["build", "net.xg", "-o", "out.svg"],
        ["build", "net.xg", "-o", "out.html"],
    ],
)
def test_a_block_that_is_asked_for_takes_all_that_is_set(
    xg: Xg, others: Path, command: list[str], name: str
) -> None:
    said = xg(*command, "--block", "I", "--set", name)
    setting = name.split("=")[0]
    assert said.code == 1
    assert f"error[XG0214]: no option or dim of I is called {setting}\n" in said.err
    assert f"help: the block G has {setting}: compile it with --block G\n" in said.err


@pytest.mark.parametrize("command", [["cost"], ["explain"], ["build", "-o", "out.svg"]])
def test_the_last_block_takes_all_where_it_is_the_only_one(
    xg: Xg, others: Path, command: list[str]
) -> None:
    assert "no option or dim of I is called M" in xg(*command, "net.xg", "--set", "M=5").err


def test_each_block_of_a_file_takes_what_is_its_own(xg: Xg, others: Path) -> None:
    """Blocks that others call, too: these hand on no dim that is theirs alone."""
    said = xg("verify", "net.xg", "--set", "M=5").out
    assert [line for line in said.splitlines() if line.startswith("net.xg")] == [
        "net.xg: I",
        "net.xg: H M=5",
        "net.xg: G M=5",
    ]
    said = xg("verify", "net.xg", "--set", "M=5", "--every-choice").out
    assert "net.xg: I\n" in said
    assert "net.xg: G M=5 mask=causal\n" in said
    assert xg("check", "net.xg", "--set", "M=5").code == 0
    assert "M may be a whole number" in xg("check", "net.xg", "--set", "M=a").err


SHORTENED = """\
dim B

block G(X [B, D]) -> Y [B, M] {
    dim D = 4, M = D - 3
    X -> slice[D](3, D) : Y
}

block H(X [B, 8]) -> Y [B, 5] {
    X -> G : Y
}
"""


def test_a_block_is_checked_at_what_is_set_though_another_calls_it(xg: Xg, folder: Path) -> None:
    (folder / "net.xg").write_text(SHORTENED, encoding="utf-8")
    assert xg("check", "net.xg").code == 0
    assert "M = 0" in xg("check", "net.xg", "--set", "D=3").err


def test_an_unknown_block_is_refused_in_every_choice(xg: Xg, others: Path) -> None:
    said = xg("verify", "net.xg", "--every-choice", "--block", "J")
    assert (said.code, "net.xg has no block J" in said.err) == (1, True)
