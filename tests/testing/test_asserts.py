"""The assertions for tests of others: each passes, and fails with the right words."""

from pathlib import Path

import numpy as np
import pytest

import xg
from xg_runtime import arrays
from xg_testing import assert_code_unchanged, assert_numbers, assert_proven

TEXT = """\
dim B, D, D_h
mesh N = 2

block F(X [B, D]) -> Y [B, D], loss [] {
    param W [D, D_h], V [D_h, D]
    X -> •<=W -> tanh -> •<=V : Y
    Y -> mean[B, D] : loss
}

plan TP of F {
    W [D, D_h/N]
    V [D_h/N, D]
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A diagram with a plan and a loss."""
    path = tmp_path / "f.xg"
    path.write_text(TEXT, "utf-8")
    return path


def test_gradients_and_plans_are_proven(file: Path) -> None:
    assert_proven(file, against=["fd", "single", "exact"])
    assert_proven(file, against=[], plan="TP")
    with pytest.raises(ValueError, match="no such proof: autograd"):
        assert_proven(file, against=["autograd"])


def test_a_false_expectation_is_reported_with_its_line(file: Path) -> None:
    text = TEXT.replace("    Y -> mean", "    expect dW = 0\n    Y -> mean")
    file.write_text(text, "utf-8")
    with pytest.raises(AssertionError, match=r"dW = 0.*line 7"):
        assert_proven(file)


def test_code_may_move_in_its_file_but_not_change(file: Path, tmp_path: Path) -> None:
    golden = tmp_path / "golden.py"
    golden.write_text(xg.compile(file).source("numpy"), "utf-8")
    file.write_text(f"# a comment\n\n{TEXT}", "utf-8")
    assert_code_unchanged(file, golden)
    file.write_text(TEXT.replace("tanh", "ReLU"), "utf-8")
    with pytest.raises(AssertionError, match=r"(?s)compiles to other code:.*-.*tanh.*\+.*relu"):
        assert_code_unchanged(file, golden)


def test_numbers_of_another_source_hold_outputs_and_gradients(file: Path, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    X, W, V = (draw.standard_normal(shape) for shape in ((2, 3), (3, 5), (5, 3)))
    hidden = np.tanh(X @ W)
    Y = hidden @ V
    d_Y = np.full_like(Y, 1 / Y.size)
    known = {"X": X, "W": W, "V": V, "Y": Y, "loss": Y.mean(), "dV": hidden.T @ d_Y}
    numbers = tmp_path / "numbers.npz"
    arrays.write(numbers, known)
    assert_numbers(file, numbers)
    arrays.write(numbers, known | {"W": W.astype(np.float32)})  # the code is run in the wider type
    assert_numbers(file, numbers)
    arrays.write(numbers, known | {"dV": known["dV"] * np.array([1, 1, 1.001])})
    with pytest.raises(AssertionError, match=r"dV at \[0, 2\].*5 of 15 numbers"):
        assert_numbers(file, numbers)
    assert_numbers(file, numbers, rtol=0.01)
    arrays.write(numbers, {"X": X, "W": W, "Y": Y})
    with pytest.raises(ValueError, match="lacks V"):
        assert_numbers(file, numbers)
    arrays.write(numbers, {"X": X, "W": W, "V": V})
    with pytest.raises(ValueError, match="no output"):
        assert_numbers(file, numbers)
