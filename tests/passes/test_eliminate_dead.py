"""Elimination of what no output needs, with the calls that only it read parameters of."""

from __future__ import annotations

from pathlib import Path

from xg.frontend.project import read_project
from xg.frontend.typed import type_project
from xg.passes.rewrites import eliminate_dead

LENT = """\
dim B, D, E = 4

block Norm(X [B, D]) -> Y [B, D] {
    param w, v [D]
    X -> ⊙<-BC(w) -> ⊕<-BC(v) : Y
}

block Net(X [B, D], Z [B, D]) -> Y [B, E] {
    param W [D, E]
    X -> •<=W               : Y
    X -> Norm as first      : A
    Z -> ⊙<-BC(first.w)     : H
}
"""


def test_a_call_goes_with_the_step_that_read_its_parameter(tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(LENT, encoding="utf-8")
    typed = type_project(read_project(tmp_path / "net.xg"), "Net", {}, None)
    once = eliminate_dead(typed)
    assert [str(param.value.name) for param in once.main.params] == ["W"]
    assert (len(once.main.steps), len(once.graphs)) == (1, 1)
    assert eliminate_dead(once).graphs == once.graphs
