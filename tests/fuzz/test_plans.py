"""Random plans of random programs: refused with a diagnosis, or as on one device."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.plans import prove_text, tried
from fuzz.recorded import read, recorded
from tier import THOROUGH

PLANS = 100 if THOROUGH else 60  # beside those of random programs that are tried with a plan, too
CHUNK = 20


@pytest.mark.parametrize("start", range(0, PLANS, CHUNK))
def test_random_plans(start: int) -> None:
    verdicts, failures = tried(start, start + CHUNK)
    assert not failures, "\n".join(failures)
    assert verdicts["proven"] > 3


@pytest.mark.parametrize("path", recorded("plan"), ids=lambda path: path.stem)
def test_plans_that_were_wrong_once(path: Path) -> None:
    plan = read(path)
    assert prove_text(plan.text, plan.settings, plan.seed) == "proven"
