"""`xg train --data` on shards of tokens."""

from pathlib import Path

import numpy as np
import pytest
from cli.conftest import DIAGRAMS, Xg

FILE = DIAGRAMS / "models" / "transformer.xg"
SMALL = ("--set", "N_L=1", "--set", "D=8", "--set", "N_H=2", "--seq", 8, "--steps", 2)


@pytest.fixture
def shards(folder: Path) -> Path:
    for place in range(2):
        tokens = np.arange(place, place + 200, dtype=np.uint16) % 16
        tokens.tofile(folder / f"shard_{place}.bin")
    return folder / "shard_*.bin"


def test_a_run_on_shards_goes_on_and_generates(xg: Xg, folder: Path, shards: Path) -> None:
    words = ("train", FILE, *SMALL, "--set", "V=16", "--data", shards, "--out", folder / "run")
    typed = (*words, "--token-type", "uint16")
    said = xg(*typed, "--sample", 3, "--prompt", "1 2")
    assert said.code == 0
    assert "unigram entropy 2.7" in said.out
    sample = said.out.split("\n\n")[-1].split()
    assert sample[:2] == ["1", "2"]
    assert len(sample) == 5
    assert all(int(word) < 16 for word in sample)
    assert xg("generate", folder / "run", "--prompt", "1", "--tokens", 2).code == 0
    assert xg(*typed, "--resume").code == 0
    np.zeros(200, np.uint16).tofile(folder / "shard_1.bin")
    said = xg(*typed, "--resume")
    assert said.code != 0
    assert "sha256" in said.err


def test_what_is_wrong_with_shards_is_said(xg: Xg, folder: Path, shards: Path) -> None:
    words = ("train", FILE, *SMALL, "--data")
    assert "--token-type uint16, or uint32" in xg(*words, shards).err
    typed = ("--token-type", "uint16")
    said = xg(*words, shards, *typed, "--set", "V=8")
    assert "shard_0.bin has the token 15 at place 15, but the vocabulary ends with 7" in said.err
    said = xg(*words, shards, *typed, "--sample", 3, "--out", folder / "none")
    assert "found 'The'" in said.err
    assert not (folder / "none").exists()
    said = xg(*words, folder / "shard_0.bin", folder / "shard_1.bin", *typed)
    assert "a pattern for several files needs quotes: --data 'shard_*.bin'" in said.err
    said = xg(*words, shards, *typed, "--level", "char")
    assert "--level splits a text, but --data has tokens already" in said.err
    said = xg(*words, folder / "tiny.xg", *typed)
    assert "--token-type is for shards: use --data 'shard_*.bin'" in said.err


def test_a_diagram_without_a_number_of_tokens_asks_for_one(
    xg: Xg, folder: Path, shards: Path
) -> None:
    text = FILE.read_text("utf-8").replace("V = 256", "V")
    (folder / "free.xg").write_text(text, "utf-8")
    words = ("train", folder / "free.xg", *SMALL, "--data", shards, "--token-type", "uint16")
    assert (
        "V has no number: write --tokenizer, or set the number of tokens, such as --set V=50257"
        in xg(*words).err
    )
    assert xg(*words, "--set", "V=16", "--out", folder / "run").code == 0
