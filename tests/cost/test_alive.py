"""Bytes alive beside saved values, by hand: a result that the called block saves is saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import xg
from xg.cost.memory import alive
from xg.ir.dim import symbol

CALLS = """\
dim B, D = 4
block Kept(X [B, D]) -> Y [B, D] {
    X -> tanh : Y
}
block Passed(X [B, D]) -> Y [B, D] {
    X -> scale(3) : Y
}
block Net(X [B, D]) -> Z [B, D] {
    X -> Kept as f -> Kept as g -> scale(2) -> Passed as h -> scale(2) -> tanh : Z
}
"""


def test_results_that_a_block_saves_are_counted_there(tmp_path: Path) -> None:
    """In a forward pass there is at most what goes into h, and what comes out of it."""
    (tmp_path / "calls.xg").write_text(CALLS, encoding="utf-8")
    (report,) = xg.compile(tmp_path / "calls.xg").costs("float32")
    forward = replace(report.cost, program=replace(report.cost.program, backwards={}))
    assert alive(forward).whole == (symbol("B") * symbol("D") * 8,)
