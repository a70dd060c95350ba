"""The wheel holds all that xg needs, works away from the checkout, and names what it depends on."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from docs.markdown import blocks, pieces
from library import another_user

from xg.codegen.backend import backends
from xg.packages import packages

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("compiler/xg", *(f"compiler/{package.name}" for package in packages())),
    *("runtime/xg_runtime", "grammar/xg_grammar"),
)
LICENSES = ("LICENSE", "NOTICE", "docs/fonts/OFL.txt")

SCRIPT = """
import json
import xg, xg_grammar, xg_runtime
program = xg.compile("mlp.xg")
module = program.load("numpy")
files = [package.__file__ for package in (xg, xg_grammar, xg_runtime)]
print(json.dumps({"files": files, "init": callable(module.init)}))
"""


EVERY_COMMAND = """
from importlib import import_module
from xg.cli.command_list import commands, home_of
for name in commands():
    import_module(f"{home_of(name)}.commands.{name}")
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
    assert names == expected | {"xg/errors.md"}  # docs/errors.md, for xg explain XG0301
    assert wheel.stat().st_size <= 2.2 * 1024**2
    assert {f"{Path(folder).name}/py.typed" for folder in PACKAGES} <= names
    assert {"xg_grammar/parser.json", "xg_grammar/xg.lark"} <= names


def test_the_wheel_names_its_licenses(wheel: Path) -> None:
    assert _metadata(wheel)["License-Expression"] == "Apache-2.0 AND OFL-1.1"
    with ZipFile(wheel) as archive:
        kept = [name for name in archive.namelist() if ".dist-info/licenses/" in name]
        assert {name.split("/licenses/")[1] for name in kept} == set(LICENSES)


def test_the_description_has_no_link_that_leads_nowhere(wheel: Path) -> None:
    """An index shows the text alone: what is beside the README in a checkout is not there."""
    message = _metadata(wheel)
    assert message["Description-Content-Type"] == "text/markdown"
    shown = str(message.get_payload())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    goals = re.findall(r"\]\(([^)]+)\)", shown) + re.findall(
        r'(?:src|srcset|href)="([^"]+)"', shown
    )
    assert [goal for goal in goals if not goal.startswith("https://")] == []
    assert len(re.findall(r"\]\((?!https)[^)]+\)", readme)) > 20
    named = [
        "your first figure in five minutes",
        "The figures of this program:",
        "docs/start.md",
    ]
    assert [words for words in named if words not in shown] == []
    code = [block.text for block in blocks(readme) if block.text]
    assert [text for text in code if text not in shown] == []
    assert "<picture>" not in shown


def test_what_runs_code_is_asked_for_by_nobody_who_does_not_want_it(wheel: Path) -> None:
    needed = _metadata(wheel).get_all("Requires-Dist", [])
    assert any(line.startswith("lark") for line in needed)
    torch = [f"torch>=2.13; extra == '{extra}'" for extra in ("onnx", "torch")]
    assert sorted(line for line in needed if "torch" in line) == torch
    assert [line for line in needed if "jax" in line] == ["jax>=0.10; extra == 'jax'"]
    extras = {backend.runs.extra for backend in backends().values()} - {None}
    assert extras <= set(_metadata(wheel).get_all("Provides-Extra", []))
    assert [line.partition("; ")[2] for line in needed if "pygls" in line] == ["extra == 'lsp'"]


def _needed(name: str, known: frozenset[str]) -> frozenset[str]:
    """The distributions that are installed with one, without extras; `known` are left out."""
    if name in known:
        return known
    known = known | {name}
    for line in metadata.requires(name) or ():
        if "extra ==" not in line and (found := re.match(r"[\w.-]+", line)):
            with contextlib.suppress(metadata.PackageNotFoundError):  # for another system
                known = _needed(metadata.distribution(found[0]).name, known)
    return known


def test_what_is_installed_without_extras_is_small(wheel: Path) -> None:
    others = _needed("xg", frozenset()) - {"xg"}
    assert {"numpy", "lark", "wasmtime"} <= others
    installed = [metadata.distribution(name) for name in others]
    files = [
        Path(str(each.locate_file(file)))
        for each in installed
        for file in each.files or ()
        if file.suffix != ".pyc"
    ]
    with ZipFile(wheel) as archive:
        own = sum(entry.file_size for entry in archive.infolist())
    assert 20_000_000 < own + sum(file.stat().st_size for file in files) <= 125_000_000


def _installed(wheel: Path, folder: Path) -> Path:
    """A fresh environment with the wheel and what it needs, linked to: no extra, no checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    for name in _needed("xg", frozenset()) - {"xg"}:
        files = metadata.files(name) or ()
        for top in {Path(file).parts[0] for file in files} - {".."}:
            if not (site / top).exists():
                (site / top).symlink_to(str(metadata.distribution(name).locate_file(top)))
    python = folder / "bin" / "python"
    install = [
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run(
        [sys.executable, *install, "--ignore-installed", "--no-compile", str(wheel)],
        check=True,
        capture_output=True,
    )
    return folder / "bin"


def _as_installed(command: str) -> str:
    """A command of the checkout as one who has only the wheel types it."""
    command = re.sub(r"\bdiagrams/\w+/(\w+)\.xg\b", r"\1", command)
    return command.replace("./xg ", "xg ")


def test_the_readme_is_true_of_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """As a new user has it: in an empty folder, with nothing of the checkout."""
    bin_, elsewhere = _installed(wheel, tmp_path / "environment"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    environment = {**kept, **another_user(tmp_path), "PATH": f"{bin_}:/usr/bin:/bin"}

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr
        return done.stdout

    documented = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    written = {block.what: block.text for block in documented if block.how == "file"}
    assert list(written) == ["mlp.xg"]
    for name, text in written.items():
        (elsewhere / name).write_text(text, encoding="utf-8")
    starts = "".join(block.text for block in documented if block.language == "sh")
    commands = [line.partition("#")[0].strip() for line in starts.splitlines()]
    parts = {block.what: pieces(block.text) for block in documented if block.how == "part of"}
    tried = [each for each in (*commands, *parts) if each.startswith("./xg ")]
    assert len(tried) == 2
    for command in tried:
        printed = run("sh", "-c", _as_installed(command))
        assert [piece for piece in parts.get(command, []) if piece not in printed] == []
    assert (elsewhere / "out" / "demo" / "guess_mlp.backward.svg").exists()
    assert "everything that xg needs is here" in run("xg", "doctor")
    run("python", "-W", "error", "-c", EVERY_COMMAND)  # each says by itself which extra it needs
    assert "all proven" in run("xg", "verify", "mlp", "--plan", "TP")
    assert "import torch" in run("xg", "show", "mlp", "--as", "torch", "--whole")
    said = json.loads(run("python", "-W", "error", "-c", SCRIPT))
    assert all(Path(file).is_relative_to(bin_.parent) for file in said["files"])
    assert said["init"]


def test_the_source_distribution_can_be_built_and_tested(tmp_path: Path) -> None:
    with tarfile.open(_build("sdist", tmp_path)) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    wanted = [
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "constraints.txt",
        "dev",
        "xg",
        "docs/errors.md",
    ]
    wanted += [*LICENSES, "tests/e2e/test_packaging.py"]
    wanted += [f"{folder}/__init__.py" for folder in PACKAGES]
    assert [name for name in wanted if name not in names] == []
