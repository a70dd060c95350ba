"""Garbage is collected between checks, and only in a process whose collector rests."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest

from xg.diagnostics.lazy_dataclass import resting_collector
from xg_editor import session as collecting
from xg_editor.session import ALL, CHECKS_OF_NEW, NEW, IdleCollector


def collections(monkeypatch: pytest.MonkeyPatch, checks: int, pause: float) -> list[int]:
    """How old the objects were that were looked at during and behind some checks in a row."""
    monkeypatch.setattr(collecting, "REST", pause)
    done: list[tuple[Callable[[int], object], int]] = []

    def run(work: Callable[[int], object], age: int) -> None:
        done.append((work, age))

    collector = IdleCollector(run)

    async def check() -> None:
        for _ in range(checks):
            collector.checked()
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        collector.stop()

    asyncio.run(check())
    assert all(work is gc.collect for work, _ in done)
    return [age for _, age in done]


def test_garbage_is_collected_once_behind_checks_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    with resting_collector():
        assert collections(monkeypatch, 3, 0.01) == [NEW]
        assert collections(monkeypatch, 3, 10.0) == []


def test_a_pause_behind_many_checks_is_for_all_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    with resting_collector():
        assert collections(monkeypatch, CHECKS_OF_NEW - 1, 0.01) == [NEW]
        assert collections(monkeypatch, CHECKS_OF_NEW, 0.01) == [ALL]


def test_checks_without_a_pause_are_interrupted_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "CHECKS_AT_MOST", 4)
    with resting_collector():
        assert collections(monkeypatch, 9, 10.0) == [ALL, ALL]


def test_a_process_that_collects_by_itself_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "isenabled", lambda: True)
    assert collections(monkeypatch, 3, 0.01) == []
