"""Random plans of random programs: refused with a diagnosis, or as on one device."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest
from fuzz.plans import prove_text, tried
from fuzz.proof import Failure
from fuzz.recorded import read, recorded
from tier import THOROUGH

from xg.passes.shard.resharding import Moves

PLANS = 100 if THOROUGH else 40  # beside those of random programs that are tried with a plan, too
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


AGAIN = """\
dim F, E

block Main (x [F, 2]) -> y [2, F, E] {
    param γ [E]
    x -> BC[f, d -> e=E, f, d] : p [E, F, 2]
    p -> T[e, f, d -> d, f, e] -> ⊙<-BC(γ) : y
}

mesh N_T, N_D

plan P of Main {
    γ [E/N_T]
    p [E, F/N_D, 2]
}
"""


def test_a_line_that_is_lost_on_the_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """N_T makes p again in parts, of which the line says how N_D cuts them."""
    assert prove_text(AGAIN, {}, 0) == "proven"
    monkeypatch.setattr(Moves, "made_again", Mock(return_value=()))
    with pytest.raises(Failure, match="N_D as S"):
        prove_text(AGAIN, {}, 0)
