"""`--kernels`: fused code wherever code is written or run, and the figure's own form without it."""

from pathlib import Path

import numpy as np
import pytest
from cli.conftest import DIAGRAMS, Xg


def test_the_code_and_the_graph_that_it_comes_from(xg: Xg) -> None:
    assert "linear(X, W, b)" in xg("show", "tiny.xg", "--as", "numpy", "--kernels").out
    assert "Linear" in xg("show", "tiny.xg", "--kernels").out
    assert "Linear" not in xg("show", "tiny.xg").out


@pytest.mark.parametrize("form", ["dot", "cost"])
def test_a_figure_has_no_kernels(xg: Xg, form: str) -> None:
    said = xg("show", "tiny.xg", "--as", form, "--kernels")
    assert said.code == 2
    assert "--kernels changes the code" in said.err


def test_what_is_built(xg: Xg) -> None:
    xg("build", "tiny.xg", "--only", "numpy")
    (file,) = Path("out").glob("*_numpy.py")
    readable = file.read_text(encoding="utf-8")
    assert xg("build", "tiny.xg", "--only", "numpy", "--kernels", "--check").code == 1
    xg("build", "tiny.xg", "--only", "numpy", "--kernels")
    assert "linear" not in readable
    assert "def linear(" in file.read_text(encoding="utf-8")


def test_fused_code_is_proven(xg: Xg) -> None:
    said = xg(
        "verify", DIAGRAMS / "notation" / "mha.xg", "--kernels", "--set", "D=4", "--set", "N_H=2"
    )
    assert said.code == 0
    assert "all proven" in said.out


def test_a_run_gives_the_same_and_keeps_edges(xg: Xg) -> None:
    draw = np.random.default_rng(0)
    np.savez("in.npz", X=draw.standard_normal((3, 4)), t=draw.standard_normal(3))
    words = ("run", "tiny.xg", "--inputs", "in.npz", "--keep", "H", "--dtype", "float64")
    xg(*words, "-o", "a.npz")
    xg(*words, "-o", "b.npz", "--kernels")
    with np.load("a.npz") as a, np.load("b.npz") as b:
        assert set(a) == set(b) == {"Y", "loss", "H"}
        for name in a:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-12)
