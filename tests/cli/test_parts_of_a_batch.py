"""`xg train --accumulate` on ranks sends every sum of gradients once for a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Xg
from cli.uneven import counted
from numpy.typing import NDArray

from xg_runtime.ranks import start_all_reduce, sums
from xg_runtime.ranks.collectives import Handle

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
