"""Every output is the same, byte for byte, whatever surrounds the process."""

from __future__ import annotations

import pytest
from fuzz import again
from fuzz.again import again_failure, outputs
from tier import THOROUGH

SEEDS = 2 if THOROUGH else 1  # each a process, with all that surrounds it drawn


def test_the_same_bytes_in_other_surroundings() -> None:
    assert [failure for seed in range(SEEDS) if (failure := again_failure(seed))[1]] == []


def test_other_bytes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what one process writes and another does not."""
    here = outputs(0)
    name = next(iter(here))

    def changed(_: int) -> dict[str, str]:
        return {**here, name: "other"}

    monkeypatch.setattr(again, "elsewhere", changed)
    assert name in again_failure(0)[1]
