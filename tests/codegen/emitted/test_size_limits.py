"""Sizes that only arrays tell are refused by a module as `xg check` refuses numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import xg
from xg.driver import BACKENDS
from xg.verify.edge_proof import try_edges
from xg.verify.reference.interpret import Interpreter
from xg_runtime.module import Arrays

LINES = {
    "pick[S](3)": ("[B, D]", r"4 is more than S = 3: pick takes a position of its axis"),
    "slice[S](1, 4)": ("[B, 3, D]", r"4 is more than S = 3"),
    "slice[S](0, K)": ("[B, K, D]", r"K = 4 is more than S = 3"),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_positions_that_there_are_not(backend: str, tmp_path: Path) -> None:
    for node, (shape, said) in LINES.items():
        file = tmp_path / "net.xg"
        file.write_text(
            f"dim B, S, D, K\nblock F(X [B, S, D], Z [K]) -> Y {shape}, Q [K] {{\n"
            f"    X -> {node} : Y\n    Z -> tanh : Q\n}}\n",
            encoding="utf-8",
        )
        module = xg.compile(file).on_arrays(backend)
        inputs = {"X": np.ones((2, 3, 5)), "Z": np.ones(4)}
        with pytest.raises(ValueError, match=said):
            module.forward({}, inputs, seed=None)
        module.forward({}, {**inputs, "X": np.ones((2, 4, 5))}, seed=None)


DIFFERENCES = {
    "S - 2": ("", "slice[S](2, S)", "[B, S - 2]"),
    "T": (", T = S - 2", "slice[S](2, S)", "[B, T]"),
    "S - 2 of a call": ("", "Tail", "[B, S - 2]"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", DIFFERENCES)
def test_an_axis_of_which_all_is_taken(name: str, backend: str, tmp_path: Path) -> None:
    """A mean over nothing was NaN."""
    dims, node, shape = DIFFERENCES[name]
    file = tmp_path / "net.xg"
    file.write_text(
        f"dim B, S{dims}\n"
        "block Tail(x [B, N]) -> y [B, N - 2] {\n    dim N\n    x -> slice[N](2, N) : y\n}\n"
        f"block F(x [B, S]) -> loss [] {{\n    x -> {node} : y {shape}\n"
        "    y -> mean[B, -1] : loss\n}\n",
        encoding="utf-8",
    )
    module = xg.compile(file, "F").on_arrays(backend)
    with pytest.raises(ValueError, match=rf"{name[:5].strip()} = 0: it is at least 1"):
        module.forward({}, {"x": np.ones((3, 2))}, seed=None)
    assert module.forward({}, {"x": np.ones((3, 3))}, seed=None)[0]["loss"] == 1


SHIFT = """\
dim B, S, D = 4
block F(X [B, S, D]) -> Y [B, S-1, D], M [B, D] {
    X -> slice[S](1, S) : Y
    X -> slice[S](2, S) -> sum[-2] : M
}
"""
LENGTHS = {3: "", 2: "", 1: "2 is more than S = 1: slice takes a stretch of its axis"}


@pytest.mark.parametrize("length", LENGTHS)
def test_every_form_allows_the_same_lengths(length: int) -> None:
    """Without a mean an axis of S - 2 may be empty, as any other of an array."""
    program = xg.compile(source=SHIFT)
    x = np.arange(8.0 * length).reshape(2, length, 4)
    runs: list[Callable[[], Arrays]] = [
        lambda: Interpreter(program.graphs, {}).forward({"X": x})[0],
        *(partial(_outputs, program, backend, {"X": x}) for backend in BACKENDS),
    ]
    for run in runs:
        if LENGTHS[length]:
            with pytest.raises(ValueError, match=LENGTHS[length]):
                run()
        else:
            found = run()
            assert np.array_equal(found["Y"], x[:, 1:])
            assert np.array_equal(found["M"], x[:, 2:].sum(1))


def _outputs(program: xg.Program, backend: str, inputs: Arrays) -> Arrays:
    return program.on_arrays(backend).forward({}, inputs, seed=None)[0]


@pytest.mark.parametrize(
    ("use", "shape", "tried"),
    [
        ("slice[S](1, S)", "[B, S-1, D]", {1, 2}),
        ("slice[S](2, S)", "[B, S-2, D]", {2, 3}),
        ("slice[S](1, S) -> mean[-2]", "[B, D]", {2}),
        ("slice[S](1, S) -> S[-2]", "[B, S-1, D]", {2}),
        ("maxpool[S](k=3, stride=1)", "[B, S-2, D]", {3}),
        ("slice[S](0, S-1)", "[B, S-1, D]", {1, 2}),
    ],
)
def test_edges_are_the_lengths_that_leave_none_or_one(
    use: str, shape: str, tried: set[int], tmp_path: Path
) -> None:
    """A correct program that takes S - 1 of its positions is not called wrong."""
    file = tmp_path / "net.xg"
    file.write_text(
        f"dim B, S, D = 4\nblock F(X [B, S, D]) -> Y {shape} {{\n    X -> {use} : Y\n}}\n",
        encoding="utf-8",
    )
    program = xg.compile(file)
    edges = try_edges(program, {"B": 2, "S": 5}, {"D": 4}, 0, BACKENDS)
    assert edges.passed, edges.disagreements
    assert {int(e.split()[1]) for e in edges.tried if e.endswith("of S")} == tried


OWN = """\
dim B, D, k = 3, T = D - k
block F(x [B, D]) -> y [B, T] {
    param W [D, T]
    x -> •<=W : y
}
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_init_refuses_a_size_from_which_all_is_taken(backend: str) -> None:
    module = xg.compile(source=OWN).load(backend)
    assert tuple(module.init(D=4)["W"].shape) == (4, 1)
    with pytest.raises(ValueError, match=r"T = 0: it is at least 1"):
        module.init(D=3)


def test_a_model_refuses_an_axis_of_which_all_is_taken() -> None:
    text = "dim B, S\nblock F(x [B, S]) -> y [B] {\n    x -> slice[S](2, S) -> mean[-1] : y\n}\n"
    model = xg.compile(source=text).load("torch").Model()
    with pytest.raises(ValueError, match=r"S - 2 = 0: it is at least 1"):
        model(torch.ones(3, 2))
    assert model(torch.ones(3, 3))["y"].tolist() == [1, 1, 1]


def test_sizes_of_the_file_are_not_looked_at_again() -> None:
    text = "dim B, S = 4\nblock F(x [B]) -> y [S - 2, B] {\n    x -> BC[n=S - 2] : y\n}\n"
    assert "at least 1" not in xg.compile(source=text).source("numpy")
