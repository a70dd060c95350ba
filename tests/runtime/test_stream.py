"""Text comes piece by piece, and all pieces are the text of all tokens."""

import numpy as np

from xg_runtime.module import Array
from xg_runtime.tokens import ByteVocabulary, Timed, pieces

BYTES = ByteVocabulary()


def streamed(text: bytes, prompt: bytes = b"ab") -> list[str]:
    return list(pieces(iter(text), BYTES, BYTES.encode(prompt)))


def test_letters_come_one_by_one() -> None:
    assert streamed(b"cat") == ["c", "a", "t"]
    assert streamed(b"") == []


def test_a_character_of_several_bytes_comes_when_it_is_whole() -> None:
    assert streamed("aé√".encode()) == ["a", "é", "√"]


def test_what_is_no_character_waits_for_the_next() -> None:
    broken = "\N{REPLACEMENT CHARACTER}"
    assert streamed(b"a\xff\xffb") == ["a", f"{broken}{broken}b"]
    assert streamed("√".encode()[:2]) == [broken]


class Spaced:
    """Words with spaces between them, as tokenizers of words decode."""

    def decode(self, ids: Array) -> str:
        return " ".join(f"w{number}" for number in ids)


def test_a_space_depends_on_the_token_before() -> None:
    found = list(pieces(iter([1, 2, 3]), Spaced(), np.array([0])))
    assert found == [" w1", " w2", " w3"]


def test_the_speed_is_told() -> None:
    timed = Timed(iter([5, 6, 7]))
    assert list(timed) == [5, 6, 7]
    timed.began, timed.times = 0.0, [2.0, 3.0, 4.0]
    assert (
        timed.report(9) == "3 tokens, the first after 2.00 s (9 in the prompt), then 1.0 tokens/s"
    )
    timed.times = [2.0]
    assert timed.report(9) == "1 token, after 2.00 s (9 in the prompt)"
    assert Timed(iter([])).report(9) == "0 tokens"
