"""Where torch computes, and in which type: options of `run`, `train` and `generate`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from cli.conftest import DIAGRAMS, Xg
from cli.run_logs import distance

from xg_generate import runs as writer
from xg_generate.commands import generate
from xg_runtime import arrays, tensors
from xg_train import loop

SIZES = ("--set", "D=8", "--set", "N_H=2", "--set", "N_L=2")
TRAIN = ("train", DIAGRAMS / "models" / "transformer.xg", *SIZES, "--seq", 8, "--batch", 3)
LEARN = ("--steps", 6, "--eval", 3, "--backend", "torch", "--kernels")


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_other_backends_compute_on_the_cpu(xg: Xg, folder: Path, backend: str) -> None:
    said = xg(*TRAIN, "--backend", backend, "--device", "cuda", "--steps", 1)
    assert said.code == 1
    assert "code does not run on cuda" in said.err
    assert "choose torch instead" in said.err
    assert not (folder / "runs").exists()


def test_products_have_another_type_in_torch_alone(xg: Xg, folder: Path) -> None:
    said = xg(*TRAIN, "--autocast", "bfloat16", "--steps", 1)
    assert said.code == 1
    assert "NumPy has no autocast" in said.err
    assert not (folder / "runs").exists()


def test_a_gpu_that_is_not_there_is_missed_before_anything(
    xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> bool:
        return False

    monkeypatch.setattr(torch.cuda, "is_available", none)
    arrays.write(folder / "in.npz", {"X": np.ones((3, 4)), "t": np.ones(3)})
    for words in (
        (*TRAIN, *LEARN),
        ("run", "tiny.xg", "--inputs", "in.npz", "-o", "out.npz", "--backend", "torch"),
        ("generate", DIAGRAMS / "models" / "transformer.xg", "--backend", "torch"),
    ):
        said = xg(*words, "--device", "cuda")
        assert said.code == 1
        assert "torch finds no cuda here" in said.err
    assert not (folder / "out.npz").exists()


def test_a_device_trains_and_writes_as_the_cpu_does(
    xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def there() -> bool:
        return True

    def on_cpu(options: Namespace) -> dict[str, str]:
        return {"device": "cpu"} if options.device == "cuda" else {}

    monkeypatch.setattr(tensors, "has_gpu", there)
    for module in (loop, generate):
        monkeypatch.setattr(module, "where", on_cpu)
    exact = ("--dtype", "float64")
    assert xg(*TRAIN, *LEARN, *exact, "--out", "plain").code == 0
    assert xg(*TRAIN, *LEARN, *exact, "--out", "placed", "--device", "cuda").code == 0
    assert distance(folder / "plain", folder / "placed") < 1e-10
    words = ("--backend", "torch", "--kernels", "--tokens", 9, "--temperature", 0)
    texts = [
        xg("generate", "placed", *words, *more).out
        for more in ((), ("--device", "cuda"), ("--device", "cuda", "--no-cache"))
    ]
    assert len(set(texts)) == 1
    assert writer.shown(texts[0]) == texts[0]


def test_autocast_is_a_fact_of_a_run(xg: Xg, folder: Path) -> None:
    assert xg(*TRAIN, *LEARN, "--autocast", "bfloat16", "--out", "half").code == 0
    said = xg(*TRAIN, *LEARN, "--out", "half", "--resume")
    assert said.code == 4
    assert 'options autocast was "bfloat16" and is absent' in said.err
    assert xg(*TRAIN, *LEARN, "--out", "full").code == 0
    assert 1e-5 < distance(folder / "full", folder / "half") < 0.05
