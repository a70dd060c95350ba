"""A padded vocabulary on the command line: proven on processes, trained, and resumed elsewhere."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree, rmtree

import numpy as np
import pytest
from cli.conftest import Xg

from xg_runtime import checkpoint

NET = """\
dim B, S, D = 6, V = 7
mesh N_T = 3
block LM(ids [B, S] in V, t [B, S] in V) -> Z [B, S, V], loss [] {
    param E [V, D], W [D, V]
    ids -> Emb(E) : X [B, S, D]
        -> •<=W   : Z
        -> CE<-t  : loss
}
plan VP of LM {
    E [V/N_T, D] pad
    X [B, S, D]
    W [D, V/N_T]
}
"""


@pytest.fixture
def net(folder: Path) -> Path:
    (folder / "net.xg").write_text(NET, encoding="utf-8")
    draw = np.random.default_rng(0)
    ids, t = draw.integers(0, 7, (2, 64, 5))
    np.savez(folder / "rows.npz", ids=ids, t=t)
    return folder


@pytest.mark.usefixtures("warm_ranks")
def test_processes_compute_what_one_device_does(xg: Xg, net: Path) -> None:
    said = xg("verify", "net.xg", "--plan", "VP", "--set", "N_T=3", "--on", "processes")
    assert said.code == 0, said.err
    assert "V = 5, on 3 ranks that are processes" in said.out
    assert "2 outputs and 2 gradients" in said.out


def test_a_run_is_resumed_on_other_ranks(xg: Xg, net: Path) -> None:
    """Three ranks, two, and one device learn the same, from the same files."""
    words = ["train", "net.xg", "--data", "rows.npz", "--batch", "4", "--steps", "4"]
    words += ["--checkpoint", "2", "--dtype", "float64", "--lr", "0.01", "--loss", "loss"]
    planned = ["--plan", "VP"]
    assert xg(*words, "--out", "alone").code == 0
    assert xg(*words, *planned, "--out", "three").code == 0
    again = {"two": [*planned, "--set", "N_T=2"], "one": [], "dcp": []}
    for run, settings in again.items():
        if run == "dcp":
            form = ["--checkpoint-format", "dcp"]
            assert xg(*words, *planned, *form, "--out", run).code == 0
        else:
            copytree(net / "three", net / run)
        rmtree(net / run / "checkpoints" / "step-00000004")
        assert xg(*words, *settings, "--out", run, "--resume").code == 0
    expected = checkpoint.load(net / "alone")
    for run in ("three", *again):
        found = checkpoint.load(net / run)
        assert found.step == 4
        for name, array in {**expected.params, **expected.slots}.items():
            other = {**found.params, **found.slots}[name]
            np.testing.assert_allclose(other, array, rtol=1e-9, atol=1e-15)
