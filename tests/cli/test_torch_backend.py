"""What computes with torch gives what NumPy gives; without torch it says how to get it."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.conftest import DIAGRAMS, Xg

from xg_runtime import arrays


@pytest.fixture
def given(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    arrays.write(
        folder / "in.npz", {"X": draw.standard_normal((3, 4)), "t": draw.standard_normal(3)}
    )
    arrays.write(folder / "g.npz", {"loss": np.ones(())})
    return folder


def test_a_run_gives_the_same_numbers(xg: Xg, given: Path) -> None:
    words = ["run", "tiny.xg", "--inputs", "in.npz", "--d-outputs", "g.npz", "--dropout", 3]
    for backend in ("numpy", "torch"):
        said = xg(*words, "--dtype", "float64", "-o", f"{backend}.npz", "--backend", backend)
        assert said.code == 0, said.err
    first, second = (arrays.read(given / f"{name}.npz") for name in ("numpy", "torch"))
    assert list(first) == list(second)
    assert all(np.allclose(first[name], second[name], rtol=1e-12, atol=1e-14) for name in first)


def test_bfloat16_is_computed_and_written_wide(xg: Xg, given: Path) -> None:
    words = ["run", "tiny.xg", "--inputs", "in.npz", "--backend", "torch"]
    assert xg(*words, "-o", "half.npz", "--dtype", "bfloat16").code == 0
    assert xg(*words, "-o", "full.npz").code == 0
    half, full = (arrays.read(given / f"{name}.npz")["Y"] for name in ("half", "full"))
    assert half.dtype == np.float32
    assert np.allclose(half, full, rtol=0.05, atol=0.05)
    assert not np.allclose(half, full, rtol=1e-5, atol=1e-6)


def test_numpy_has_no_bfloat16(xg: Xg, given: Path) -> None:
    said = xg("run", "tiny.xg", "--inputs", "in.npz", "-o", "out.npz", "--dtype", "bfloat16")
    assert said.code == 2
    assert "NumPy has no bfloat16" in said.err


def test_losses_are_equal_to_rounding(xg: Xg, folder: Path) -> None:
    words = ["--steps", 6, "--seq", 8, "--batch", 3, "--dtype", "float64", "--eval", 3]
    sizes = ["--set", "D=8", "--set", "N_H=2", "--set", "N_L=2", "--set", "D_ff=12"]
    for backend in ("numpy", "torch"):
        file = str(DIAGRAMS / "transformer.xg")
        said = xg("train", file, *words, *sizes, "--backend", backend, "--out", backend)
        assert said.code == 0, said.err
    losses = [_losses(folder / name / "log.jsonl") for name in ("numpy", "torch")]
    assert len(losses[0]) == 9  # six steps, and three looks at the validation text
    assert np.allclose(losses[0], losses[1], rtol=1e-10)


def _losses(log: Path) -> list[float]:
    records: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    found = (record.get("loss", record.get("validation")) for record in records)
    return [loss for loss in found if isinstance(loss, float)]


def test_verify_against_both(xg: Xg, folder: Path) -> None:
    said = xg("verify", "tiny.xg", "--against", "fd,torch")
    assert said.code == 0, said.err
    assert "NumPy code and interpreter agree" in said.out
    assert "torch code and interpreter agree" in said.out


def test_without_torch_there_is_a_hint(
    xg: Xg, given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xg.generated.find_spec", lambda name: None)  # pyright: ignore
    assert util.find_spec("torch")
    for words in (
        ["run", "tiny.xg", "--inputs", "in.npz", "-o", "o.npz", "--backend", "torch"],
        ["train", "tiny.xg", "--data", "in.npz", "--backend", "torch"],
        ["verify", "tiny.xg", "--against", "torch"],
    ):
        said = xg(*words)
        assert said.code == 1
        assert "torch is not installed" in said.err
        assert "pip install 'xg[torch]'" in said.err
    assert xg("show", "tiny.xg", "--as", "torch").code == 0
