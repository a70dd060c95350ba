"""A hundred random plans of random programs: refused with a diagnosis, or as on one device."""

from __future__ import annotations

import pytest
from fuzz.plans import main, prove_plan

PLANS = 100
CHUNK = 25
# One call cut in two ways; values made in two states; instances of one key; parts of a split made
# anew; an operator of the file between constants and slices; a plan that cuts nothing; sizes that
# only unused steps bound; axes that are equal for all primes of one symbol.
ONCE_WRONG = (625, 922, 1023, 1278, 1369, 1992, 2219, 2756, 2811, 2906, 20040, 22128)


@pytest.mark.parametrize("start", range(0, PLANS, CHUNK))
def test_random_plans(start: int) -> None:
    verdicts, failures = main(start, start + CHUNK)
    assert not failures, "\n".join(failures)
    assert verdicts["proven"] > 3


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_plans_that_were_wrong_once(seed: int) -> None:
    assert prove_plan(seed) == "proven"
