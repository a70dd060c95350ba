"""`xg train --accumulate` on ranks sends every sum of gradients once for a batch.

Parameters that a plan holds are gathered once for a batch too, others once for each part.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Xg
from cli.run_logs import distance
from cli.uneven import counted
from numpy.typing import NDArray

from xg_runtime.ranks import gathered, start_all_reduce, sums
from xg_runtime.ranks.collectives import Handle, start_all_gather, start_reduce_scatter

Array = NDArray[np.float64]


def test_a_sum_is_sent_once_for_all_parts(
    xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def noted(x: Array, over: str, *, donate: bool) -> Handle[Array]:
        sent.append(over)
        return start_all_reduce(x, over, donate=donate)

    monkeypatch.setattr(sums, "start_all_reduce", noted)
    for parts in (1, 2, 4):
        words = [*counted(folder, 8), "--plan", "DP", "--accumulate", parts, "--kernels"]
        assert xg(*words[: -1 if parts > 1 else None], "--out", f"{parts}").code == 0
        assert sent == ["N_D"] * 2 * 12  # ranks and steps; of one matrix
        sent.clear()


@pytest.mark.parametrize(("plan", "each_part"), [("ZeRO1", False), ("ZeRO2", True)])
def test_what_is_held_is_gathered_and_scattered_once(
    xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch, plan: str, each_part: bool
) -> None:
    """On 2 ranks for 12 steps, where up to three parts of a batch have targets that count."""
    sent: list[str] = []

    def gather(x: Array, over: str, axis: int, *, donate: bool) -> Handle[Array]:
        sent.append("gather")
        return start_all_gather(x, over, axis, donate=donate)

    def scatter(x: Array, over: str, axis: int, *, donate: bool) -> Handle[Array]:
        sent.append("scatter")
        return start_reduce_scatter(x, over, axis, donate=donate)

    monkeypatch.setattr(gathered, "start_all_gather", gather)
    monkeypatch.setattr(sums, "start_reduce_scatter", scatter)
    words = counted(folder, 6)
    assert xg(*words, "--eval", 0, "--out", "one").code == 0
    said = xg(*words, "--eval", 0, "--plan", plan, "--accumulate", 3, "--out", plan)
    assert said.code == 0, said.err
    times = sent.count("gather")
    assert sent.count("scatter") == times
    assert 2 * 12 * 2 < times <= 2 * 12 * 3 if each_part else times == 2 * 12
    assert distance(folder / "one", folder / plan) < 1e-10
