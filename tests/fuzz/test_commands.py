"""Random programs through the commands; `./dev fuzz commands` tries many more."""

from __future__ import annotations

import pytest
from fuzz.commands import command_failure
from tier import THOROUGH

from xg.cli.commands import cost

SEEDS = range(300 if THOROUGH else 10)
CHUNK = 10


@pytest.mark.parametrize("start", range(0, len(SEEDS), CHUNK))
def test_no_command_fails_by_itself(start: int) -> None:
    assert [command_failure(seed) for seed in SEEDS[start : start + CHUNK]] == [("", "")] * CHUNK


def test_a_command_that_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the first program that meets it, and all else works."""

    def broken(*_: object) -> int:
        raise KeyError("planted")

    monkeypatch.setattr(cost, "run", broken)
    found = [command_failure(seed) for seed in SEEDS[:10]]
    told = [message for _, message in found if message]
    assert told
    assert all(message.startswith("xg cost case.xg") and "planted" in message for message in told)
