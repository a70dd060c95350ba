"""`xg generate`: text from a run, and only from the program that was trained."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from backends import writing
from cli.conftest import DIAGRAMS, Said, Xg

SMALL = ["--set", "N_L=1", "--set", "D=16", "--set", "N_H=2", "--seq", 16, "--batch", 8]
TEXT = "the cat sat on the mat; the dog sat on the log. " * 40

Train = Callable[..., Said]


TRAINED: list[Path] = []  # the run of the first test that needs one


@pytest.fixture
def train(xg: Xg, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Train a model in `run`, on `text.txt`, for as long as it takes to know some words."""
    (folder / "text.txt").write_text(TEXT)
    shutil.copy(DIAGRAMS / "models" / "transformer.xg", folder / "lm.xg")

    def call(*words: object) -> Said:
        data = ["--data", "text.txt", "--level", "char", "--eval", 0, "--out", "run"]
        return xg("train", "lm.xg", *SMALL, *data, "--lr", 0.02, "--overwrite", *words)

    if TRAINED:
        shutil.copytree(TRAINED[0], folder / "run")
    else:
        assert call("--steps", 80).code == 0
        TRAINED.append(shutil.copytree(folder / "run", tmp_path_factory.mktemp("trained") / "run"))
    return call


def test_it_goes_on_with_a_prompt(xg: Xg, train: Train) -> None:
    said = xg("generate", "run", "--prompt", "the c", "--tokens", 20, "--temperature", 0)
    assert said.code == 0
    assert said.out.startswith("the cat ")
    assert len(said.out) == len("the c") + 20 + len("\n")


def test_a_block_that_takes_no_ids_is_told_so_and_not_of_parameters(xg: Xg) -> None:
    said = xg("generate", "tiny.xg", "--prompt", "the")
    assert (said.code, said.out) == (1, "")
    assert "Net cannot continue a text: it takes X [B, D], t [B], but no token ids" in said.err
    assert "takes ids [B, S] in V, and gives logits [B, S, V]" in said.err
    assert "parameters" not in said.err
    said = xg("generate", "gpt2", "--prompt", "the")
    assert said.code == 2
    assert "--weights names a file with them, or `xg train gpt2` learns some" in said.err


def test_seed_and_choice_of_tokens(xg: Xg, train: Train) -> None:
    words = ["generate", "run", "--tokens", 30, "--prompt", "the ", "--temperature", 3]
    first = xg(*words).out
    assert xg(*words).out == first
    assert xg(*words, "--seed", 1).out != first
    likeliest = xg("generate", "run", "--tokens", 30, "--prompt", "the ", "--temperature", 0).out
    assert xg(*words, "--top-k", 1).out == likeliest != first


def test_the_cache_and_the_backend_make_no_difference(xg: Xg, train: Train) -> None:
    words = ["generate", "run", "--tokens", 40, "--prompt", "the ", "--temperature", 1]
    cached = xg(*words)
    assert xg(*words, "--no-cache").out == cached.out
    for backend in writing("step"):
        assert xg(*words, "--backend", backend).out == cached.out
    assert xg(*words, "--kernels").out == cached.out
    assert "40 tokens, the first after" in cached.err


def test_a_text_ends_at_its_stop(xg: Xg, train: Train) -> None:
    words = ["generate", "run", "--prompt", "the c", "--temperature", 0]
    assert xg(*words, "--stop", " ").out == "the cat\n"
    assert xg(*words, "--tokens", 0).out == "the c\n"


def test_training_with_a_sample_says_the_same(xg: Xg, train: Train) -> None:
    said = train("--steps", 5, "--sample", 25, "--prompt", "the ", "--temperature", 0.5)
    alone = xg("generate", "run", "--tokens", 25, "--prompt", "the ", "--temperature", 0.5)
    assert said.out.endswith(f"\n\n{alone.out}")


def test_the_run_and_its_diagram_can_be_moved_together(
    xg: Xg, train: Train, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = xg("generate", "run", "--prompt", "the ").out
    (folder / "elsewhere").mkdir()
    for name in ("run", "lm.xg"):
        (folder / name).rename(folder / "elsewhere" / name)
    assert xg("generate", "elsewhere/run", "--prompt", "the ").out == before
    monkeypatch.chdir(folder / "elsewhere" / "run")
    assert xg("generate", ".", "--prompt", "the ").out == before


def test_a_diagram_alone_can_be_moved(xg: Xg, train: Train, folder: Path) -> None:
    before = xg("generate", "run", "--prompt", "the ").out
    (folder / "deep").mkdir()
    (folder / "lm.xg").rename(folder / "deep" / "lm.xg")
    said = xg("generate", "run")
    assert said.code == 5
    assert "cannot read lm.xg" in said.err
    assert xg("generate", "run", "--diagram", "deep/lm.xg", "--prompt", "the ").out == before


def test_a_changed_diagram_is_refused(xg: Xg, train: Train, folder: Path) -> None:
    text = (folder / "lm.xg").read_text(encoding="utf-8")
    (folder / "lm.xg").write_text(text.replace("GELU | ReLU", "ReLU | GELU"), encoding="utf-8")
    said = xg("generate", "run")
    assert said.code == 4
    assert "lm.xg does not give the program that was trained" in said.err


def test_what_cannot_go_on(xg: Xg, train: Train, folder: Path) -> None:
    assert xg("generate", "nothing").code == 5
    (folder / "empty").mkdir()
    assert xg("generate", "empty").code == 4
    assert xg("generate", "run", "--prompt", "").code == 1
    said = xg("generate", "run", "--prompt", "Q")
    assert said.code == 1
    assert "no character 'Q'" in said.err
    assert xg("generate", "run", "--temperature", -1).code == 2
    assert xg("generate", "run", "--top-p", 0).code == 2
    assert xg("generate", "run", "--top-p", 1.5).code == 2
    assert xg("generate", "run", "--set", "D=8").code == 2
    assert xg("generate", "lm.xg").code == 2
    assert "'th' is 2 tokens of this model" in xg("generate", "run", "--stop", "th").err
    assert xg("generate", "run", "--temperature", "nan").code == 2


@pytest.mark.parametrize("damage", ["", "[]", '{"diagram": 3, "block": null, "settings": {}}'])
def test_a_damaged_recipe_is_told(xg: Xg, train: Train, folder: Path, damage: str) -> None:
    (folder / "run" / "run.json").write_text(damage)
    said = xg("generate", "run")
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
