"""The gallery is the same bytes wherever it is built: bytes depend on source and version only."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE_ROOTS = ("compiler", "runtime", "grammar")
MACHINES = {
    "here": {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "COLUMNS": "60"},
    "far away": {"PYTHONHASHSEED": "2", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Tokyo", "LANG": "tr"},
}


def _start(folder: Path, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start to build the gallery in a folder of its own, as on a machine of its own."""
    folder.mkdir()
    shutil.copytree(ROOT / "diagrams", folder / "diagrams")
    files = sorted(file.name for file in (folder / "diagrams").glob("*.xg"))
    paths = os.pathsep.join(str(ROOT / name) for name in SOURCE_ROOTS)
    inherited = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "xg", "build", *files, "-o", "../out"],
        cwd=folder / "diagrams",
        env={**inherited, **variables, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _read(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def galleries(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("galleries")
    started = {name: _start(folder / name, variables) for name, variables in MACHINES.items()}
    for process in started.values():
        said, _ = process.communicate()
        assert process.returncode == 0, said.decode("utf-8")
    return [_read(folder / name / "out") for name in MACHINES]


def test_every_byte_is_the_same(galleries: list[dict[str, bytes]]) -> None:
    here, far_away = galleries
    assert here.keys() == far_away.keys()
    assert [name for name in here if here[name] != far_away[name]] == []


def test_the_gallery_has_figures_and_code_of_every_diagram(
    galleries: list[dict[str, bytes]],
) -> None:
    kinds = (".dot", ".svg", ".pdf", ".png", "_numpy.py")
    for diagram in (ROOT / "diagrams").glob("*.xg"):
        names = [name for name in galleries[0] if name.startswith(diagram.stem)]
        assert all(any(name.endswith(kind) for name in names) for kind in kinds), diagram.stem


def test_nothing_tells_where_or_when_it_was_built(galleries: list[dict[str, bytes]]) -> None:
    for name, content in galleries[0].items():
        assert str(ROOT).encode() not in content, name
        assert b"galleries" not in content, name
