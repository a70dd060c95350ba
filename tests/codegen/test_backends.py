"""Backends are discovered by their folders, and every list of backends follows from that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from xg import codegen
from xg.codegen.backend import Backend, Runs, backends, default, find, on_processes
from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import BACKENDS

COMPILER = Path(codegen.__file__).parents[1]
RECORD = """\
from xg.codegen.backend import Backend, Runs

RUNS = Runs("planted", "own")
BACKEND = Backend("planted", "Planted", "planted:emit", "planted:DIALECT", RUNS)
"""
NOT_ABOUT_BACKENDS = {
    "cli/commands/doctor.py",  # packages that the base install needs
    "cli/commands/ops.py",  # conventions are compared with torch's
    "codegen/emit/ring.py",  # its source says who writes it in NumPy
    "ir/conventions.py",
    "ir/functions.py",  # the word for a function in each array library
    "ops/sum.py",
    "verify/autograd_model.py",  # torch's autograd is a witness
    "verify/edge_proof.py",
    "verify/edge_point.py",
}


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "__init__.py").write_text(RECORD, encoding="utf-8")
    monkeypatch.setattr(codegen, "__path__", [*codegen.__path__, str(tmp_path)])
    backends.cache_clear()
    yield find("planted")
    backends.cache_clear()


def test_every_folder_with_a_record_is_a_backend() -> None:
    records = [path.parent.name for path in (COMPILER / "codegen").glob("*/__init__.py")]
    named = [name for name in records if "BACKEND" in _text(COMPILER / "codegen" / name)]
    assert sorted(BACKENDS) == sorted(named)
    assert len(BACKENDS) > 1


def test_the_first_runs_where_only_xg_is_installed() -> None:
    assert default().name == BACKENDS[0]
    assert [name for name, backend in backends().items() if backend.is_default] == [BACKENDS[0]]
    assert default().runs.extra is None
    assert find(None) is default()
    assert on_processes().runs.processes


def test_a_folder_more_is_a_backend_more(planted: Backend) -> None:
    assert set(backends()) == {*BACKENDS, "planted"}
    assert next(iter(backends())) == BACKENDS[0]
    assert planted.runs == Runs("planted", "own")


def test_a_library_that_is_missing_is_reported_with_its_extra(planted: Backend) -> None:
    assert not planted.has_library
    with pytest.raises(DiagnosticError) as caught:
        planted.require()
    text = str(caught.value)
    assert "planted is not installed" in text
    assert "pip install 'xg[own]', or use numpy code, which runs without it" in text


def test_a_name_that_is_none_of_them_is_refused() -> None:
    with pytest.raises(ValueError, match=f"there are {', '.join(BACKENDS)}"):
        find("fortran")


def test_no_other_file_names_a_backend() -> None:
    names = "|".join(BACKENDS)
    naming = re.compile(rf"[\"']({names})[\"']|codegen\.({names})\b")
    own = {f"codegen/{name}" for name in BACKENDS}
    found = [
        path.relative_to(COMPILER).as_posix()
        for path in sorted(COMPILER.rglob("*.py"))
        if naming.search(path.read_text(encoding="utf-8"))
    ]
    allowed = tuple(own | NOT_ABOUT_BACKENDS)
    assert [path for path in found if not path.startswith(allowed)] == []


def _text(folder: Path) -> str:
    return (folder / "__init__.py").read_text(encoding="utf-8")
