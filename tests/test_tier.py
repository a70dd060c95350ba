"""A sample of cases, as CI tries it, has each kind that the whole has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
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


SKIPS = re.compile(r"importorskip|\bskip(if)?\(|\bxfail\b")


@pytest.mark.parametrize("text", ["pytest.importorskip(name)", "mark.skipif(1)", "pytest.skip()"])
def test_what_passes_a_test_over_is_seen(text: str) -> None:
    assert SKIPS.search(text)


def test_no_test_is_passed_over() -> None:
    """All libraries are among the tools of development, so what lacks one is to fail.

    Tests that need other tools of the machine are left out by `conftest.py`, which says so.
    """
    files = set(Path(__file__).parent.rglob("*.py")) - {Path(__file__)}
    assert [path.name for path in sorted(files) if SKIPS.search(path.read_text("utf-8"))] == []
