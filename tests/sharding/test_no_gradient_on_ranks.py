"""Values on ranks through which no gradient goes back: `stop` of whole ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from xg.frontend.project import read_project
from xg.verify.plan_proof import prove_ranks

STOPPED = """\
dim B, D = 4
mesh N_D = 2, N_T = 2
op Half(w) = 0.5 * stop(w)
block Stopped(w [D, D]) -> v [D, D] {
    w -> stop : v
}
block Net(X [B, D], e [D], q [D]) -> Y [B, D] {
    param W, V, U [D, D]
    W -> Stopped : G
    X -> tanh -> •<=(U -> stop) -> •<=G -> •<=(V -> Half) : H
    e -> stop -> BC[B] -> ⊕<-H : z
    q -> tanh -> stop -> BC[B] -> ⊙<-z : Y
}
plan DP of Net {
    X [B/N_D, D]
}
plan TP of Net {
    G [D, D/N_T]
    V [D/N_T, D]
}
plan Both of Net {
    X [B/N_D, D]
    U [D, D/N_T]
    G [D/N_T, D]
}
"""


def proven(folder: Path, text: str, block: str, plan: str) -> bool:
    """Whether ranks agree with one device."""
    (folder / "net.xg").write_text(text, encoding="utf-8")
    return prove_ranks(read_project(folder / "net.xg"), block, plan, {}, 0).passed


@pytest.mark.parametrize("plan", ["DP", "TP", "Both"])
def test_a_stopped_gradient_of_a_whole_value_is_proven(plan: str, tmp_path: Path) -> None:
    assert proven(tmp_path, STOPPED, "Net", plan)
