"""Reviews from a file, their words as vectors, and batches of them."""

import math
from pathlib import Path

import numpy as np
import pytest
from examples.sentiment import lexicon, reviews
from examples.sentiment.accuracy import BinaryAccuracy
from examples.sentiment.batches import ReviewSource
from examples.sentiment.lexicon import Lexicon, lexicon_of
from examples.sentiment.reviews import Reviews, reviews_of, split

from xg_runtime.batches import Source
from xg_runtime.errors import CheckpointError, FileError, InputError

SHIPPED = Path(reviews.__file__).with_name("reviews.txt")
GOOD = "pos\tfine film\nneg\tbad film\n" * 5


def test_both_spellings_of_a_label_are_read(tmp_path: Path) -> None:
    text = "\ufeff# a note\r\n\r\n1\tGood one.\r\nNegative\t Bad\tone. \r\n" + GOOD
    (tmp_path / "r.txt").write_text(text, encoding="utf-8", newline="")
    found = reviews.load(tmp_path / "r.txt")
    assert found.texts[:3] == ("Good one.", "Bad\tone.", "fine film")
    assert found.labels[:4] == (1, 0, 1, 0)
    assert len(found) == 12
    assert found.majority == 0.5
    assert found.entropy == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "r.txt holds no reviews: a line is pos or neg, a tab and a text"),
        ("# nothing\n\n", "holds no reviews"),
        ("pos\tgood\n" * 9, "r.txt holds no negative reviews of 9: at least 5 of each kind"),
        ("neg\tbad\n" * 6 + "pos\tgood\n", "holds 1 positive review of 7: at least 5"),
        (GOOD + "good film\n", "line 11: no tab between a label and a text"),
        (GOOD + "meh\tfilm\n", "line 11: 'meh' is no label: pos or neg"),
        (GOOD + "\tfilm\n", "line 11: '' is no label"),
        (GOOD + "pos\t…!\n", "line 11: no word behind the tab"),
        ("x\n" * 9, "and 4 more"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        reviews_of(text.encode(), "r.txt")
    assert told in str(caught.value)


def test_a_file_in_another_encoding_or_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"r\.txt is not UTF-8 in line 11: save it as UTF-8"):
        reviews_of(GOOD.encode() + "pos\tschön".encode("latin-1"), "r.txt")
    with pytest.raises(FileError, match="no such file"):
        reviews.load(tmp_path / "none.txt")


def test_every_fifth_of_either_label_is_held() -> None:
    lines = [f"{'pos' if n % 3 else 'neg'}\treview {n}" for n in range(30)]
    train, held = split(reviews_of("\n".join(lines).encode(), "r.txt"))
    assert held.texts == (
        "review 7",
        "review 12",
        "review 14",
        "review 22",
        "review 27",
        "review 29",
    )
    assert held.labels == (1, 0, 1, 1, 0, 1)
    assert len(train) == 24
    assert not {*train.texts} & {*held.texts}


def test_many_held_reviews_fill_batches() -> None:
    found = reviews_of(GOOD.encode() * 20, "r.txt")
    assert [len(part) for part in split(found, whole=512)] == [160, 40]
    train, held = split(found, whole=16)
    assert (len(train), len(held)) == (168, 32)


def test_the_shipped_reviews_are_many_and_even() -> None:
    found = reviews.load(SHIPPED)
    assert len(found) >= 2000
    assert len(set(found.texts)) == len(found)
    assert found.majority == 0.5


@pytest.fixture(scope="module")
def found() -> Reviews:
    whole = reviews.load(SHIPPED)
    return Reviews(whole.texts[:400], whole.labels[:400], "hash")


@pytest.fixture(scope="module")
def small(found: Reviews) -> Lexicon:
    return lexicon_of(split(found)[0].texts, 20)


def test_known_words_have_vectors_of_one_length(small: Lexicon) -> None:
    assert small.vectors.shape == (len(small.words) + 1, 20)
    assert small.vectors.dtype == np.float32
    assert small.words[0] == "the"
    assert np.linalg.norm(small.vectors[:-1], axis=1) == pytest.approx(np.sqrt(20), rel=1e-5)


def test_short_texts_are_filled_and_long_ones_cut(small: Lexicon) -> None:
    nothing = len(small.words)
    assert not small.vectors[nothing].any()
    assert small.ids("The FILM xyzzy", 5).tolist() == [
        small.words.index("the"),
        small.words.index("film"),
        *[nothing] * 3,
    ]
    assert small.ids("film " * 9, 4).tolist() == [small.words.index("film")] * 4
    assert small.unknown("The xyzzy film") == ["xyzzy"]


def test_only_words_that_come_back_are_known() -> None:
    known = lexicon_of(["a b c d", "b a d", "once a b d"], 2, most=3).words
    assert known == ("a", "b", "d")
    with pytest.raises(
        InputError, match="have 2 words that occur more than once: for vectors of 2"
    ):
        lexicon_of(["a b", "b a c"], 2)


def test_a_lexicon_is_the_same_when_it_is_read(small: Lexicon, tmp_path: Path) -> None:
    path = tmp_path / "l.safetensors"
    path.write_bytes(small.packed)
    again = lexicon.read(path)
    assert again.words == small.words
    assert np.array_equal(again.vectors, small.vectors)
    assert again.sha256 == small.sha256
    for damage in (b"", small.packed[:-7], Lexicon(("a",), small.vectors).packed):
        path.write_bytes(damage)
        with pytest.raises(CheckpointError, match="damaged"):
            lexicon.read(path)


def source(found: Reviews, small: Lexicon, **own: object) -> ReviewSource:
    given: dict[str, object] = {"length": 12, "batch_size": 8, "target": (1,), "inputs": ("X", "t")}
    return ReviewSource(found, small, **(given | own))  # pyright: ignore[reportArgumentType]


def test_a_batch_depends_on_seed_and_step_only(found: Reviews, small: Lexicon) -> None:
    one = source(found, small)
    batch = one.batch(3)
    assert {name: array.shape for name, array in batch.items()} == {"X": (8, 12, 20), "t": (8, 1)}
    assert batch["X"].dtype == np.float32
    again = source(found, small).batch(3)
    assert all(np.array_equal(batch[name], again[name]) for name in batch)
    assert not np.array_equal(batch["X"], one.batch(4)["X"])
    assert not np.array_equal(batch["X"], source(found, small, seed=1).batch(3)["X"])
    assert source(found, small, dtype=np.float64, target=()).batch(0)["t"].shape == (8,)


def test_validation_is_of_the_held_reviews(found: Reviews, small: Lexicon) -> None:
    one: Source = source(found, small)
    (batch,) = one.validation()
    held = split(found)[1]
    assert batch["t"][:, 0].tolist() == list(held.labels)
    assert np.array_equal(batch["X"][0], small.vectors[small.ids(held.texts[0], 12)])
    assert one.describe()["lexicon"] == small.sha256


def test_being_right_is_counted() -> None:
    said = {"y": np.array([[0.9], [0.2], [0.5], [0.6]])}
    true = {"t": np.array([[1.0], [0.0], [1.0], [0.0]])}
    assert BinaryAccuracy("y", "t").right(said, true) == (2, 4)
    assert BinaryAccuracy("y", "t", threshold=0.1).right(said, true) == (2, 4)
    assert BinaryAccuracy("y", "t", threshold=0.4).right(said, true) == (3, 4)
