"""The pytest plugin: what it collects, what it reports, and what it does not repeat."""

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from xg_testing import plugin, proofs
from xg_testing.plugin import prove

pytest_plugins = ["pytester"]

TEXT = """\
dim B, D, D_h
mesh N = 2

block F(X [B, D]) -> Y [B, D] {
    param W [D, D_h], V [D_h, D]
    X -> •<=W -> ReLU : H [B, D_h] -> •<=V : Y
}

plan TP of F {
    W [D, D_h/N]
    V [D_h/N, D]
}

example "ones" of F {
    given X = [[1]], W = [[2]], V = [[3]]
    expect Y = [[6]]
}
"""
NAMES = ["F::example[ones]", "F::gradients", "F::plan[TP]"]


@pytest.fixture
def file(pytester: pytest.Pytester) -> Path:
    """A diagram with two plans of proof and an example."""
    pytester.makeini("[pytest]\n")
    path = pytester.path / "f.xg"
    path.write_text(TEXT, "utf-8")
    return path


def run(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    """Run pytest in this process with the plugin, whether it is installed or only on the path."""
    installed = "xg" in entry_points(group="pytest11").names
    chosen = [] if installed else ["-p", plugin.__name__]
    return pytester.runpytest_inprocess(*chosen, *words)


def test_it_is_off_until_something_asks(pytester: pytest.Pytester, file: Path) -> None:
    run(pytester, "--co").stdout.no_fnmatch_line("*F::*")
    for words in (["--xg"], [str(file)]):
        said = run(pytester, "--co", "-q", *words).stdout
        said.fnmatch_lines([f"f.xg::{name.replace('[', '[[]')}" for name in NAMES])
    pytester.makeini("[pytest]\nxg = true\n")
    run(pytester, "--co", "-q").stdout.fnmatch_lines(["f.xg::F::gradients"])


def test_all_pass_and_a_second_run_repeats_nothing(
    pytester: pytest.Pytester, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven: list[str] = []

    def note(item: plugin.ProofItem) -> None:
        proven.append(item.name)
        prove(item)

    monkeypatch.setattr(plugin, "prove", note)
    run(pytester, "--xg-update").assert_outcomes(passed=4)
    assert proven == [*NAMES, "lock"]
    proven.clear()
    run(pytester).assert_outcomes(passed=4)
    assert proven == []
    monkeypatch.setattr(proofs, "proof_cases", None)  # and the file is not even parsed
    run(pytester).assert_outcomes(passed=4)
    assert proven == []
    del file


def test_a_failure_shows_words_first_then_lines_then_what_accepts_it(
    pytester: pytest.Pytester, file: Path
) -> None:
    run(pytester, "--xg-update", "-k", "lock").assert_outcomes(passed=1)
    file.write_text(TEXT.replace("ReLU", "SiLU"), "utf-8")
    ended = run(pytester, "-k", "lock or example")
    ended.assert_outcomes(failed=2)
    ended.stdout.fnmatch_lines(
        [
            "f.xg: F: CHANGED",
            "*H is now computed by SiLU, before by ReLU",
            "*numbers differ: Y*",
            "*-H [[]B, D_h[]] = ReLU(%•_1)",
            "*+H [[]B, D_h[]] = SiLU(%•_1)",
            "If this is meant, accept it: pytest --xg-update f.xg, or xg lock f.xg",
        ]
    )
    run(pytester, "--xg-update", "-k", "lock").assert_outcomes(passed=1)
    run(pytester, "-k", "lock").assert_outcomes(passed=1)


def test_a_wrong_number_of_an_example_fails(pytester: pytest.Pytester, file: Path) -> None:
    file.write_text(TEXT.replace("[[6]]", "[[7]]"), "utf-8")
    ended = run(pytester, "--xg", "-k", "example")
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(['*f.xg: "ones" of F*'])


def test_a_workflow_of_github_marks_the_line(
    pytester: pytest.Pytester, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    file.write_text(TEXT.replace("[[6]]", "[[7]]"), "utf-8")
    ended = run(pytester, "--xg", "-k", "example")
    title = "f.xg::F::example[[]ones[]]"
    ended.stdout.fnmatch_lines([f"::error file=f.xg,line=14,title={title}::*%0A*"])


def test_an_error_in_a_file_is_told_as_xg_check_does(pytester: pytest.Pytester, file: Path) -> None:
    file.write_text(TEXT.replace("<=V", "<=U"), "utf-8")
    ended = run(pytester, "--xg")
    ended.assert_outcomes(errors=1)
    ended.stdout.fnmatch_lines(["*f.xg:6:*"])
    ended.stdout.no_fnmatch_line("*Traceback*")
