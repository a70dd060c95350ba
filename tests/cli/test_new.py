"""`xg new`: every command of the README that it writes works, in order."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.conftest import Xg

from xg.cli.dispatch import parse

LINE = re.compile(r"^xg .*$", re.MULTILINE)
# Fewer steps and tokens than the README says; `serve` ends only with Ctrl-C, and has own tests.
QUICK = {"100": "2"}
SMALL = {"train": ("--eval", "0", "--seq", "16")}


@pytest.fixture
def project(xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, with its folder as the working folder."""
    said = xg("new", "tiny_gpt")
    assert (said.code, said.err) == (0, "")
    assert "next: cd tiny_gpt, then xg serve tiny_gpt.xg --open" in said.out
    monkeypatch.chdir(folder / "tiny_gpt")
    return folder / "tiny_gpt"


def test_the_commands_of_its_readme_work(project: Path, xg: Xg) -> None:
    lines = LINE.findall((project / "README.md").read_text("utf-8"))
    commands = [shlex.split(line)[1:] for line in lines]
    assert [words[0] for words in commands] == [
        *("serve", "check", "fmt", "build", "verify", "verify", "cost"),
        *("train", "generate", "compare", "lock", "lock"),
    ]
    before = (project / "tiny_gpt.xg").read_bytes()
    for words in commands:
        if words[0] == "serve":
            assert parse(words[0], words[1:]).files == ["tiny_gpt.xg"]
            continue
        said = xg(*(QUICK.get(word, word) for word in words), *SMALL.get(words[0], ()))
        assert said.code == 0, said.err
        if words[0] == "compare":
            assert "model.py:build and the diagram agree" in said.out
    assert (project / "tiny_gpt.xg").read_bytes() == before  # it is tidy
    lines = (project / ".gitignore").read_text("utf-8").split()
    folders = {each.name for each in project.iterdir() if each.is_dir()}
    assert folders - {".github"} <= {line.strip("/") for line in lines}


def test_its_lock_is_that_of_its_diagram(project: Path, xg: Xg) -> None:
    assert (project / "xg.lock").exists()
    said = xg("lock", "--check", "tiny_gpt.xg")
    assert said.code == 0, said.out


def test_its_workflow_runs_commands_that_work(project: Path) -> None:
    text = (project / ".github" / "workflows" / "diagrams.yml").read_text("utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands[1:] == ["xg fmt --check tiny_gpt.xg", "xg check tiny_gpt.xg", "pytest"]


def test_its_own_test_holds_the_model_to_the_diagram(
    project: Path, warm_python: Sequence[str]
) -> None:
    command = [*warm_python, "-m", "pytest", "-q", "test_tiny_gpt.py"]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


def test_its_hooks_are_commands_that_work(project: Path, xg: Xg) -> None:
    config: dict[str, Any] = yaml.safe_load((project / ".pre-commit-config.yaml").read_text())
    hooks = config["repos"][0]["hooks"]
    assert [hook["id"] for hook in hooks] == ["xg-fmt", "xg-check", "xg-lock"]
    for hook in hooks:
        assert re.search(hook["files"], "tiny_gpt.xg")
        assert not re.search(hook["files"], "README.md")
        assert xg(*hook["entry"].split()[1:], "tiny_gpt.xg", "tiny_gpt.xg").code == 0


def test_nothing_is_overwritten(project: Path, xg: Xg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.parent)
    (project / "model.py").unlink()
    (project / "README.md").write_text("mine")
    said = xg("new", "tiny_gpt")
    assert said.code == 5
    assert "is already there: nothing is written" in said.err
    assert not (project / "model.py").exists()
    assert (project / "README.md").read_text() == "mine"


def test_a_folder_of_others_is_kept(xg: Xg, folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "LICENSE").write_text("mine")
    assert xg("new", folder / "inner").code == 0
    assert (folder / "inner" / "LICENSE").read_text() == "mine"
    assert "inner" in (folder / "inner" / "inner.xg").read_text("utf-8")


@pytest.mark.parametrize("name", ["two words", "2gpt", "a-b", "", ".", "ä", "a/..", "x" * 300])
def test_a_name_that_files_cannot_have_is_refused(xg: Xg, folder: Path, name: str) -> None:
    before = sorted(folder.iterdir())
    said = xg("new", name)
    assert said.code in (2, 5)
    assert said.err
    assert sorted(folder.iterdir()) == before
