"""Files that other tools read: hooks of pre-commit, the lexer of Pygments."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.sweep import GUIDES, VERDICT, scripts
from pygments import highlight
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).parents[2]
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WRONG = "dim B\nblock F(X [B]) -> Y [B] {\n    X -> Nothing : Y\n}\n"
UNTIDY = "dim   B\nblock F(X [B]) -> Y [B] {\n  X->S : Y\n}\n"


def run_hook(hook: dict[str, Any], *files: Path) -> int:
    """The exit code of a hook on some files, as pre-commit runs it."""
    command, *arguments = str(hook["entry"]).split()
    assert command in PROJECT["project"]["scripts"]
    done = subprocess.run(
        [sys.executable, "-m", command, *arguments, *files],
        cwd=ROOT / "compiler",
        capture_output=True,
        check=False,
        env={"PYTHONPATH": f"{ROOT / 'compiler'}:{ROOT / 'grammar'}"},
    )
    return done.returncode


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_hooks_take_the_files_of_a_commit(hook: dict[str, Any], tmp_path: Path) -> None:
    shipped = ROOT / "diagrams" / "notation" / "mlp.xg"
    assert re.search(hook["files"], shipped.as_posix())
    assert not re.search(hook["files"], "mlp.xg.txt")
    assert hook["language"] == "python"
    good = tmp_path / "good.xg"
    good.write_bytes(shipped.read_bytes())
    wrong, untidy = tmp_path / "wrong.xg", tmp_path / "untidy.xg"
    wrong.write_text(WRONG, "utf-8")
    untidy.write_text(UNTIDY, "utf-8")
    before = good.read_bytes()
    if hook["id"] == "xg-lock":
        assert run_hook(hook | {"entry": "xg lock"}, good) == 0
    assert run_hook(hook, good, good) == 0
    assert good.read_bytes() == before
    if hook["id"] == "xg-check":
        assert run_hook(hook, good, wrong) == 1
    elif hook["id"] == "xg-lock":
        good.write_bytes(before.replace(b"GELU", b"SiLU"))
        assert run_hook(hook, good) == 1
    else:
        run_hook(hook, untidy)
        assert "X -> S" in untidy.read_text("utf-8")


def test_the_page_names_hooks_that_there_are() -> None:
    page = (GUIDES / "check-pull-requests.md").read_text("utf-8")
    named = re.findall(r"- id: ([\w-]+)", page)
    assert named
    assert set(named) <= {hook["id"] for hook in HOOKS}


def test_pygments_finds_the_lexer_by_its_entry_point() -> None:
    group = "pygments.lexers"
    (entry,) = PROJECT["project"]["entry-points"][group].items()
    lexer = EntryPoint(entry[0], entry[1], group).load()()
    assert "xg" in lexer.aliases
    html: str = highlight("block F(X [B]) # why", lexer, HtmlFormatter())
    assert '<span class="k">block</span>' in html
    assert '<span class="c1"># why</span>' in html


def test_the_workflow_of_the_page_uses_the_action_as_it_is() -> None:
    page = (GUIDES / "check-pull-requests.md").read_text("utf-8")
    (text,) = re.findall(r"<!-- file: diagrams\.yml -->\n```yaml\n(.*?)```", page, re.DOTALL)
    steps: list[dict[str, Any]] = yaml.safe_load(text)["jobs"]["diagrams"]["steps"]
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    (own,) = [step for step in steps if step["uses"] == "you/xg@main"]
    assert set(own["with"]) <= set(action["inputs"])
    assert steps[-1]["with"]["path"] == action["inputs"]["figures"]["default"]


def test_every_script_of_the_sweep_compiles_and_has_a_verdict() -> None:
    found = scripts()
    assert len(found) >= 5
    for block in found:
        compile(block.text, block.what, "exec")
        assert VERDICT.search(block.text)


def test_files_for_readers_of_the_repository_are_data_that_they_read() -> None:
    cited: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cited["version"] == PROJECT["project"]["version"]
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert len(forms) == 2
    for form in forms:
        asked: dict[str, Any] = yaml.safe_load(form.read_text("utf-8"))
        assert asked["name"]
        assert asked["description"]
        assert all(part["attributes"]["label"] for part in asked["body"])
