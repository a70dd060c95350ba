"""A block to train whose targets count on some rows more than on others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xg_runtime import arrays

# Targets of -1 do not count: the ranks have different numbers of tokens to learn from.
COUNTED = """\
dim B, S, V = 6, D = 4
mesh N_D = 2, N_T = 2

block Net(X [B, S, D], t [B, S] in V) -> loss [] {
    param W [D, V]
    X -> •<=W : Z [B, S, V]
      -> CE(ignore=-1)<-t : loss
}

plan DP of Net {
    X [B/N_D, S, D]
    t [B/N_D, S]
}
plan Rows of Net {
    W [D/N_T, V]
}
plan Both = DP × Rows
plan ZeRO1 of Net {
    X [B/N_D, S, D]
    t [B/N_D, S]
    W [D/N_D, V] -> [D, V] hold
}
plan ZeRO2 of Net {
    X [B/N_D, S, D]
    t [B/N_D, S]
    W [D/N_D, V] -> [D, V] keep
}
"""


def counted(folder: Path, batch: int) -> list[object]:
    """The words that train a block on rows in which most targets do not count."""
    (folder / "net.xg").write_text(COUNTED, encoding="utf-8")
    draw = np.random.default_rng(0)
    t = draw.integers(0, 6, (20, 3))
    t[draw.random((20, 3)) < 0.6] = -1
    arrays.write(folder / "rows.npz", {"X": draw.standard_normal((20, 3, 4)), "t": t})
    words: list[object] = ["train", "net.xg", "--data", "rows.npz", "--batch", batch, "--steps", 12]
    return [*words, "--dtype", "float64", "--optimizer", "sgd", "--lr", 0.5]
