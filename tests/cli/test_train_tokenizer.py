"""`xg train --tokenizer`: a text in the tokens of a published model."""

from importlib import import_module
from pathlib import Path

import pytest
from cli.conftest import DIAGRAMS, Xg

FILE = DIAGRAMS / "models" / "transformer.xg"
TEXT = "the cat sat on the mat and the dog sat on the cat . " * 20
SMALL = ("--set", "N_L=1", "--set", "D=8", "--set", "N_H=2", "--seq", 8, "--schedule", "constant")


@pytest.fixture
def tokenizer(folder: Path) -> Path:
    """One token for each word; its file is beside the text."""
    tokenizers = import_module("tokenizers")
    words = {word: number for number, word in enumerate(sorted({*TEXT.split(), "<unknown>"}))}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unknown>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.save(str(folder / "words.json"))
    (folder / "text.txt").write_text(TEXT, "utf-8")
    return folder / "words.json"


def test_a_run_keeps_the_tokenizer_it_was_trained_with(
    xg: Xg, folder: Path, tokenizer: Path
) -> None:
    run = ("--data", folder / "text.txt", "--out", folder / "run", "--steps")
    words = ("train", FILE, *SMALL, *run)
    assert xg(*words, 2, "--tokenizer", tokenizer).code == 0
    tokenizer.unlink()
    kept = folder / "run" / "tokenizer.json"
    said = xg("generate", folder / "run", "--prompt", "the cat", "--tokens", 3)
    assert said.code == 0
    written = said.out.split()
    assert written[:2] == ["the", "cat"]
    assert len(written) == 5
    assert set(written) <= {*TEXT.split(), "<unknown>"}

    assert xg(*words, 3, "--tokenizer", kept, "--resume").code == 0
    said = xg(*words, 4, "--resume")
    assert said.code != 0
    assert 'vocabulary level was "tokenizer" and is "byte"' in said.err

    kept.write_text(kept.read_text("utf-8").replace('"cat"', '"cow"'), "utf-8")
    said = xg("generate", folder / "run")
    assert said.code != 0
    assert "is not the one that was trained with" in said.err


def test_what_is_wrong_with_a_tokenizer_is_said(xg: Xg, folder: Path, tokenizer: Path) -> None:
    data = ("--data", folder / "text.txt")
    said = xg("train", FILE, *SMALL, *data, "--tokenizer", folder / "text.txt")
    assert said.code != 0
    assert "text.txt is not a tokenizer.json" in said.err
    said = xg("train", FILE, *data, "--tokenizer", tokenizer, "--level", "char")
    assert said.code != 0
    assert "but --tokenizer has its own tokens" in said.err
    (folder / "text.txt").write_bytes(b"\xff\xfe")
    said = xg("train", FILE, *SMALL, *data, "--tokenizer", tokenizer)
    assert said.code != 0
    assert "is not UTF-8 at byte 0" in said.err
