"""`xg lsp` where pygls is missing; sessions are in tests/editor."""

import pytest
from cli.conftest import Xg


def absent(_: str) -> None:
    """No package is found."""


def test_without_pygls_it_says_what_to_install(xg: Xg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xg_editor.commands.lsp.find_spec", absent)
    said = xg("lsp")
    assert said.code == 1
    assert said.err == "xg lsp needs the package pygls: pip install 'xg[lsp]'\n"
    monkeypatch.setattr("xg_editor.commands.lsp.find_spec", absent)
    doctor = xg("doctor")
    assert doctor.code == 0
    assert "pip install 'xg[lsp]'" in doctor.out
