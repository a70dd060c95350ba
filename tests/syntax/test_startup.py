"""Reading a program imports no more than it needs: starting is most of the time of `xg check`."""

from __future__ import annotations

import os
import subprocess
import sys

from program_files import PROGRAMS

PARSE = (
    "from xg.diagnostics.diagnostic import Source; from xg.syntax.parse import parse;"
    "parse(Source.from_bytes('a.xg', {data!r}))"
)
COSTLY = {
    *("numpy", "importlib.resources", "lark.tools", "xg_grammar.build"),
    *("xg.syntax.recovery", "xg.syntax.hints"),
}


def imported(code: str) -> set[str]:
    """The modules that running some code imports, beyond those of Python's own start."""
    report = "import sys; before = set(sys.modules)\n{}\nprint(*(set(sys.modules) - before))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-S", "-c", report.format(code)]
    return set(subprocess.run(command, env=env, capture_output=True, text=True).stdout.split())


def test_a_program_without_mistakes() -> None:
    modules = imported(PARSE.format(data=PROGRAMS[3].read_bytes()))
    assert "xg.syntax.parse" in modules
    assert modules & COSTLY == set()


def test_a_program_with_a_mistake_imports_the_recovery() -> None:
    assert "xg.syntax.recovery" in imported(
        f"try: {PARSE.format(data=b'dim')}\nexcept Exception: ..."
    )


def test_the_check_can_fail() -> None:
    assert "xg_grammar.build" in imported("import xg_grammar.build")


def test_lark_is_imported_by_what_parses_only() -> None:
    assert "lark" not in imported("from xg.cli import main; main(['--help'])")
    assert "lark" in imported("import xg.syntax.parse")


def test_a_process_that_ends_is_not_searched_for_garbage() -> None:
    code = "import gc, sys; from xg.cli import main; {}; print(gc.get_freeze_count() > 0)"
    frozen: list[str] = []
    for run in ("sys.argv[1:] = ['ops']; main()", "main(['ops'])"):
        command = [sys.executable, "-c", code.format(run)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        output = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        frozen.append(output.stdout.splitlines()[-1])
    assert frozen == ["True", "False"]
