"""Texts are checked once after a pause in typing, whatever happens in the meantime."""

from __future__ import annotations

import asyncio

import pytest
from lsprotocol import types

from xg.frontend.choices import CheckMemory
from xg_editor import session as module
from xg_editor.session import ReadText, Session, analyze

TEXT = "dim B\nblock F(X [B]) -> Y [B] {\n    X -> S : Y\n}\n"
Published = list[types.PublishDiagnosticsParams]


class Desk:
    """A session whose checks are counted, and what it published and reported."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bug: Exception | None = None) -> None:
        self.published: Published = []
        self.reported: list[Exception] = []
        self.checked: list[str] = []
        self.bug = bug
        monkeypatch.setattr(module, "analyze", self._analyze)
        monkeypatch.setattr(module, "PAUSE", 0.01)
        self.session = Session(self.published.append, self.reported.append)

    def _analyze(self, text: ReadText, memory: CheckMemory) -> object:
        self.checked.append(text.source.text)
        if self.bug:
            raise self.bug
        return analyze(text, memory)

    async def answers(self, count: int) -> None:
        """Wait until so many answers were given."""
        async with asyncio.timeout(30):
            while len(self.published) + len(self.reported) < count:
                await asyncio.sleep(0.005)


def test_keys_in_a_row_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch)

    async def typed() -> None:
        desk.session.opened("untitled:a", TEXT, 1)
        await desk.answers(1)
        for key in range(1, 41):
            desk.session.changed("untitled:a", TEXT + "#" * key, key + 1)
        await desk.answers(2)
        desk.session.stop()

    asyncio.run(typed())
    assert desk.checked == [TEXT, TEXT + "#" * 40]
    assert [(each.version, each.diagnostics) for each in desk.published] == [(1, []), (41, [])]


def test_a_question_does_not_wait_for_the_pause_and_is_not_checked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk(monkeypatch)

    async def asked() -> None:
        desk.session.opened("untitled:a", TEXT, 1)
        first, second = await asyncio.gather(
            desk.session.analysis("untitled:a"), desk.session.analysis("untitled:a")
        )
        assert first is second
        await desk.answers(1)
        desk.session.stop()

    asyncio.run(asked())
    assert desk.checked == [TEXT]


def test_an_answer_to_an_older_text_is_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch)

    async def typed() -> None:
        desk.session.opened("untitled:a", "dim (", 1)
        while not desk.checked:  # it is being checked, and now changes
            await asyncio.sleep(0)
        desk.session.changed("untitled:a", TEXT, 2)
        await desk.answers(1)
        desk.session.stop()

    asyncio.run(typed())
    assert desk.checked == ["dim (", TEXT]
    assert [(each.version, each.diagnostics) for each in desk.published] == [(2, [])]


def test_a_bug_is_reported_and_the_next_text_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch, KeyError("ours"))

    async def broken() -> None:
        desk.session.opened("untitled:a", TEXT, 1)
        await desk.answers(1)
        desk.bug = None
        desk.session.changed("untitled:a", TEXT + "#", 2)
        await desk.answers(2)
        desk.session.stop()

    asyncio.run(broken())
    assert [type(bug) for bug in desk.reported] == [KeyError]
    assert [each.version for each in desk.published] == [2]
