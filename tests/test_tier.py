"""A sample of cases, as CI tries it, has each kind that the whole has."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from left_out import TOOLS
from library import LIBRARY, VARIED, constructs, shipped
from tier import some


@pytest.mark.parametrize("thorough", [False, True])
def test_a_sample_has_each_kind_once_and_the_whole_has_everything(thorough: bool) -> None:
    words = ["ab", "c", "de", "f", "ghi"]
    sample = some(words, len, thorough=thorough)
    assert sample == (words if thorough else ["ab", "c", "ghi"])


def test_equal_cases_are_told_apart_by_what_they_are() -> None:
    assert some(["a", "a", "b"], str, thorough=False) == ["a", "b"]


def test_varied_diagrams_have_all_that_diagrams_have() -> None:
    every = {one for path in LIBRARY.glob("*/*.xg") for one in constructs(path)}
    assert every == {one for name in VARIED for one in constructs(shipped(name))}
    others = VARIED - {"moe"}
    assert every > {one for name in others for one in constructs(shipped(name))}


def test_every_file_that_tries_a_part_is_listed() -> None:
    """Where the list says what CI leaves out, a file that it does not know would be forgotten."""
    folder = Path(__file__).parent
    listed = {
        (room, name)
        for row in re.findall(r"^\| (\*\*.*?) \|", (folder / "README.md").read_text("utf-8"), re.M)
        for room, names in re.findall(r"\*\*(\w+)\*\*: ([\w, ]+)", row)
        for name in names.split(", ")
    }
    asking = {
        (path.relative_to(folder).parts[0], path.stem.removeprefix("test_"))
        for path in folder.rglob("*.py")
        if path != Path(__file__) and "\nfrom tier import" in path.read_text("utf-8")
    }
    assert listed == asking


SKIPS = re.compile(r"importorskip|\bskip(if)?\(|mark\.skip\b|SkipTest|\bxfail\b|\+SKIP")
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "text",
    [
        *("pytest.importorskip(name)", "mark.skipif(1)", "pytest.skip()", "@pytest.mark.skip"),
        *("raise unittest.SkipTest", "mark.xfail", ">>> 1  # doctest: +SKIP"),
    ],
)
def test_what_passes_a_test_over_is_seen(text: str) -> None:
    assert SKIPS.search(text)


def test_no_test_is_passed_over() -> None:
    """All libraries are among the tools of development, so what lacks one is to fail.

    Tests that need other tools of the machine are left out by `left_out.py`, which says so.
    """
    folders = ("tests", "compiler", "runtime", "grammar", "examples")
    files = {path for folder in folders for path in (ROOT / folder).rglob("*.py")}
    files -= {Path(__file__), ROOT / "tests" / "left_out.py"}
    assert [path.name for path in sorted(files) if SKIPS.search(path.read_text("utf-8"))] == []


NO_CASES = "@pytest.mark.parametrize('n', [])\ndef test(n): ..."
RUNS = {  # a test, whether CI runs it on a machine without tools, and how that ends
    "passes": ("def test(): ...", False, 0),
    "is passed over": ("def test(): pytest.skip()", False, 1),
    "fails as is expected": ("@pytest.mark.xfail\ndef test(): assert 0", False, 1),
    "passes against expectation": ("@pytest.mark.xfail\ndef test(): ...", False, 1),
    "has no cases": (NO_CASES, False, 2),
    "stands for those that lack a tool": ("def test(): ...", True, 1),
}


WORKERS = "-n 1 --dist worksteal"  # what runs tests in CI; it counts what other processes found


@pytest.mark.parametrize(
    ("name", "how"), [*((each, "") for each in RUNS), ("is passed over", WORKERS)]
)
def test_a_run_that_passes_a_test_over_fails(name: str, how: str, tmp_path: Path) -> None:
    text, is_ci, code = RUNS[name]
    (tmp_path / "test_it.py").write_text(f"import pytest\n\n{text}\n", encoding="utf-8")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    mark = settings["tool"]["pytest"]["ini_options"]["empty_parameter_set_mark"]
    environment = {"PATH": "", "PYTHONPATH": str(ROOT / "tests")}
    words = ["-p", "left_out", "-p", "no:cacheprovider", "-o", f"empty_parameter_set_mark={mark}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *how.split(), "test_it.py"],
        cwd=tmp_path,
        env={**environment, "XG_LEAVE_OUT_NONE": "1"} if is_ci else environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout
    assert "tests/browser was left out: no chromium and no chromedriver" in done.stdout
    assert ("test_it.py::test was" in done.stdout) is (not is_ci and code == 1)


def test_ci_leaves_none_out() -> None:
    """It asks for every tool that some test needs, under the name that Debian has for it."""
    assert f"pytest {WORKERS.replace('1', 'auto')} " in (ROOT / "dev").read_text("utf-8")
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "export XG_LEAVE_OUT_NONE=1\n" in script
    packages = {package for _, names in TOOLS.values() for package in names.split()}
    assert [one for one in sorted(packages) if not re.search(rf"\b{one}[ )]", script)] == []
