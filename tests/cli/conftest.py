"""The command as a user calls it, in this process, in an empty folder."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from xg.cli import main

DIAGRAMS = Path(__file__).parent.parent.parent / "diagrams"

TINY = """\
dim B, D = 4, D_ff = 2*D
option act = ReLU | tanh

block Net "A tiny net" (X [B, D], t [B]; p = 0.5) -> Y [B, D], loss [] {
    param W [D, D_ff], b [D_ff] = zeros, V [D_ff, D]

    X -> •<=W -> ⊕<-BC(b) -> act : H [B, D_ff]
      -> DO(p) -> •<=V           : Y
      -> mean[D]                 : y [B]
      -> MSE<-t                  : loss
}
"""

WRONG = """\
dim B, D = 4, E = 3
block Net(X [B, D]) -> Y [B, E] {
    param W [E, D]
    X -> •<=W : Y
}
"""


@dataclass(frozen=True)
class Said:
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str


Xg = Callable[..., Said]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with one good and one wrong file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.xg").write_text(TINY, encoding="utf-8")
    (tmp_path / "wrong.xg").write_text(WRONG, encoding="utf-8")
    return tmp_path


@pytest.fixture
def xg(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Xg:
    """Call the command; `stdin` is the content of its standard input."""

    def call(*arguments: object, stdin: bytes = b"") -> Said:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Said(code, out, err)

    return call
