"""The wheel holds all that xg needs, works away from the checkout, and names what it depends on."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from xg.codegen.backend import backends

ROOT = Path(__file__).parents[2]
PACKAGES = ("compiler/xg", "runtime/xg_runtime", "grammar/xg_grammar")
LICENCES = ("LICENSE", "NOTICE", "compiler/xg/figures/draw/fonts/OFL.txt")

PROGRAM = """
block F(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> GELU -> ⊕<-X : Y
}
dim B, D
"""

SCRIPT = """
import json, sys
import xg, xg_grammar, xg_runtime
program = xg.compile("f.xg")
svg = program.render("backward", "svg")
module = program.load("numpy")
files = [package.__file__ for package in (xg, xg_grammar, xg_runtime)]
said = {"files": files, "svg": svg[:5].decode(), "init": callable(module.init)}
print(json.dumps(said))
"""


def _build(target: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build("wheel", tmp_path_factory.mktemp("wheel"))


def _files(folder: str) -> Iterator[str]:
    """Every file of a package or of the diagrams, as the wheel names it."""
    where = ROOT / folder
    base = where.parent if folder in PACKAGES else where
    for file in where.rglob("*"):
        cached = any(
            part.startswith((".", "__pycache__")) for part in file.relative_to(where).parts
        )
        if file.is_file() and not cached:
            name = file.relative_to(base).as_posix()
            yield name if folder in PACKAGES else f"xg/library/{name}"


def _metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode("utf-8"))


def test_the_wheel_holds_every_file(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {name for folder in (*PACKAGES, "diagrams") for name in _files(folder)}
    assert names == expected
    assert {f"{Path(folder).name}/py.typed" for folder in PACKAGES} <= names
    assert {"xg_grammar/parser.json", "xg_grammar/xg.lark"} <= names


def test_the_wheel_names_its_licences(wheel: Path) -> None:
    assert _metadata(wheel)["License-Expression"] == "Apache-2.0 AND OFL-1.1"
    with ZipFile(wheel) as archive:
        kept = [name for name in archive.namelist() if ".dist-info/licenses/" in name]
        assert {name.split("/licenses/")[1] for name in kept} == set(LICENCES)


def test_what_runs_code_is_asked_for_by_nobody_who_does_not_want_it(wheel: Path) -> None:
    needed = _metadata(wheel).get_all("Requires-Dist", [])
    assert any(line.startswith("lark") for line in needed)
    assert [line for line in needed if "torch" in line] == ["torch; extra == 'torch'"]
    assert [line for line in needed if "jax" in line] == ["jax>=0.10; extra == 'jax'"]
    extras = {backend.runs.extra for backend in backends().values()} - {None}
    assert extras <= set(_metadata(wheel).get_all("Provides-Extra", []))
    assert [line.partition("; ")[2] for line in needed if "pygls" in line] == ["extra == 'lsp'"]


def test_the_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    elsewhere.mkdir()
    (elsewhere / "f.xg").write_text(PROGRAM, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-P", "-W", "error", "-c", SCRIPT]
    done = subprocess.run(
        command, cwd=elsewhere, env=environment, check=True, capture_output=True, text=True
    )
    said = json.loads(done.stdout)
    assert all(Path(file).is_relative_to(site) for file in said["files"])
    assert said["svg"] in ("<svg ", "<?xml")
    assert said["init"]
    checked = subprocess.run(
        [sys.executable, "-P", "-m", "xg", "check", "f.xg"], cwd=elsewhere, env=environment
    )
    assert checked.returncode == 0


def test_the_source_distribution_can_be_built_and_tested(tmp_path: Path) -> None:
    with tarfile.open(_build("sdist", tmp_path)) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    wanted = ["pyproject.toml", "README.md", "constraints.txt", "dev", "xg", "docs/errors.md"]
    wanted += [*LICENCES, "tests/e2e/test_packaging.py"]
    wanted += [f"{folder}/__init__.py" for folder in PACKAGES]
    assert [name for name in wanted if name not in names] == []
