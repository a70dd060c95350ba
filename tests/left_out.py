"""Tests that are left out, or passed over: said in the last lines, and no success in CI.

Without a tool of the machine its tests are left out, so that others can be run anywhere. CI sets
XG_LEAVE_OUT_NONE=1: there that is a failure, as a test that passes itself over is everywhere.
"""

from __future__ import annotations

import os
import shutil
from ctypes.util import find_library
from pathlib import Path
from typing import Final

import pytest

# The tests that need tools of the machine, and what Debian calls these; CI installs them.
TOOLS = {
    "browser": (("chromium", "chromedriver"), "chromium chromium-driver"),
    "editor/test_tree_sitter.py": (("cc",), "gcc libc6-dev"),
    "docs/test_quarto.py": (("pandoc",), "pandoc"),
    "docs/test_site.py": (("chromium", "chromedriver"), "chromium chromium-driver"),
    "figures/test_graphviz.py": (("dot",), "graphviz"),
    "figures/test_renderers.py": (("libcairo",), "libcairo2"),
    "cli/test_shells.py": (("zsh", "fish", "groff"), "zsh fish groff-base"),
    "figures/test_latex.py": (
        ("pdflatex", "lualatex"),
        "texlive-latex-recommended texlive-luatex texlive-pictures",
    ),
}


def _is_here(tool: str) -> bool:
    """Return whether the machine has a command, or a library whose name begins with lib."""
    is_library = tool.startswith("lib")
    return bool(find_library(tool.removeprefix("lib")) if is_library else shutil.which(tool))


MISSING = {
    tests: missing
    for tests, (tools, _) in TOOLS.items()
    if (missing := [tool for tool in tools if not _is_here(tool)])
}
PLAYGROUND = next((Path(__file__).parents[1] / "build" / "fetched").glob("pyodide-*.tgz"), None)
OF_PLAYGROUND: Final = "browser/test_playground.py"
PASSED_OVER: Final = ("skipped", "xfailed", "xpassed")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that passed a test over, and one that may leave none out and did."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    passed_over = reporter is not None and any(map(reporter.stats.get, PASSED_OVER))
    is_short = os.environ.get("XG_LEAVE_OUT_NONE") == "1" and bool(MISSING or not PLAYGROUND)
    if passed_over or is_short:
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out and how to get what it needs; a test that was passed over failed."""
    for tests, missing in MISSING.items():
        said = f"tests/{tests} was left out: no {' and no '.join(missing)} on this machine"
        terminalreporter.write_line(f"{said} (on Debian: apt-get install {TOOLS[tests][1]})")
    if not PLAYGROUND:
        said = "tests of the playground were left out: its runtime is not fetched"
        terminalreporter.write_line(f"{said} (with npm: python -m website.playground)")
    for word in PASSED_OVER:
        for report in terminalreporter.stats.get(word, ()):
            terminalreporter.write_line(f"{report.nodeid} was {word}: no test may be")
