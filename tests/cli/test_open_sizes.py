"""Dims without a number, in the commands that read arrays and make parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Xg

from xg_runtime import arrays

HALVES = """\
dim B, T
block F(X [B, 2*T]) -> Y [B, T] {
    X -> split : Y [B, T], U [B, T]
}
"""
LESSON = """\
dim B, D, E
block G(X [B, D]) -> Y [B, D] {
    param W [D, E]
    X -> •<=W -> tanh -> •<=T(W) : Y
}
block F(X [B, D], t [B, D]) -> loss [] {
    X -> G(E=E) as g -> MSE<-t : loss
}
"""
ROW = """\
dim B, D = 3, N
block G(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W : Y
}
block F(X [B, D]) -> Y [B, D] {
    X -> N × G : Y
}
"""


@pytest.fixture
def files(folder: Path) -> Path:
    """Three diagrams with dims that have no number, and arrays."""
    for name, text in {"halves": HALVES, "lesson": LESSON, "row": ROW}.items():
        (folder / f"{name}.xg").write_text(text, encoding="utf-8")
    draw = np.random.default_rng(0)
    arrays.write(folder / "ten.npz", {"X": draw.standard_normal((3, 10))})
    arrays.write(folder / "nine.npz", {"X": draw.standard_normal((3, 9))})
    rows = {name: draw.standard_normal((30, 4)) for name in ("X", "t")}
    arrays.write(folder / "rows.npz", rows)
    return folder


def test_a_formula_is_solved_for_the_length_that_an_array_has(xg: Xg, files: Path) -> None:
    assert xg("run", "halves.xg", "--inputs", "ten.npz", "-o", "out.npz").code == 0
    assert arrays.read(files / "out.npz")["Y"].shape == (3, 5)


def test_a_length_that_no_size_gives_is_refused(xg: Xg, files: Path) -> None:
    said = xg("run", "halves.xg", "--inputs", "nine.npz", "-o", "out.npz")
    assert said.code == 1
    assert (
        said.err
        == "xg: nine.npz: X must have shape [3, 2*T]; found [3, 9], and no T makes 2*T = 9\n"
    )
    assert not (files / "out.npz").exists()


def test_parameters_are_not_drawn_without_their_sizes(xg: Xg, files: Path) -> None:
    run = ["run", "lesson.xg", "--inputs", "rows.npz", "-o", "out.npz"]
    train = ["train", "lesson.xg", "--data", "rows.npz", "--steps", "2", "--out", "trained"]
    for words in (run, train):
        said = xg(*words)
        assert said.code == 1
        lacks = "the parameter g.W [4, E] has no number for E, and it is drawn from a seed"
        assert said.err.startswith(f"xg: {lacks}: --set E=…")
    assert not (files / "trained").exists()
    assert xg(*run, "--set", "E=6", "--save-params", "weights.npz").code == 0
    assert arrays.read(files / "weights.npz")["g.W"].shape == (4, 6)
    given = xg(*run, "--params", "weights.npz")
    assert given.code == 0, given.err
    assert xg(*train, "--set", "E=6").code == 0


def test_edges_of_open_sizes_are_kept(xg: Xg, files: Path) -> None:
    """Of an axis F = D*T nothing needs D and T; of an axis D*T code does."""
    text = (
        "dim B, D, T, F = D*T\nblock G(X [B, F]) -> Y [B, F] {\n    X -> tanh : H -> tanh : Y\n}\n"
    )
    (files / "product.xg").write_text(text, encoding="utf-8")
    words = ["run", "product.xg", "--inputs", "ten.npz", "-o", "out.npz"]
    assert xg(*words, "--keep", "H").code == 0
    for file, length, code in (("g.npz", 10, 0), ("wrong.npz", 9, 1)):
        arrays.write(files / file, {"Y": np.ones((3, length))})
        said = xg(*words, "--d-outputs", file)
        assert said.code == code
    assert said.err == "xg: wrong.npz: Y has shape [3, 9], expected [3, 10]\n"
    (files / "product.xg").write_text(text.replace("F", "D*T").replace(", D*T = D*T", ""))
    assert "no size is set for D" in xg(*words).err
    assert (
        "X must have shape [3, D*T]; found [3, 10], and no T makes D*T = 10"
        in xg(*words, "--set", "D=3").err
    )
    assert xg(*words, "--set", "D=2", "--keep", "H").code == 0


@pytest.mark.parametrize("words", [("build", "--all", "-o", "there"), ("export", "-o", "row.onnx")])
def test_a_row_without_a_number_is_no_internal_error(
    xg: Xg, files: Path, words: tuple[str, ...]
) -> None:
    command, *rest = words
    said = xg(command, "row.xg", *rest)
    assert said.code == 1
    assert "no size is set for N" in said.err
    assert "N × G" in said.err
    assert not (files / rest[-1]).exists()
    if command == "build":
        assert xg(command, "row.xg", *rest, "--set", "N=2").code == 0
