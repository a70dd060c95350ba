from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.module import Arrays, Saved
from xg_runtime.sample import Sampling, TokenModel, sample

LOGITS = np.log(np.array([0.1, 0.2, 0.3, 0.4]))


@dataclass
class Fixed:
    """A model whose logits never change, and which notes what it was shown."""

    logits: np.ndarray[tuple[int], np.dtype[np.float64]] = field(default_factory=LOGITS.copy)
    seen: list[list[int]] = field(default_factory=list[list[int]])

    def init(self, seed: int = 0, dtype: object = None) -> Arrays:
        return {}

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Saved]:
        assert seed is None
        assert inputs["t"].shape == inputs["ids"].shape
        self.seen.append(inputs["ids"][0].tolist())
        return {"Z": np.broadcast_to(self.logits, (*inputs["ids"].shape, 4))}, None

    def backward(self, params: Arrays, saved: Saved, d_outputs: Arrays) -> Arrays:
        raise AssertionError("sampling needs no gradients")


def drawn(sampling: Sampling, length: int = 2000) -> list[int]:
    text = sample(Fixed(), {}, np.array([0]), length, TokenModel(window=1), sampling)
    return text[1:].tolist()


def shares(tokens: list[int]) -> list[float]:
    counts = Counter(tokens)
    return [counts[token] / len(tokens) for token in range(4)]


def test_tokens_come_as_often_as_they_are_likely() -> None:
    assert shares(drawn(Sampling())) == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.04)


def test_temperature_sharpens() -> None:
    squares = np.array([1, 4, 9, 16]) / 30
    assert shares(drawn(Sampling(temperature=0.5))) == pytest.approx(squares, abs=0.04)
    assert set(drawn(Sampling(temperature=0))) == {3}


def test_top_k_keeps_the_likeliest() -> None:
    assert shares(drawn(Sampling(top_k=2))) == pytest.approx([0, 0, 3 / 7, 4 / 7], abs=0.04)
    assert set(drawn(Sampling(top_k=1))) == {3}


def test_the_seed_decides() -> None:
    assert drawn(Sampling(seed=1)) == drawn(Sampling(seed=1))
    assert drawn(Sampling(seed=1)) != drawn(Sampling(seed=2))


def test_the_model_sees_the_end_of_a_long_text() -> None:
    model = Fixed()
    found = sample(model, {}, np.array([1, 2, 3, 0]), 2, TokenModel(3), Sampling(temperature=0))
    assert model.seen == [[2, 3, 0], [3, 0, 3]]
    assert found.tolist() == [1, 2, 3, 0, 3, 3]
    assert found.dtype == np.int64


def test_a_short_prompt_grows() -> None:
    model = Fixed()
    sample(model, {}, np.array([2]), 3, TokenModel(8), Sampling(temperature=0))
    assert model.seen == [[2], [2, 3], [2, 3, 3]]


def test_a_token_may_be_impossible() -> None:
    model = Fixed(np.array([-np.inf, 0.0, -np.inf, 0.0]))
    found = sample(model, {}, np.array([0]), 50, TokenModel(4), Sampling())
    assert set(found[1:].tolist()) == {1, 3}


def test_what_cannot_be_sampled_is_refused() -> None:
    with pytest.raises(InputError, match="at least one token"):
        sample(Fixed(), {}, np.array([], int), 1, TokenModel(4), Sampling())
    with pytest.raises(NonFiniteError, match="Z is not finite"):
        sample(Fixed(LOGITS * np.nan), {}, np.array([0]), 1, TokenModel(4), Sampling())
