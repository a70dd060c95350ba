"""`xg generate FILE --weights`: parameters from a file, tokens by a published tokenizer."""

import builtins
import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from cli.conftest import DIAGRAMS, Xg

import xg as package
from xg_runtime import arrays

SIZES = {"V": 9, "D": 8, "N_L": 2, "N_H": 2, "D_ff": 12, "S_max": 30}
SETTINGS = [word for name, size in SIZES.items() for word in ("--set", f"{name}={size}")]
WORDS = ["the", "cat", "sat", "on", "mat", "dog", "and", "<end>"]


@pytest.fixture
def model(folder: Path) -> Path:
    """A random model and its tokenizer, of fewer words than the model has rows."""
    tokenizers = import_module("tokenizers")
    words = {word: number for number, word in enumerate(WORDS)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<end>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    (folder / "model").mkdir()
    tokenizer.save(str(folder / "model" / "tokenizer.json"))
    program = package.compile(DIAGRAMS / "models" / "transformer.xg", sizes=SIZES)
    params = program.load().init(3, np.float64)
    arrays.write(folder / "model" / "model.safetensors", params)
    return folder / "model"


def words(model: Path, *more: object) -> list[object]:
    file = DIAGRAMS / "models" / "transformer.xg"
    given = ["--weights", model / "model.safetensors", "--prompt", "the cat", "--tokens", 12]
    return ["generate", file, *SETTINGS, *given, *more]


def test_words_of_a_tokenizer(xg: Xg, model: Path) -> None:
    said = xg(*words(model, "--temperature", 2))
    assert said.code == 0, said.err
    made = said.out.split()
    assert made[:2] == ["the", "cat"]
    assert len(made) == 14
    assert set(made) <= set(WORDS)
    named = xg(*words(model, "--temperature", 2, "--tokenizer", model / "tokenizer.json"))
    assert named.out == said.out
    assert xg(*words(model, "--temperature", 2, "--no-cache")).out == said.out


def test_a_text_ends_where_the_config_says(xg: Xg, model: Path) -> None:
    free = xg(*words(model, "--temperature", 2)).out.split()
    end = WORDS.index(free[5])
    (model / "config.json").write_text(json.dumps({"eos_token_id": [end, 99]}))
    ended = xg(*words(model, "--temperature", 2)).out.split()
    assert ended == free[: free.index(WORDS[end], 2)]
    (model / "config.json").write_text("[")
    assert xg(*words(model)).code == 4


def test_a_token_by_its_name_ends_a_text(xg: Xg, model: Path) -> None:
    free = xg(*words(model, "--temperature", 2)).out.split()
    ended = xg(*words(model, "--temperature", 2, "--stop", free[4])).out.split()
    assert ended == free[: free.index(free[4], 2)]
    said = xg(*words(model, "--stop", "horse"))
    assert said.code == 1
    assert "has no token 'horse'" in said.err


def test_bytes_need_no_tokenizer(xg: Xg, model: Path) -> None:
    said = xg(*words(model, "--tokenizer", "bytes"))
    assert said.code == 1
    assert "LM knows 9 tokens, but the tokenizer has 256" in said.err


def test_what_the_tokens_are_has_to_be_said(xg: Xg, model: Path) -> None:
    (model / "tokenizer.json").rename(model / "other.json")
    said = xg(*words(model))
    assert said.code == 1
    assert "generating text needs a tokenizer: name a tokenizer.json with --tokenizer" in said.err
    (model / "other.json").write_text("{}")
    said = xg(*words(model, "--tokenizer", model / "other.json"))
    assert said.code == 1
    assert "other.json is not a tokenizer.json" in said.err
    assert xg(*words(model, "--tokenizer", "nothing.json")).code == 5


def test_without_the_package_it_is_named(
    xg: Xg, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "tokenizers":
            raise ImportError(name)
        return usual(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    said = xg(*words(model))
    assert said.code == 1
    assert "needs the package tokenizers: pip install 'xg[generate]'" in said.err


def test_a_model_that_looks_ahead_is_refused(xg: Xg, folder: Path) -> None:
    bert = DIAGRAMS / "models" / "bert.xg"
    np.savez(folder / "none.npz", E=np.zeros((3, 3)))
    said = xg("generate", bert, "--block", "BERT", "--weights", "none.npz", "--tokenizer", "bytes")
    assert said.code == 1
