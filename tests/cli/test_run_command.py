"""`xg run`: arrays from files, through generated code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.conftest import DIAGRAMS, Xg
from numpy.typing import NDArray

import xg as package
from xg_runtime import arrays

Arrays = dict[str, NDArray[Any]]


def inputs(rows: int = 3, width: int = 4) -> Arrays:
    draw = np.random.default_rng(0)
    return {"X": draw.standard_normal((rows, width)), "t": draw.standard_normal(rows)}


@pytest.fixture
def given(folder: Path) -> Path:
    """A file with inputs, and one with a cotangent."""
    arrays.write(folder / "in.npz", inputs())
    arrays.write(folder / "g.npz", {"loss": np.ones(())})
    return folder


def test_outputs_gradients_and_edges(xg: Xg, given: Path) -> None:
    words = ["--inputs", "in.npz", "-o", "out.npz", "--d-outputs", "g.npz", "--keep", "H,y,W"]
    said = xg("run", "tiny.xg", *words, "--dtype", "float64", "--save-params", "p.safetensors")
    assert said.code == 0
    found = arrays.read(given / "out.npz")
    assert list(found) == ["Y", "loss", "d/W", "d/b", "d/V", "d/X", "d/t", "H", "y", "W"]
    params = arrays.read(given / "p.safetensors")
    module = package.compile(given / "tiny.xg").load()
    assert _same(params, module.init(0, np.float64))
    outputs, saved = module.forward(params, inputs())
    gradients = module.backward(params, saved, {"loss": np.ones(())})
    assert np.array_equal(found["Y"], outputs["Y"])
    assert np.array_equal(found["d/W"], gradients["W"])
    hidden = np.maximum(inputs()["X"] @ params["W"] + params["b"], 0)
    assert np.allclose(found["H"], hidden, rtol=1e-12)
    assert np.allclose(found["y"], found["Y"].mean(-1), rtol=1e-12)


def test_parameters_from_a_file(xg: Xg, given: Path) -> None:
    words = ["run", "tiny.xg", "--inputs", "in.npz", "--dtype", "float64"]
    xg(*words, "-o", "a.npz", "--save-params", "p.npz", "--seed", 7)
    xg(*words, "-o", "b.npz", "--params", "p.npz")
    xg(*words, "-o", "c.npz")
    a, b, c = (arrays.read(given / f"{name}.npz") for name in "abc")
    assert _same(a, b)
    assert not _same(a, c)


def test_sizes_are_those_of_the_arrays(xg: Xg, given: Path) -> None:
    arrays.write(given / "wide.npz", inputs(rows=2, width=7))
    said = xg("run", "tiny.xg", "--inputs", "wide.npz", "-o", "out.npz", "--save-params", "p.npz")
    assert said.code == 0
    assert said.err == "note: D = 7, as wide.npz has it; the file says 4\n"
    assert arrays.read(given / "p.npz")["W"].shape == (7, 14)
    again = ("run", "tiny.xg", "--inputs", "wide.npz", "-o", "out.npz")
    assert xg(*again, "--set", "D=7").err == ""
    assert xg(*again, "--params", "p.npz").err == ""
    assert xg("run", "tiny.xg", "--inputs", "in.npz", "-o", "out.npz").err == ""


def test_dropout_is_off_unless_seeded(xg: Xg, given: Path) -> None:
    words = ["run", "tiny.xg", "--inputs", "in.npz", "--keep", "H"]
    for name, more in (("a", []), ("b", []), ("c", ["--dropout", 1]), ("d", ["--dropout", 1])):
        xg(*words, "-o", f"{name}.npz", *more)
    a, b, c, d = (arrays.read(given / f"{name}.npz") for name in "abcd")
    assert _same(a, b)
    assert _same(c, d)
    assert not _same(a, c)


def test_edges_inside_calls_and_rounds(xg: Xg, folder: Path) -> None:
    ids = np.zeros((2, 5), np.int64)
    arrays.write(folder / "ids.npz", {"ids": ids, "t": ids})
    words = ["--inputs", "ids.npz", "-o", "out.npz", "--set", "N_L=2"]
    model = DIAGRAMS / "models" / "transformer.xg"
    assert xg("run", model, *words, "--keep", "X,layers.1.attn.P,layers.0.H").code == 0
    found = arrays.read(folder / "out.npz")
    assert found["layers.1.attn.P"].shape == (2, 4, 5, 5)
    assert np.allclose(found["layers.1.attn.P"].sum(-1), 1, atol=1e-6)
    for name, close in (("layers.1.atn.P", "layers.1.attn"), ("layers.0.HH", "H")):
        said = xg("run", model, *words, "--keep", name)
        assert said.code == 1
        assert f"did you mean {close}?" in said.err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": np.zeros(3)}, "X has shape [3], expected [3, 4]"),
        ({"X": np.zeros((3, 4), int)}, "X holds int64, expected floats"),
        ({"t": np.zeros(2)}, "t has shape [2], expected [3]"),
        ({"u": np.zeros(2)}, "in.npz has u, which the program does not take"),
    ],
)
def test_arrays_that_do_not_fit(
    xg: Xg, folder: Path, changed: Mapping[str, NDArray[Any]], message: str
) -> None:
    arrays.write(folder / "in.npz", {**inputs(), **changed})
    said = xg("run", "tiny.xg", "--inputs", "in.npz", "-o", "out.npz")
    assert said.code == 1
    assert message in said.err
    assert not (folder / "out.npz").exists()


def test_ids_out_of_range(xg: Xg, folder: Path) -> None:
    arrays.write(folder / "ids.npz", {"ids": np.array([[0, 256]]), "t": np.array([[0, 1]])})
    said = xg("run", DIAGRAMS / "models" / "transformer.xg", "--inputs", "ids.npz", "-o", "out.npz")
    assert said.code == 1
    assert "ids[0, 1] is 256, expected integers from 0 to 255" in said.err


def test_files_that_cannot_be_read_or_written(xg: Xg, given: Path) -> None:
    (given / "bad.npz").write_bytes(b"PK\x03\x04 not really")
    assert xg("run", "tiny.xg", "--inputs", "bad.npz", "-o", "out.npz").code == 5
    assert xg("run", "tiny.xg", "--inputs", "in.npz", "-o", "out.txt").code == 5
    assert xg("run", "tiny.xg", "--inputs", "in.npz", "-o", "tiny.xg/out.npz").code == 5


def test_a_nan_ends_the_run(xg: Xg, folder: Path) -> None:
    arrays.write(folder / "in.npz", {**inputs(), "X": np.full((3, 4), np.nan)})
    said = xg("run", "tiny.xg", "--inputs", "in.npz", "-o", "out.npz")
    assert said.code == 4
    assert "NaN" in said.err


def test_bfloat16_is_for_later(xg: Xg, given: Path) -> None:
    words = ["--inputs", "in.npz", "-o", "out.npz", "--dtype", "bfloat16"]
    assert "bfloat16" in xg("run", "tiny.xg", *words).err


def _same(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_gradients_of_edges_are_kept(xg: Xg, given: Path) -> None:
    """A gradient of an edge is that of an input in its place."""
    (given / "net.xg").write_text(
        "dim B, D\n"
        "block Inner(x [B, D]) -> y [B, D] {\n    x -> tanh : h\n    h -> sigmoid : y\n}\n"
        "block Net(X [B, D]) -> loss [] {\n    param W [D, D]\n    X -> •<=W : H\n"
        "    H -> 2 × Inner as rows : Z\n    Z -> ⊙<-H : P\n    P -> sum[B, D] : loss\n}\n"
        "block Rest(H [B, D]) -> loss [] {\n    H -> 2 × Inner as rows : Z\n"
        "    Z -> ⊙<-H : P\n    P -> sum[B, D] : loss\n}\n",
        encoding="utf-8",
    )
    arrays.write(given / "x.npz", {"X": inputs()["X"]})
    both = ["--d-outputs", "g.npz", "--dtype", "float64"]
    asked = ["net.xg", "--block", "Net", "--inputs", "x.npz", "-o", "out.npz", *both]
    said = xg("run", *asked, "--keep", "H,d/H,d/Z,d/P,d/rows.0.h,d/rows.1.h,d/W")
    assert said.code == 0, said.err
    found = arrays.read(given / "out.npz")
    arrays.write(given / "h.npz", {"H": found["H"]})
    xg("run", "net.xg", "--block", "Rest", "--inputs", "h.npz", "-o", "rest.npz", *both)
    assert np.allclose(found["d/H"], arrays.read(given / "rest.npz")["d/H"])
    assert np.array_equal(found["d/P"], np.ones_like(found["H"]))
    assert np.allclose(found["d/Z"], found["H"])
    assert not np.allclose(found["d/rows.0.h"], found["d/rows.1.h"])
    assert np.allclose(found["d/W"], inputs()["X"].T @ found["d/H"])


def test_drawn_parameters_are_said(xg: Xg, given: Path) -> None:
    words = ["run", "tiny.xg", "--inputs", "in.npz", "-o", "out.npz"]
    note = "note: the parameters are drawn from seed 0: --params names some\n"
    assert xg(*words, "--save-params", "p.npz").out == f"out.npz: Y, loss\n{note}"
    assert "note" not in xg(*words, "--seed", 0).out
    assert "note" not in xg(*words, "--params", "p.npz").out


def test_a_size_that_does_not_divide_names_the_array_and_its_file(xg: Xg, given: Path) -> None:
    (given / "half.xg").write_text(
        "dim B, D = 4, D_b = D/2\nblock F(X [B, D]) -> Y [B, D_b] {\n    param W [D, D_b]\n"
        "    X -> •<=W : Y\n}\n",
        encoding="utf-8",
    )
    arrays.write(given / "odd.npz", {"X": np.ones((3, 5))})
    said = xg("run", "half.xg", "--inputs", "odd.npz", "-o", "out.npz")
    assert said.code == 1
    assert "D_b = D/2 = 5/2 is not a whole number" in said.err
    assert "note: D = 5, as X [3, 5] in odd.npz has it; the file says 4" in said.err
    arrays.write(given / "p.npz", {"W": np.ones((5, 2))})
    arrays.write(given / "one.npz", {"X": np.ones(5)})
    said = xg("run", "half.xg", "--inputs", "one.npz", "-o", "out.npz", "--params", "p.npz")
    assert "note: D = 5, as W [5, 2] in p.npz has it; the file says 4" in said.err


UNNAMED = """\
dim B, D = 4
block Net(x [B, D]) -> y [] {
    param W [D, D], b [D]
    x -> •<=W -> ⊕<-BC(b) -> SiLU -> ⊙<-x -> sum[B, D] -> tanh : y
}
"""


def test_edges_without_a_label_have_the_names_of_figures_and_code(xg: Xg, given: Path) -> None:
    (given / "net.xg").write_text(UNNAMED, encoding="utf-8")
    arrays.write(given / "x.npz", {"x": inputs()["X"]})
    arrays.write(given / "dy.npz", {"y": np.ones(())})
    asked = ["net.xg", "--inputs", "x.npz", "-o", "out.npz", "--dtype", "float64", "--seed", 0]
    kept = "add,silu_1,SiLU_1,•_1,d/silu_1"
    said = xg("run", *asked, "--d-outputs", "dy.npz", "--keep", kept, "--save-params", "p.npz")
    assert said.code == 0, said.err
    found, params = arrays.read(given / "out.npz"), arrays.read(given / "p.npz")
    code = xg("show", "net.xg", "--as", "numpy").out
    assert "add = x @ W + b  #" in code
    assert "silu_1 = silu(add)  #" in code
    assert np.allclose(found["add"], inputs()["X"] @ params["W"] + params["b"])
    assert np.array_equal(found["silu_1"], found["SiLU_1"])
    assert np.allclose(found["•_1"], inputs()["X"] @ params["W"])
    assert np.allclose(found["d/silu_1"], inputs()["X"] * (1 - found["y"] ** 2))
    said = xg("run", *asked, "--keep", "silu_7")
    assert "no edge is named silu_7: did you mean silu_1" in said.err


@pytest.mark.parametrize(
    ("edge", "message"),
    [("dH", "no edge is named dH: the gradient is d/H"), ("d/H", "--d-outputs"), ("d/Q", "named")],
)
@pytest.mark.usefixtures("given")
def test_a_gradient_that_is_not_there(xg: Xg, edge: str, message: str) -> None:
    said = xg("run", "tiny.xg", "--inputs", "in.npz", "-o", "out.npz", "--keep", edge)
    assert (said.code, message in said.err) == (1, True), (said.code, said.err)
