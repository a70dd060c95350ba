from pathlib import Path

import numpy as np
import pytest

from xg_runtime.batches import TokenType, find
from xg_runtime.batches import read_shards as read
from xg_runtime.errors import FileError, InputError
from xg_runtime.tokens import IdVocabulary, vocabulary_from

TOKENS = np.array([3, 1, 4, 1, 5, 9], np.uint16)


def headed(*numbers: int) -> bytes:
    """A header of llm.c."""
    return np.array([*numbers, *[0] * (256 - len(numbers))], "<i4").tobytes()


def wide(tokens: np.ndarray = TOKENS, kind: str = "<u4") -> bytes:
    return tokens.astype(kind).tobytes()


def test_shards_are_one_text_in_the_order_of_their_names(tmp_path: Path) -> None:
    for place in (1, 0):
        (tmp_path / f"shard_{place}.bin").write_bytes(wide(TOKENS + place, "<u2"))
    paths = find(tmp_path / "shard_*.bin")
    assert [path.name for path in paths] == ["shard_0.bin", "shard_1.bin"]
    shards = read(paths, "uint16", 11)
    assert shards.ids.tolist() == [3, 1, 4, 1, 5, 9, 4, 2, 5, 2, 6, 10]
    assert shards.ids.dtype == np.uint16
    assert shards.sha256 != read(paths[::-1], "uint16", 11).sha256
    with pytest.raises(InputError, match=r"there is no file .*none_\*\.bin"):
        find(tmp_path / "none_*.bin")
    assert find(tmp_path / "none.bin") == [tmp_path / "none.bin"]
    with pytest.raises(FileError, match=r"cannot read .*none\.bin"):
        read([tmp_path / "none.bin"], "uint16", 11)


@pytest.mark.parametrize(
    ("magic", "version", "kind"), [(20240520, 1, "uint16"), (20240801, 7, "uint32")]
)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_header_says_the_type(
    tmp_path: Path, magic: int, version: int, kind: TokenType, is_named: bool
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(headed(magic, version, len(TOKENS)) + wide(kind=np.dtype(kind).str))
    ids = read([path], kind if is_named else None, 10).ids
    assert ids.tolist() == TOKENS.tolist()
    assert ids.dtype.name == kind


REFUSED: dict[str, tuple[bytes, TokenType | None]] = {
    "a.bin does not say how wide its tokens are: write --token-type uint16, or uint32": (
        wide(),
        None,
    ),
    "a.bin must hold whole tokens of 2 bytes; found 13 bytes": (wide(kind="<u2") + b"\0", "uint16"),
    "the header of a.bin says uint16, not uint32": (
        headed(20240520, 1, 6) + wide(kind="<u2"),
        "uint32",
    ),
    "the header of a.bin says 7 tokens, but it has 6": (
        headed(20240520, 1, 7) + wide(kind="<u2"),
        None,
    ),
    "a.bin has the token 9 at place 5, but the vocabulary ends with 8": (wide(), "uint32"),
    "a.bin has the token 589,829 at place 2": (wide(kind="<u2"), "uint32"),
    "a.bin has no tokens": (b"", "uint16"),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_ambiguous_is_refused(tmp_path: Path, said: str) -> None:
    content, kind = REFUSED[said]
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(InputError) as refused:
        read([tmp_path / "a.bin"], kind, 9)
    assert said in refused.value.message


def test_shards_of_different_types_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(headed(20240520, 1, 6) + wide(kind="<u2"))
    (tmp_path / "b.bin").write_bytes(headed(20240801, 7, 6) + wide())
    with pytest.raises(
        InputError, match=r"must have one type of token; found a\.bin uint16, b\.bin uint32"
    ):
        read([tmp_path / "a.bin", tmp_path / "b.bin"], None, 10)


def test_ids_without_a_text_are_written_as_numbers() -> None:
    vocabulary = IdVocabulary(11)
    assert vocabulary.encode(b"3 10\n").tolist() == [3, 10]
    assert "3 10" + vocabulary.decode(np.array([7, 0])) == "3 10 7 0"
    assert vocabulary_from(vocabulary.describe()) == vocabulary
    for wrong in ("The", "11", "-1", "1.0", "²", "9" * 5000):
        with pytest.raises(InputError, match="without a tokenizer, a text is numbers"):
            vocabulary.encode(wrong.encode())
