"""The steps of `action.yml` in a repository, as a runner of GitHub would run them."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.running import environment, launch

ROOT = Path(__file__).parents[2]
TEXT = """\
dim B, D

block F(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> ReLU : Y
}
"""


def steps() -> Mapping[str, Any]:
    """The steps by name."""
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    return {step["name"]: step for step in action["runs"]["steps"]}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose diagram has changed since its first commit."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "f.xg").write_text(TEXT, "utf-8")
    for words in (["init", "-q"], ["add", "f.xg"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    (tmp_path / "f.xg").write_text(TEXT.replace("ReLU", "SiLU"), "utf-8")
    return tmp_path


@pytest.fixture
def bin_folder(tmp_path_factory: pytest.TempPathFactory, warm_python: Sequence[str]) -> Path:
    """A folder with `xg` and `python`, for the path of the steps."""
    folder = tmp_path_factory.mktemp("bin")
    launch(folder / "python", warm_python)
    (folder / "xg").write_text(f'#!/bin/sh\nexec {folder}/python -P -m xg "$@"\n', "utf-8")
    (folder / "xg").chmod(0o755)
    return folder


def run(step: str, folder: Path, bin_folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one step with the default inputs, against the first commit."""
    values = {"files": "**/*.xg", "against": "HEAD", "figures": "figures"}
    given = {
        name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, text in steps()[step]["env"].items()
    }
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", steps()[step]["run"]],
        cwd=folder,
        env={**environment(), **given, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_layout_and_meaning_are_checked(repository: Path, bin_folder: Path) -> None:
    step = "Check layout and meaning"
    ended = run(step, repository, bin_folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (repository / "f.xg").write_text(TEXT.replace("SiLU", "").replace("<=W", "<=V"), "utf-8")
    ended = run(step, repository, bin_folder)
    assert ended.returncode == 1
    assert "::error file=f.xg,line=5," in ended.stdout


def test_what_changed_is_drawn(repository: Path, bin_folder: Path) -> None:
    ended = run("Draw what changed", repository, bin_folder)
    assert ended.returncode == 0, ended.stderr
    assert "Y" in (repository / "figures" / "f.txt").read_text("utf-8")
    assert "made by SiLU, was ReLU" in (repository / "figures" / "f.txt").read_text("utf-8")
    assert (repository / "figures" / "f.svg").stat().st_size > 1000
    assert [path.name for path in repository.glob("*.xg")] == ["f.xg"]
