"""Shipped diagrams by their names: `xg show mha`."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import Xg

import xg as package
from xg.diagnostics.diagnostic import DiagnosticError


@pytest.mark.parametrize("name", ["mha", "mha.xg", "gpt2"])
def test_a_shipped_diagram_is_found_by_its_name(xg: Xg, name: str) -> None:
    assert xg("show", name).code == 0
    assert xg("check", "mlp").out == "mlp: ok\n"


def test_files_are_named_as_the_diagram_is(xg: Xg, folder: Path) -> None:
    assert xg("build", "mlp", "-o", "out", "--only", "dot").code == 0
    names = sorted(path.name for path in (folder / "out").glob("*.dot"))
    assert names == ["mlp.backward.dot", "mlp.forward.dot"]


def test_a_file_of_that_name_wins(xg: Xg, folder: Path) -> None:
    (folder / "mha").write_text("dim B\nblock Own(X [B]) -> Y [B] {\n    X -> tanh : Y\n}\n")
    assert "Own" in xg("show", "mha").out
    assert "Own" not in xg("show", "mha.xg").out


def test_an_unknown_name_is_answered_with_a_near_one(xg: Xg) -> None:
    said = xg("check", "mla")
    assert "cannot read mla: there is no such file" in said.err
    assert "did you mean the shipped diagram mha?" in said.err or "mlp" in said.err
    assert "did you mean" not in xg("check", "other/mha.xg").err
    assert "did you mean" not in xg("check", "zzzzzz").err


def test_a_program_is_compiled_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert package.compile("mha").graphs.main.block == "MHA"
    with pytest.raises(DiagnosticError, match="there is no such file"):
        package.compile("folder/mha")
