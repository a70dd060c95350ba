"""Whatever happens to the disk or the process in a write, old or new files are there, whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz import faults
from fuzz.faults import fault_failure, tried
from tier import THOROUGH

SEEDS = 24 if THOROUGH else 12
EVERY_STEP = ("fmt", "save")  # a build takes longer; the seeds have some


@pytest.mark.parametrize("name", EVERY_STEP)
def test_every_step_of_a_write_may_fail(name: str) -> None:
    faults = ("full", "killed")  # daily by turns
    places = [
        (fault, place)
        for number, fault in enumerate(faults)
        for place in range(1, 13)
        if THOROUGH or place % 2 == number
    ]
    assert [failure for case in places if (failure := tried(name, *case))] == []


def test_random_faults() -> None:
    assert [failure for seed in range(SEEDS) if (failure := fault_failure(seed))] == []


@pytest.mark.parametrize("fault", ["interrupted", "full"])
def test_old_files_are_gone_whatever_the_removal_of_one_meets(fault: str) -> None:
    assert [failure for place in (16, 17, 18) if (failure := tried("build", fault, place))] == []


def in_place(folder: Path, text: str) -> int:
    with (folder / "a").open("w", encoding="utf-8") as file:
        file.write(text[:9])
        file.flush()
        if text == faults.NEW:
            (folder / "b").write_text("b", encoding="utf-8")
        file.write(text[9:])
    return 0


def leaving(folder: Path, text: str) -> int:
    (folder / "a").write_text(text, encoding="utf-8")
    (folder / ".a.1.xg-new").write_text(text, encoding="utf-8")
    return 0


def test_a_torn_file_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a writer that writes in place, and one that leaves a name behind."""
    monkeypatch.setattr(faults, "WRITERS", {"torn": in_place, "left": leaving})
    assert "torn" in tried("torn", "killed", 2)
    assert "left for ever" in tried("left", "killed", 99)
