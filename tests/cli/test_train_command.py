"""`xg train`: text and arrays, to the end, killed and resumed."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli.conftest import DIAGRAMS, Xg

from xg_runtime import arrays

MODEL = DIAGRAMS / "transformer.xg"
SMALL = ["--set", "N_L=1", "--set", "D=16", "--set", "N_H=2", "--seq", 16, "--batch", 4]
TEXT = "the cat sat on the mat; the dog sat on the log. " * 40


@pytest.fixture
def text(folder: Path) -> Path:
    (folder / "text.txt").write_text(TEXT)
    return folder


def losses(folder: Path) -> list[float]:
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if "loss" in record]


def test_a_language_model_learns_a_text(xg: Xg, text: Path) -> None:
    said = xg("train", MODEL, *SMALL, "--data", "text.txt", "--steps", 60, "--lr", 0.02,
              "--sample", 30, "--prompt", "the c", "--out", "run")  # fmt: skip
    assert said.code == 0
    found = losses(text / "run")
    assert np.mean(found[-5:]) < 0.6 * found[0]
    assert "unigram entropy" in said.out
    assert "\nthe c" in said.out
    assert (text / "run" / "loss.svg").read_text().startswith("<svg")
    assert "60/60" in said.err


def test_characters_make_a_smaller_vocabulary(xg: Xg, text: Path) -> None:
    words = ["--data", "text.txt", "--level", "char", "--steps", 2, "--eval", 0, "--out", "run"]
    assert xg("train", MODEL, *SMALL, *words).code == 0
    params = text / "run" / "checkpoints" / "step-00000002" / "params.safetensors"
    assert arrays.read(params)["E"].shape == (len(set(TEXT)), 16)


def test_resuming_goes_on_bit_for_bit(xg: Xg, text: Path) -> None:
    words = [MODEL, *SMALL, "--data", "text.txt", "--schedule", "constant", "--eval", 0]
    xg("train", *words, "--steps", 8, "--out", "whole")
    xg("train", *words, "--steps", 5, "--out", "parts")
    assert xg("train", *words, "--steps", 8, "--out", "parts").code == 5  # it holds a run
    assert xg("train", *words, "--steps", 8, "--out", "parts", "--resume").code == 0
    assert losses(text / "whole") == losses(text / "parts")
    said = xg("train", *words, "--steps", 9, "--out", "parts", "--resume", "--set", "act=ReLU")
    assert said.code == 4
    assert "program was" in said.err


def test_rows_of_arrays(xg: Xg, folder: Path) -> None:
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((40, 4))
    arrays.write(folder / "rows.npz", {"X": rows, "t": rows.sum(-1)})
    words = ["--data", "rows.npz", "--steps", 80, "--lr", 0.05, "--set", "p=0"]
    assert xg("train", "tiny.xg", *words).code == 0
    found = losses(folder / "runs" / "tiny")
    assert np.mean(found[-10:]) < 0.3 * np.mean(found[:10])


def test_what_cannot_be_trained(xg: Xg, folder: Path) -> None:
    said = xg("train", DIAGRAMS / "mha.xg", "--data", "rows.npz")
    assert said.code == 5
    arrays.write(folder / "rows.npz", {"X": np.zeros((3, 2, 64))})
    said = xg("train", DIAGRAMS / "mha.xg", "--data", "rows.npz")
    assert said.code == 1
    assert "MHA gives no loss to train on: its outputs are Y" in said.err
    assert "--data names an .npz" in xg("train", "tiny.xg").err


def test_windows_that_the_model_cannot_hold(xg: Xg, text: Path) -> None:
    said = xg("train", MODEL, "--data", "text.txt", "--seq", 600)
    assert said.code == 1
    assert "S = 600 is more than S_max = 512" in said.err


def test_a_run_that_explodes_says_where(xg: Xg, text: Path) -> None:
    words = ["--data", "text.txt", "--lr", 1e30, "--clip", 0, "--warmup", 0, "--eval", 0]
    said = xg("train", MODEL, *SMALL, *words, "--steps", 5)
    assert said.code == 4
    assert "not finite" in said.err
    assert "is made in line" in said.err
