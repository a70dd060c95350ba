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


@pytest.mark.parametrize(
    ("off", "is_wrong"), [(0.4, False), (0.6, True), (1000.0, True), (np.nan, True)]
)
def test_last_bits_excuse_no_more_than_they_can_do(off: float, *, is_wrong: bool) -> None:
    ranks = compile_project(parse_project(FLAT.encode()), "Net", None, "P").graphs
    apart = {"dw": np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.0])}
    trial = RankComparison(ranks, {}, {}, {"Y": np.ones((6, 5))}, 0, apart)
    alone = RankRun({}, {"w": np.ones(6)}, {})
    first, second = np.ones(3), np.ones(3)
    first[0] += off
    together = [RankRun({}, {"w": first}, {}), RankRun({}, {"w": second}, {})]
    assert trial.differs(alone, together) is is_wrong
    second[0] += 0.4  # which last bits do not decide
    assert trial.differs(alone, together)
