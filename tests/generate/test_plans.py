"""A hundred random plans of random programs: refused with a diagnosis, or as on one device."""

from __future__ import annotations

import pytest
from generate.plans import main

PLANS = 100
CHUNK = 25


@pytest.mark.parametrize("start", range(0, PLANS, CHUNK))
def test_random_plans(start: int) -> None:
    verdicts, failures = main(start, start + CHUNK)
    assert not failures, "\n".join(failures)
    assert verdicts["proven"] > 3
