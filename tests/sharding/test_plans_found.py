"""Plans that random search has found to end in no answer."""

from __future__ import annotations

from pathlib import Path

import pytest

import xg

NET = """\
dim B, D = 8
mesh N_D = 2, N_T = 2
block Net(X [B, D, D]) -> Y [B, D, D] {
    X -> tanh : H [B, D, D]
      -> tanh : Y
}
"""


def test_what_is_cut_already_cannot_be_cut_from_outside(tmp_path: Path) -> None:
    plan = "plan P of Net {\n    X [B, D/N_T, D/N_D]\n    H [B, D/(N_D*N_T), D]\n}\n"
    (tmp_path / "net.xg").write_text(NET + plan, encoding="utf-8")
    with pytest.raises(xg.DiagnosticError, match="by two mesh axes in the other order"):
        xg.compile(tmp_path / "net.xg", plan="P")


def test_a_plan_may_cut_nothing(tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(NET + "plan P of Net {\n    X [B, D, D]\n}\n", "utf-8")
    program = xg.compile(tmp_path / "net.xg", plan="P")
    assert not program.graphs.mesh
    assert "def forward" in program.source()
