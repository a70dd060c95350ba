"""Tensors that one process sends to another arrive as they were, most in one message."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
import torch
from runtime.ranks.alone import rank_of

from xg_runtime.ranks import messages
from xg_runtime.ranks.messages import Lengths, receive, send


class _Line:
    """Messages under way: as in gloo each is received at the length at which it was sent."""

    def __init__(self) -> None:
        self.messages: deque[torch.Tensor] = deque()

    def isend(self, message: torch.Tensor, _: int) -> _Line:
        self.messages.append(message)
        return self

    def irecv(self, room: torch.Tensor, _: int) -> _Line:
        message = self.messages.popleft()
        assert message.shape == room.shape
        room.copy_(message)
        return self

    def wait(self, timeout: timedelta) -> None:
        assert timeout


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> _Line:
    line = _Line()
    monkeypatch.setattr(messages, "_dist", line)
    return line


def test_a_third_message_of_one_length_comes_at_once(line: _Line) -> None:
    there, here = Lengths(), Lengths()
    counts: list[int] = []
    for length in (3, 3, 3, 4, 3, 5, 5, 5, 0, 0, 0, 5, 3, 5):
        sent = torch.randn(length)
        send(sent, 1, "cpu", there)
        counts.append(len(line.messages))
        assert receive(0, "cpu", 1.0, here).equal(sent)
        assert not line.messages
    assert counts == [2, 2, 1, 2, 1, 2, 2, 1, 1, 1, 1, 2, 2, 2]


def test_each_name_has_its_length(line: _Line) -> None:
    """A gradient that two stages share is sent once a step, between messages of another length."""
    counts: list[int] = []
    with rank_of({"N_P": 2}, 0, "cpu") as mesh:
        for _ in range(3):
            for _ in range(4):
                mesh.send(torch.ones(3), "N_P", 1)
            mesh.send(torch.ones(7), "N_P", 1, "dE")
            counts.append(len(line.messages))
            line.messages.clear()
    assert counts == [8, 6, 5]


SENT: list[Any] = [
    torch.randn(2, 3, dtype=torch.float64).T,
    torch.randn(3, 4).to(torch.bfloat16),
    torch.tensor([[True], [False]]),
    torch.arange(6).reshape(1, 2, 3),
    torch.tensor(2.5),
    torch.ones(3).expand(2, 3),
    torch.zeros(0, 2),
    np.arange(6, dtype=np.float32).reshape(2, 3).T,
    np.array(3.0),
]


@pytest.mark.parametrize("sent", SENT, ids=lambda x: f"{x.dtype}{list(x.shape)}")
def test_what_arrives_is_what_was_sent(line: _Line, sent: Any) -> None:  # noqa: ANN401
    there, here = Lengths(), Lengths()
    for _ in range(3):  # in two messages, and then in one
        given: Any = sent.clone() if isinstance(sent, torch.Tensor) else np.array(sent)
        send(given, 1, "cpu", there)
        given[...] = 0  # it is the sender's again
        found: Any = receive(0, "cpu", 1.0, here)
        assert type(found) is type(sent)
        assert found.dtype == sent.dtype
        assert tuple(found.shape) == tuple(sent.shape)
        np.testing.assert_array_equal(_plain(found), _plain(sent))
    assert not line.messages


def _plain(x: Any) -> Any:  # noqa: ANN401
    return x.to(torch.float64).numpy() if isinstance(x, torch.Tensor) else x
