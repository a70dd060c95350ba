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
