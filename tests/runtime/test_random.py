import pytest

import xg.verify.reference.random
from xg_runtime.random import fold, uniform


def test_keys_are_the_same_everywhere() -> None:
    assert fold(0, "batch", 1) == 0xF51FF1242F91EDF1
    assert fold(-1, "γ") == fold(2**64 - 1, "γ") == 0x9989D9324FA83D7F


@pytest.mark.parametrize("seed", [0, 7, -1, 2**70])
def test_keys_are_those_of_the_compiler(seed: int) -> None:
    for place in ("", "W_Q", "layers.3.attn.W_Q", "γ"):
        assert fold(seed, place) == xg.verify.reference.random.key(seed, place)


def test_folding_in_parts_is_folding_at_once() -> None:
    assert fold(fold(3, "dropout"), 7) == fold(3, "dropout", 7)


def test_every_word_and_their_order_count() -> None:
    keys = [fold(0, "a"), fold(1, "a"), fold(0, "b"), fold(0, "a", "b"), fold(0, "b", "a")]
    assert len(set(keys)) == len(keys)


def test_one_bit_of_the_seed_changes_half_of_the_key() -> None:
    flips = [(fold(5, "x") ^ fold(5 ^ 1 << bit, "x")).bit_count() for bit in range(64)]
    assert 28 < sum(flips) / 64 < 36


def test_uniform_numbers_are_in_range_and_spread() -> None:
    numbers = [uniform(fold(0, "sample", place)) for place in range(2000)]
    assert min(numbers) >= 0
    assert max(numbers) < 1
    assert sum(numbers) / 2000 == pytest.approx(0.5, abs=0.02)
    assert uniform(2**64 - 1) < 1
