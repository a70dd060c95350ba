import math
from pathlib import Path

import numpy as np
import pytest

from xg_runtime.batches import (
    ArraySource,
    Source,
    TextSource,
    corpus_of,
    default_text,
    load,
    unigram_entropy,
)
from xg_runtime.errors import FileError, InputError
from xg_runtime.tokens import ByteVocabulary, CharVocabulary, vocabulary_from, vocabulary_of

TEXT = "Ein Wörterbuch:\nαβγ 🙂"


def test_bytes_are_their_own_ids() -> None:
    vocabulary = vocabulary_of(b"\xff\x00", "byte")
    assert vocabulary.size == 256
    assert vocabulary.encode(b"\xff\x00").tolist() == [255, 0]
    assert vocabulary.decode(ByteVocabulary().encode(TEXT.encode())) == TEXT
    assert vocabulary.decode(np.array([0xC3, 65])) == "\ufffdA"


def test_characters_have_ids_in_code_point_order() -> None:
    vocabulary = vocabulary_of(TEXT.encode(), "char")
    assert vocabulary.size == len(set(TEXT))
    ids = vocabulary.encode(TEXT.encode())
    assert vocabulary.decode(ids) == TEXT
    assert vocabulary.decode(np.arange(vocabulary.size)) == "".join(sorted(set(TEXT)))
    with pytest.raises(InputError, match="the model has no character 'Z'"):
        vocabulary.encode(b"EinZ")
    with pytest.raises(InputError, match=r"no character '.U0010ffff'"):
        vocabulary.encode("Ein\U0010ffff".encode())  # greater than each that has an id
    with pytest.raises(InputError, match="not UTF-8 at byte 1"):
        vocabulary_of(b"a\xff", "char")


def test_a_vocabulary_is_rebuilt_from_its_description() -> None:
    for vocabulary in (ByteVocabulary(), CharVocabulary("abc")):
        assert vocabulary_from(vocabulary.describe()) == vocabulary


def test_the_default_text_is_english_and_the_same_each_time() -> None:
    text = default_text()
    assert text == default_text()
    assert len(text) > 300_000
    assert text.count(b" the ") > 1000


def test_a_file_is_read_and_split(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"abcdefghij")
    corpus = load(tmp_path / "a.txt", validation=0.2)
    assert bytes(corpus.train.tolist()) == b"abcdefgh"
    assert bytes(corpus.validation.tolist()) == b"ij"
    assert corpus.sha256.startswith("72399361da6a7754")
    with pytest.raises(FileError, match="no such file"):
        load(tmp_path / "none.txt")
    with pytest.raises(InputError, match="empty"):
        corpus_of(b"")


def test_entropy_is_in_nats() -> None:
    assert unigram_entropy(np.array([3, 7, 3, 7])) == pytest.approx(math.log(2))
    assert unigram_entropy(np.array([5, 5])) == 0
    assert corpus_of(b"aabb", validation=0.0).entropy == pytest.approx(math.log(2))


def text_source(seed: int = 0, batch: int = 4) -> TextSource:
    return TextSource(corpus_of(bytes(range(250))), batch, 6, seed=seed)


def test_targets_are_the_next_tokens() -> None:
    source = text_source()
    for inputs in [source.batch(0), source.batch(999), *source.validation()]:
        assert inputs["ids"].shape == (4, 6)
        assert inputs["ids"].dtype == np.int64
        assert np.array_equal(inputs["t"], inputs["ids"] + 1)


def test_a_batch_depends_on_seed_and_step_only() -> None:
    assert np.array_equal(text_source().batch(7)["ids"], text_source().batch(7)["ids"])
    others = [text_source().batch(8), text_source(seed=1).batch(7)]
    assert all(not np.array_equal(text_source().batch(7)["ids"], o["ids"]) for o in others)


def test_training_never_sees_validation_tokens() -> None:
    source = text_source(batch=64)
    seen = np.unique(np.concatenate([source.batch(step)["t"].ravel() for step in range(100)]))
    assert seen.tolist() == list(range(1, 225))  # the first token is never a target
    held = np.concatenate([inputs["ids"].ravel() for inputs in text_source().validation()])
    assert held.min() == 225


def test_a_text_shorter_than_its_window_is_refused() -> None:
    with pytest.raises(InputError, match="a window of 9 tokens needs a longer text: only 9 tokens"):
        TextSource(corpus_of(b"0123456789"), 1, 9)
    no_validation = TextSource(corpus_of(b"0123456789"), 1, 8)
    assert list(no_validation.validation()) == []


def array_source(held: int = 4) -> ArraySource:
    arrays = {"X": np.arange(20.0).reshape(10, 2), "t": np.arange(10), "mask": np.ones(3)}
    return ArraySource(arrays, frozenset({"X", "t"}), 3, "hash", held=held)


def test_rows_of_all_arrays_belong_together() -> None:
    source: Source = array_source()
    for step in range(50):
        inputs = source.batch(step)
        assert np.array_equal(inputs["X"][:, 0], 2 * inputs["t"])
        assert inputs["t"].max() < 6
        assert inputs["mask"].shape == (3,)


def test_held_rows_come_in_whole_batches() -> None:
    assert [inputs["t"].tolist() for inputs in array_source().validation()] == [[6, 7, 8]]
    assert [inputs["t"].tolist() for inputs in array_source(2).validation()] == [[8, 9]]
    assert list(array_source(0).validation()) == []


def test_rows_that_do_not_match_are_refused() -> None:
    with pytest.raises(InputError, match="X, t must have the same number of rows"):
        ArraySource({"X": np.ones(3), "t": np.ones(4)}, frozenset("Xt"), 1, "hash")
    with pytest.raises(InputError, match="no rows are left to train on: validation takes 10"):
        array_source(10)
