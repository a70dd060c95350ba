"""Sources that Graphviz itself draws, on a machine that has its `dot`."""

from __future__ import annotations

import subprocess

import pytest
from library import shipped

import xg
from xg.figures.views import View


@pytest.mark.parametrize("view", ["forward", "backward", "overview"])
def test_graphviz_draws_a_source_without_a_warning(view: View) -> None:
    source = xg.compile(shipped("mha")).dot(view)
    done = subprocess.run(["dot", "-Tsvg"], input=source.encode(), capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b'class="node"') > 0


def test_the_package_graphviz_draws_a_program() -> None:
    drawn = xg.compile(shipped("mha")).graphviz("backward", theme="dark").pipe("svg")
    assert drawn.startswith(b"<?xml")


def test_what_is_no_source_is_refused() -> None:
    done = subprocess.run(["dot", "-Tsvg"], input=b"digraph {", capture_output=True)
    assert done.returncode != 0
