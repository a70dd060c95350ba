"""Sizes that only arrays tell are refused by a module as `xg check` refuses numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xg
from xg.driver import BACKENDS

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
