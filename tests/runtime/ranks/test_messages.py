"""Messages between processes arrive as they were sent, and only the first one has a head."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
import torch
from runtime.ranks.alone import rank_of

from xg_runtime.errors import InputError
from xg_runtime.ranks import process_mesh
from xg_runtime.ranks.call import Form, Incoming, Outgoing
from xg_runtime.ranks.process_mesh import Post, ProcessMesh, read_head


class _Line:
    """Messages under way, to this rank from itself; a room has the length of what comes."""

    def __init__(self) -> None:
        self.under_way: deque[torch.Tensor] = deque()
        self.batches: list[int] = []

    def post(self, batch: Sequence[Post], _: object) -> list[_Line]:
        """Take the place of `process_mesh.post`."""
        self.batches += [len(batch)] if batch else []
        for each in batch:
            if each.is_send:
                self.under_way.append(each.content.clone())
            else:
                content = self.under_way.popleft()
                assert content.shape == each.content.shape
                each.content.copy_(content)
        return [self for _ in batch]

    def wait(self, timeout: timedelta) -> None:
        """End at once."""
        assert timeout


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> _Line:
    line = _Line()
    monkeypatch.setattr(process_mesh, "post", line.post)
    return line


def pass_on(mesh: ProcessMesh, sent: Any, *, opens: bool, name: str = "") -> Any:  # noqa: ANN401
    """Send to the other rank, and receive the same from it."""
    mesh.exchange("N_P", [Outgoing(sent, 1, name, opens)], [])
    return mesh.exchange("N_P", [], [Incoming(1, name, opens)]).wait(0)


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
    with rank_of({"N_P": 2}, 0, "cpu") as mesh:
        for opens in (True, False, False):
            given: Any = sent.clone() if isinstance(sent, torch.Tensor) else np.array(sent)
            mesh.exchange("N_P", [Outgoing(given, 1, "forward", opens)], [])
            given[...] = 0  # it is the sender's again
            found: Any = mesh.exchange("N_P", [], [Incoming(1, "forward", opens)]).wait(0)
            assert type(found) is type(sent)
            assert found.dtype == sent.dtype
            assert tuple(found.shape) == tuple(sent.shape)
            np.testing.assert_array_equal(_plain(found), _plain(sent))
    assert not line.under_way


def test_only_the_first_message_of_a_step_has_a_head(
    line: _Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads: list[Form] = []

    def read(message: torch.Tensor) -> Form:
        heads.append(read_head(message))
        return heads[-1]

    monkeypatch.setattr(process_mesh, "read_head", read)
    with rank_of({"N_P": 2}, 0, "cpu") as mesh:
        for rows in (4, 3):  # a step has a shape of its own
            for part in range(3):
                assert pass_on(mesh, torch.ones(rows, 2), opens=part == 0).shape == (rows, 2)
        shared = torch.ones(5)
        mesh.exchange("N_P", [Outgoing(shared, 1, "dE")], [])
        found = mesh.exchange("N_P", [], [Incoming(1, "dE", like=shared)])
        assert found.wait(0).tolist() == [1] * 5
    assert [str(form) for form in heads] == ["float32 [4, 2]", "float32 [3, 2]"]
    assert line.batches == [1] * (2 * 2 + 2 * 6 + 2)


def test_sends_and_receives_of_one_time_are_one_batch(line: _Line) -> None:
    with rank_of({"N_P": 2}, 0, "cpu") as mesh:
        ways = [Outgoing(torch.ones(2), 1, "forward", True)], [Incoming(1, "forward", True)]
        assert mesh.exchange("N_P", *ways).wait(0).tolist() == [1, 1]
    assert line.batches == [2, 2]


def test_microbatches_of_one_step_have_one_shape(line: _Line) -> None:
    said = r"^all microbatches of a step need one shape; found float32 \[3\] after float32 \[4\]$"
    with rank_of({"N_P": 2}, 0, "cpu") as mesh:
        pass_on(mesh, torch.ones(4), opens=True)
        with pytest.raises(InputError, match=said):
            pass_on(mesh, torch.ones(3), opens=False)
        with pytest.raises(InputError, match=r"^a rank sends float32, .*; found int16$"):
            pass_on(mesh, torch.ones(3, dtype=torch.int16), opens=True)


def _plain(x: Any) -> Any:  # noqa: ANN401
    return x.to(torch.float64).numpy() if isinstance(x, torch.Tensor) else x
