"""A sample of cases, as CI tries it, has each kind that the whole has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from library import LIBRARY, VARIED, shipped
from tier import some

from xg import ops
from xg.frontend.project import read_project
from xg.syntax import ast
from xg.syntax.tree import walk


@pytest.mark.parametrize("thorough", [False, True])
def test_a_sample_has_each_kind_once_and_the_whole_has_everything(thorough: bool) -> None:
    words = ["ab", "c", "de", "f", "ghi"]
    sample = some(words, len, thorough=thorough)
    assert sample == (words if thorough else ["ab", "c", "ghi"])


def test_equal_cases_are_told_apart_by_what_they_are() -> None:
    assert some(["a", "a", "b"], str, thorough=False) == ["a", "b"]


def constructs(path: Path) -> Iterator[str]:
    """The operators and the parts of the language that a file has."""
    for tree in walk(read_project(path).main):
        yield type(tree).__name__
        if isinstance(tree, ast.NodeUse):
            yield from (name for name in ("over", "guard", "repeat") if getattr(tree, name))
        if isinstance(tree, ast.NodeUse | ast.Call) and tree.operator.name in ops.table():
            yield tree.operator.name


def test_varied_diagrams_have_all_that_diagrams_have() -> None:
    every = {one for path in LIBRARY.glob("*/*.xg") for one in constructs(path)}
    assert every == {one for name in VARIED for one in constructs(shipped(name))}
    others = VARIED - {"moe"}
    assert every > {one for name in others for one in constructs(shipped(name))}
