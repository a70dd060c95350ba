"""The numbers that parameters start as: the same in every backend, and on ranks together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ir_reader import read_program

import xg
from xg.codegen.backend import backends
from xg.passes.ir_text import spell_program
from xg_runtime import ranks

TEXT = """\
mesh N_T = 2
dim B, D, C

block Net(X [B, D]) -> Y [B, C] {
    param a [D] = 0.25, s [D] = -log(3), z [D] = 0, o [D] = 1
    param W [D, C] = uniform(-1/sqrt(D), 0.5)

    X -> ⊙<-BC(a) -> ⊙<-BC(s) -> ⊕<-BC(z) -> ⊙<-BC(o) -> •<=W : Y
}

plan TP of Net {
    W [D, C/N_T]
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of the text."""
    (tmp_path / "a.xg").write_text(TEXT, encoding="utf-8")
    return tmp_path / "a.xg"


def test_numbers_and_bounds_are_those_of_the_file(path: Path) -> None:
    params = xg.compile(path, sizes={"D": 400, "C": 50}).on_arrays().init(3, np.float64)
    assert set(params["a"]) == {0.25}
    np.testing.assert_allclose(params["s"], -np.log(3), rtol=1e-15)
    assert (set(params["z"]), set(params["o"])) == ({0.0}, {1.0})
    W = params["W"]
    assert -0.05 <= W.min() < -0.049
    assert 0.499 < W.max() < 0.5
    assert abs(W.mean() - 0.225) < 0.01
    assert abs(W.std() - 0.55 / 12**0.5) < 0.01


def test_every_backend_starts_alike(path: Path) -> None:
    program = xg.compile(path, sizes={"D": 6, "C": 5})
    first = program.on_arrays().init(3)
    for backend in backends():
        for name, array in program.on_arrays(backend).init(3).items():
            np.testing.assert_allclose(array, first[name], rtol=2e-7, atol=1e-8, err_msg=backend)
            assert array.dtype == np.float32


def test_shards_are_cut_from_the_same_numbers(path: Path) -> None:
    sizes = {"D": 6, "C": 8}
    whole = xg.compile(path, sizes=sizes).on_arrays().init(3, np.float64)
    module = xg.compile(path, plan="TP", sizes=sizes).on_arrays()
    parts = ranks.simulate({"N_T": 2}, lambda: module.init(3, np.float64))
    np.testing.assert_array_equal(np.hstack([part["W"] for part in parts]), whole["W"])


def test_the_printed_program_says_how_parameters_start(path: Path) -> None:
    graphs = xg.compile(path, sizes={"D": 6, "C": 5}).graphs
    again = read_program(spell_program(graphs), "a.ir")
    assert [p.start for p in again.main.params] == [p.start for p in graphs.main.params]


@pytest.mark.parametrize("start", ["uniform(1)", "normal(1, 2)", "one", "[1, 2]"])
def test_other_starts_are_refused(start: str, path: Path) -> None:
    path.write_text(TEXT.replace("= 0.25", f"= {start}"), encoding="utf-8")
    with pytest.raises(xg.DiagnosticError, match="a parameter cannot start as"):
        xg.compile(path)
