"""`xg sample`: text from a run, and only from the program that was trained."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import DIAGRAMS, Said, Xg

SMALL = ["--set", "N_L=1", "--set", "D=16", "--set", "N_H=2", "--seq", 16, "--batch", 8]
TEXT = "the cat sat on the mat; the dog sat on the log. " * 40

Train = Callable[..., Said]


@pytest.fixture
def train(xg: Xg, folder: Path) -> Train:
    """Train a model in `run`, on `text.txt`, for as long as it takes to know some words."""
    (folder / "text.txt").write_text(TEXT)
    shutil.copy(DIAGRAMS / "transformer.xg", folder / "lm.xg")

    def call(*words: object) -> Said:
        data = ["--data", "text.txt", "--level", "char", "--eval", 0, "--out", "run"]
        return xg("train", "lm.xg", *SMALL, *data, "--lr", 0.02, "--overwrite", *words)

    assert call("--steps", 80).code == 0
    return call


def test_it_goes_on_with_a_prompt(xg: Xg, train: Train) -> None:
    said = xg("sample", "run", "--prompt", "the c", "--length", 20, "--temperature", 0)
    assert said.code == 0
    assert said.out.startswith("the cat ")
    assert len(said.out) == len("the c") + 20 + len("\n")


def test_seed_and_choice_of_tokens(xg: Xg, train: Train) -> None:
    words = ["sample", "run", "--length", 30, "--prompt", "the ", "--temperature", 3]
    first = xg(*words).out
    assert xg(*words).out == first
    assert xg(*words, "--seed", 1).out != first
    likeliest = xg("sample", "run", "--length", 30, "--prompt", "the ", "--temperature", 0).out
    assert xg(*words, "--top-k", 1).out == likeliest != first


def test_training_with_a_sample_says_the_same(xg: Xg, train: Train) -> None:
    said = train("--steps", 5, "--sample", 25, "--prompt", "the ", "--temperature", 0.5)
    alone = xg("sample", "run", "--length", 25, "--prompt", "the ", "--temperature", 0.5)
    assert said.out.endswith(f"\n\n{alone.out}")


def test_the_run_and_its_diagram_can_be_moved_together(
    xg: Xg, train: Train, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = xg("sample", "run", "--prompt", "the ").out
    (folder / "elsewhere").mkdir()
    for name in ("run", "lm.xg"):
        (folder / name).rename(folder / "elsewhere" / name)
    assert xg("sample", "elsewhere/run", "--prompt", "the ").out == before
    monkeypatch.chdir(folder / "elsewhere" / "run")
    assert xg("sample", ".", "--prompt", "the ").out == before


def test_a_diagram_alone_can_be_moved(xg: Xg, train: Train, folder: Path) -> None:
    before = xg("sample", "run", "--prompt", "the ").out
    (folder / "deep").mkdir()
    (folder / "lm.xg").rename(folder / "deep" / "lm.xg")
    said = xg("sample", "run")
    assert said.code == 5
    assert "cannot read lm.xg" in said.err
    assert xg("sample", "run", "--diagram", "deep/lm.xg", "--prompt", "the ").out == before


def test_a_changed_diagram_is_refused(xg: Xg, train: Train, folder: Path) -> None:
    text = (folder / "lm.xg").read_text(encoding="utf-8")
    (folder / "lm.xg").write_text(text.replace("GELU | ReLU", "ReLU | GELU"), encoding="utf-8")
    said = xg("sample", "run")
    assert said.code == 4
    assert "lm.xg does not give the program that was trained" in said.err


def test_what_cannot_be_sampled(xg: Xg, train: Train, folder: Path) -> None:
    assert "there is no such folder" in xg("sample", "nothing").err
    (folder / "empty").mkdir()
    assert xg("sample", "empty").code == 4
    assert xg("sample", "run", "--prompt", "").code == 1
    said = xg("sample", "run", "--prompt", "Q")
    assert said.code == 1
    assert "'Q' is not in the training text" in said.err
    assert xg("sample", "run", "--temperature", -1).code == 2
    assert xg("sample", "run", "--temperature", "nan").code == 2


@pytest.mark.parametrize("damage", ["", "[]", '{"diagram": 3, "block": null, "settings": {}}'])
def test_a_damaged_recipe_is_told(xg: Xg, train: Train, folder: Path, damage: str) -> None:
    (folder / "run" / "run.json").write_text(damage)
    said = xg("sample", "run")
    assert said.code == 4
    assert "run.json is damaged" in said.err


def test_the_recipe_is_left_by_the_run_that_is_there(xg: Xg, train: Train, folder: Path) -> None:
    recipe = (folder / "run" / "run.json").read_bytes()
    assert json.loads(recipe)["diagram"] == "../lm.xg"
    said = xg("train", "lm.xg", *SMALL, "--data", "text.txt", "--out", "run")  # it holds a run
    assert said.code == 5
    assert (folder / "run" / "run.json").read_bytes() == recipe
    assert xg("train", "lm.xg", *SMALL, "--out", "other", "--resume").code == 4
    assert not (folder / "other" / "run.json").exists()
