"""When gradients agree, of arrays that are compared in parts."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from xg_runtime import probe

DRAW = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1_000_003,), (3, 400_001), (1000, 7, 90), (1, 700_000)])
def test_parts_have_the_distance_of_the_whole(shape: tuple[int, ...]) -> None:
    a, b = DRAW.standard_normal((2, *shape))
    found = probe.Apart.of(a.T, b.T)
    assert found.distance == pytest.approx(float(np.linalg.norm(a - b)), rel=1e-13)
    b.flat[-1] = np.nan
    assert math.isnan(probe.error(a, b, 1.0))
    assert probe.error(a, a.copy(), 1.0) == 0.0


def test_large_arrays_are_compared_in_little_memory() -> None:
    a, b = np.ones((2, 1000, 1000))
    tracemalloc.start()
    assert probe.error(a, b, 0.0) == 0.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < a.nbytes / 2
