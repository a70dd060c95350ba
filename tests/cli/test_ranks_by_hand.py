"""`xg train` of a block that is written as one rank sees it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from cli.conftest import Xg

from xg_runtime import arrays

NET = """\
dim B, S, D = 12, D_ff = 4*D
mesh N_T = 2

block Net(X [B, S, D], t [B, S, D]) -> loss [] {
    param W_up [D, D_ff/N_T], W_down [D_ff/N_T, D], b [D] = zeros

    X -> •<=W_up -> GELU -> •<=W_down  : Z_i [B, S, D]
      -> AR(N_T) -> ⊕<-BC(b) -> MSE<-t : loss
}
"""


def test_a_run_goes_on_with_other_ranks(xg: Xg, folder: Path) -> None:
    """A run is the same on every mesh and on a single rank, so it may resume on another one."""
    (folder / "net.xg").write_text(NET, encoding="utf-8")
    draw = np.random.default_rng(0)
    rows = {name: draw.standard_normal((12, 3, 12)) for name in ("X", "t")}
    arrays.write(folder / "rows.npz", rows)
    words = ["train", "net.xg", "--data", "rows.npz", "--batch", 4, "--schedule", "constant"]
    words += ["--dtype", "float64", "--eval", 0]
    assert xg(*words, "--steps", 6, "--out", "whole").code == 0
    for steps, ranks in ((2, 3), (4, 1), (6, 4)):
        more = ["--resume"] if steps > 2 else []
        said = xg(*words, "--steps", steps, "--set", f"N_T={ranks}", "--out", "parts", *more)
        assert said.code == 0, said.err
    whole, parts = (losses(folder / name) for name in ("whole", "parts"))
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def losses(run: Path) -> list[float]:
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["loss"] for line in lines]
