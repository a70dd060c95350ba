"""Where every gradient is zero, rounding is accepted and anything larger is an error."""

from __future__ import annotations

import numpy as np
import pytest

from xg.driver import compile_project
from xg.frontend.project import parse_project
from xg.verify.rank_comparison import RankComparison, RankRun

# A row of equal numbers has a flat softmax, whatever the numbers are.
FLAT = """\
dim B = 6, K = 5
mesh N_T = 2
block Net() -> Y [B, K] {
    param w [B]
    w -> BC[b -> b, k=K] -> S : Y
}
plan P of Net {
    w [B/N_T]
}
"""


@pytest.mark.parametrize(("off", "is_wrong"), [(1e-17, False), (1e-12, True), (np.nan, True)])
def test_a_gradient_among_zeros(off: float, *, is_wrong: bool) -> None:
    ranks = compile_project(parse_project(FLAT.encode()), "Net", None, "P").graphs
    cotangents = {"Y": np.ones((6, 5))}
    trial = RankComparison(ranks, {}, {}, cotangents, 0)
    alone = RankRun({}, {"w": np.zeros(6)}, {})
    together = [RankRun({}, {"w": np.full(3, off)}, {}) for _ in range(2)]
    assert trial.differs(alone, together) is is_wrong
