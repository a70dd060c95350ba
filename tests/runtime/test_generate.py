from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.generate import Rereading, Sampling, TokenModel, draw, generate
from xg_runtime.module import Arrays, Saved

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


def made(
    model: Fixed, prompt: list[int], length: int, window: int, sampling: Sampling
) -> list[int]:
    reader = Rereading(model, {}, TokenModel(window, others={"t": (1, -1)}))
    return list(generate(reader, np.array(prompt, int), length, sampling))


def drawn(sampling: Sampling, length: int = 2000) -> list[int]:
    return made(Fixed(), [0], length, 1, sampling)


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


def test_top_p_keeps_the_fewest_that_are_enough() -> None:
    assert shares(drawn(Sampling(top_p=0.69))) == pytest.approx([0, 0, 3 / 7, 4 / 7], abs=0.04)
    assert shares(drawn(Sampling(top_p=0.71))) == pytest.approx([0, 2 / 9, 3 / 9, 4 / 9], abs=0.04)
    assert set(drawn(Sampling(top_p=1e-9))) == {3}
    assert shares(drawn(Sampling(top_p=1.0))) == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.04)
    assert shares(drawn(Sampling(top_k=3, top_p=0.7))) == shares(drawn(Sampling(top_k=2)))


def test_chance_goes_through_the_tokens_from_the_likeliest_on() -> None:
    chances = (0.0, 0.39, 0.41, 0.69, 0.71, 0.89, 0.91, 1.0)
    assert [draw(LOGITS, Sampling(), each) for each in chances] == [3, 3, 2, 2, 1, 1, 0, 0]


def test_the_seed_decides() -> None:
    assert drawn(Sampling(seed=1)) == drawn(Sampling(seed=1))
    assert drawn(Sampling(seed=1)) != drawn(Sampling(seed=2))


def test_the_model_sees_the_end_of_a_long_text() -> None:
    model = Fixed()
    assert made(model, [1, 2, 3, 0], 2, 3, Sampling(temperature=0)) == [3, 3]
    assert model.seen == [[2, 3, 0], [3, 0, 3]]


def test_a_short_prompt_grows() -> None:
    model = Fixed()
    made(model, [2], 3, 8, Sampling(temperature=0))
    assert model.seen == [[2], [2, 3], [2, 3, 3]]


def test_a_token_may_be_impossible() -> None:
    model = Fixed(np.array([-np.inf, 0.0, -np.inf, 0.0]))
    assert set(made(model, [0], 50, 4, Sampling())) == {1, 3}


def test_ids_that_mean_nothing_are_not_drawn() -> None:
    reader = Rereading(Fixed(), {}, TokenModel(4, tokens=2, others={"t": (1, -1)}))
    found = generate(reader, np.array([0]), 50, Sampling(temperature=9))
    assert set(found) == {0, 1}


def test_a_text_ends_before_its_stop() -> None:
    reader = Rereading(Fixed(), {}, TokenModel(4, others={"t": (1, -1)}))
    tokens = list(generate(reader, np.array([0]), 500, Sampling(), stop=(0,)))
    assert 0 not in tokens
    assert 0 < len(tokens) < 500


def test_what_cannot_be_generated_is_refused() -> None:
    with pytest.raises(InputError, match="at least one token"):
        made(Fixed(), [], 1, 4, Sampling())
    with pytest.raises(NonFiniteError, match="Z is not finite"):
        made(Fixed(LOGITS * np.nan), [0], 1, 4, Sampling())
