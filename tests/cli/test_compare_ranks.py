"""`xg compare` with what several ranks have written: the first edge and the rank that differ."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.conftest import DIAGRAMS, Said, Xg
from examples.minigpt.minigpt import build
from numpy.typing import NDArray

from xg_torch.compare.foreign_run import HookedRun, uneven_targets

Arrays = dict[str, NDArray[Any]]
FILE = str(DIAGRAMS / "models" / "transformer.xg")
NAMES = str(DIAGRAMS.parent / "examples" / "minigpt" / "minigpt.names.toml")
SIZES = ("--set", "N_L=2", "--set", "N_H=4", "--set", "D_ff=40")
# The axes that tensor parallelism cuts: of weights, and of what the modules give.
CUT = {r"(attention\.[qkv]|up)(\.weight|\.bias)": 0, r"(attention\.out|down)\.weight": 1}
GIVEN = {r"(attention\.[qkv]|up)": -1}
save: Any = np.savez  # to a checker its arrays by name are its own options


def step(rows: slice = slice(None)) -> Arrays:
    """All arrays of one step of the whole model, on some rows of the batch."""
    rng = np.random.default_rng(0)
    ids, t = (rng.integers(0, 61, (4, 5))[rows] for _ in range(2))
    torch.manual_seed(0)
    model = build().double()
    for param in model.parameters():
        param.data += 0.1 * torch.randn_like(param)
    run = HookedRun(model, {"ids": torch.as_tensor(ids), "t": torch.as_tensor(t)}, 0)
    found = run.backward({1: np.ones(())})
    arrays = {n: p.detach().numpy() for n, p in model.named_parameters()}
    for event in found.events:
        if event.kind == "output":
            arrays[event.module] = event.array
            if event.gradient is not None:
                arrays[f"d/{event.module}"] = event.gradient
    own = {n: g for n, g in found.gradients.items() if n in arrays and g is not None}
    arrays |= {f"d/{n}": g for n, g in own.items()}
    return {**arrays, "ids": ids, "t": t, "loss": np.asarray(found.outputs[1][1])}


def heads(arrays: Arrays, rank: int, ranks: int = 2) -> Arrays:
    """The part of them that a rank of a tensor parallel model has."""
    found = dict(arrays)
    for name, array in arrays.items():
        for pattern, axis in {**CUT, **GIVEN}.items():
            if re.fullmatch(rf"(d/)?layers\.\d+\.{pattern}", name):
                found[name] = np.split(array, ranks, axis)[rank]
    return found


@pytest.fixture(scope="module")
def whole() -> Arrays:
    """A step of one device."""
    return step()


@pytest.fixture(scope="module")
def halves() -> list[Arrays]:
    """A step of each half of the batch, with its own loss, and the mean of the gradients."""
    parts = [step(slice(0, 2)), step(slice(2, 4))]
    grads = [n for n in parts[0] if n.startswith("d/") and n.removeprefix("d/") in build_names()]
    for name in grads:
        mean = (parts[0][name] + parts[1][name]) / 2
        for part in parts:
            part[name], part[f"local {name}"] = mean, part[name]
    return parts


def build_names() -> set[str]:
    """The names of the model's parameters."""
    return {name for name, _ in build().named_parameters()}


Told = Callable[..., Said]


@pytest.fixture
def told(xg: Xg, folder: Path) -> Told:
    """Compare what ranks have under a plan."""

    def compared(ranks: Sequence[Arrays], plan: str = "TP", *more: str) -> Said:
        (folder / "ranks").mkdir(exist_ok=True)
        for number, arrays in enumerate(ranks):
            save(folder / "ranks" / f"rank{number}.npz", **arrays)
        words = ("compare", FILE, "--against", "ranks", "--plan", plan, "--map", NAMES)
        return xg(*words, *SIZES, *more)

    return compared


def test_ranks_that_agree(told: Told, whole: Arrays, halves: list[Arrays]) -> None:
    said = told([heads(whole, 0), heads(whole, 1)])
    assert said.code == 0, said.err + said.out
    assert (
        "agree: 21 forward tensors, 19 backward tensors and the gradients of 36 parameters"
        in said.out
    )
    said = told([whole, whole], "FSDP")  # gathered before they were written
    assert said.code == 0, said.err + said.out
    said = told(halves, "DP")
    assert said.code == 0, said.err + said.out
    both = [heads(half, rank) for half in halves for rank in range(2)]
    assert "19 backward" in (said := told(both, "DP × TP")).out
    assert said.code == 0, said.err + said.out


def test_the_edge_and_the_rank_that_differ_are_named(told: Told, whole: Arrays) -> None:
    def wrong(name: str, change: Callable[[NDArray[Any]], NDArray[Any]]) -> str:
        ranks = [heads(whole, 0), heads(whole, 1)]
        ranks[1][name] = change(ranks[1][name])
        ranks[1]["layers.1.down"] = ranks[1]["layers.1.down"] + 1.0  # a later error
        ranks[1]["loss"] = ranks[1]["loss"] + 1.0
        said = told(ranks)
        assert said.code == 1
        return said.out

    out = wrong("layers.0.up", lambda x: 3 * x)
    assert "first forward difference: ⊕ of line 29 in layers.0.ffn" in out
    assert " on rank 1\n" in out
    out = wrong("layers.0.attention.out", lambda x: -x)
    assert "first forward difference: Y of line 23 in layers.0.attn" in out
    assert " on rank 1\n" in out
    out = wrong("layers.0.norm_1.weight", lambda x: x + 0.1)
    assert "first forward difference: layers.0.norm_1.weight" in out
    assert " on rank 1\n" in out
    assert "its copies differ from rank to rank" in out


def test_a_gradient_of_one_rank(told: Told, whole: Arrays, halves: list[Arrays]) -> None:
    ranks = [heads(whole, 0), heads(whole, 1)]
    ranks[1]["d/layers.1.down.weight"] = 2 * ranks[1]["d/layers.1.down.weight"]
    out = told(ranks).out
    assert "first backward difference: dlayers.1.ffn.W_down of line 27" in out
    assert " on rank 1\n" in out
    both = [heads(half, rank) for half in halves for rank in range(2)]
    both[3]["d/layers.1.down.weight"] = 2 * both[3]["d/layers.1.down.weight"]
    assert " on rank 3 (N_D = 1, N_T = 1)\n" in told(both, "DP_TP").out


def test_sums_that_are_missing_or_taken_for_means(told: Told, halves: list[Arrays]) -> None:
    own = [{n: part.get(f"local {n}", part[n]) for n in part} for part in halves]
    out = told(own, "DP").out
    assert "first backward difference: dgamma of line 52" in out
    assert " on every rank\n" in out
    assert "from rank 0 of 2 only, cut along axis 0: the sum over ranks is missing" in out
    summed = [{n: 2 * x if f"local {n}" in part else x for n, x in part.items()} for part in halves]
    out = told(summed, "DP").out  # the mesh axis first, then what else has this number
    assert "yours is the diagram's times 2 = N_D or N_L: a sum where a mean belongs" in out


def test_terms_that_are_summed_behind_a_module_are_no_error(told: Told, whole: Arrays) -> None:
    """Plain linear layers around which somebody sums: what they give is not the edge."""
    terms = [heads(whole, rank) for rank in range(2)]
    for part, own in zip(terms, (0.3, 0.7), strict=True):
        part["layers.1.down"] = own * part["layers.1.down"]
        part["d/layers.1.norm_2"] = own * part["d/layers.1.norm_2"]
    said = told(terms)
    assert said.code == 0, said.out
    for part in terms:
        part["d/layers.0.norm_1.weight"] = 2 * part["d/layers.0.norm_1.weight"]
    assert "first backward difference: dlayers.0.gamma_1" in told(terms).out
    for part, own in zip(terms, (0.3, 0.7), strict=True):
        for name in [n for n in part if n.startswith(("d/layers.0.", "d/words"))]:
            part[name] = own * part[name]
        part["d/positions.weight"] = own * part["d/positions.weight"]
        part["d/layers.1.norm_2.weight"] = own * part["d/layers.1.norm_2.weight"]
    assert "first backward difference: dlayers.1.gamma_2" in told(terms).out


def test_what_cannot_be_compared_is_told(told: Told, whole: Arrays, xg: Xg, folder: Path) -> None:
    ranks = [heads(whole, 0), heads(whole, 1)]
    assert "TP has 4 (N_T = 4): --set N_T=" in told(ranks, "TP", "--set", "N_T=4").err
    assert "stages" in told(ranks, "PP").err
    words = ("compare", FILE, "--map", NAMES, *SIZES, "--against")
    assert "has the arrays of 2 ranks: name the plan" in xg(*words, "ranks").err
    assert (
        "--plan compares arrays of several ranks"
        in xg(*words, "ranks/rank0.npz", "--plan", "TP").err
    )
    assert xg(*words, "ranks/rank*.npz", "--plan", "TP").code == 0
    (folder / "ranks" / "rank1.npz").rename(folder / "ranks" / "rank2.npz")
    said = xg(*words, "ranks", "--plan", "TP")
    assert "from rank0.npz on; found rank0.npz, rank2.npz" in said.err
    ranks[1]["d/layers.0.up.weight"] = np.zeros((3, 3))
    (folder / "ranks" / "rank2.npz").unlink()
    assert "d/layers.0.up.weight of rank 0 must have the shape of" in told(ranks).err


HEAD = """\
dim B, S, D = 3, V = 5
mesh N_D = 2
block Head(X [B, S, D], t [B, S] in V) -> loss [] {
    param W [D, V]
    X -> •<=W -> CE(ignore=-1)<-t : loss
}
plan DP of Head {
    X [B/N_D, S, D]
    t [B/N_D, S]
}
"""


def head_on(X: NDArray[Any], t: NDArray[Any], W: NDArray[Any]) -> Arrays:
    """The loss of some rows and its gradient, each a mean over the targets that count there."""
    weight = torch.tensor(W, requires_grad=True)
    logits = (torch.tensor(X) @ weight).reshape(-1, W.shape[1])
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(t.ravel()), ignore_index=-1)
    loss.backward()
    assert weight.grad is not None
    return {"loss": loss.detach().numpy(), "d/W": weight.grad.numpy()}


@pytest.mark.parametrize("is_reduced", [False, True])
def test_a_mean_of_means_over_targets_that_count(xg: Xg, folder: Path, is_reduced: bool) -> None:
    """Of 4 · 3 targets three are ignored on rank 1: 6 count on rank 0, and 3 on rank 1."""
    (folder / "head.xg").write_text(HEAD, encoding="utf-8")
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((4, 3, 3)), rng.standard_normal((3, 5))
    t = rng.integers(0, 5, (4, 3))
    t[2:, 0] = t[3, 1] = -1
    parts = [head_on(X[rows], t[rows], W) for rows in (slice(0, 2), slice(2, 4))]
    mean = (parts[0]["d/W"] + parts[1]["d/W"]) / 2
    right = head_on(X, t, W)
    (folder / "ranks").mkdir()
    for rank, part in enumerate(parts):
        rows = slice(2 * rank, 2 * rank + 2)
        loss = right["loss"] if is_reduced else part["loss"]
        arrays = {"X": X[rows], "t": t[rows], "W": W, "loss": loss, "d/W": mean}
        save(folder / "ranks" / f"rank{rank}.npz", **arrays)
    said = xg("compare", "head.xg", "--against", "ranks", "--plan", "DP")
    assert said.code == 1
    first = "backward difference: dW" if is_reduced else "forward difference: loss"
    assert f"first {first}" in said.out
    assert "a mean of means: 2 ranks have 6 and 3 targets that count" in said.out
    assert "divides by its own number, not all by 9" in said.out


def test_a_factor_that_fits_nothing_is_no_cause(xg: Xg, folder: Path) -> None:
    (folder / "head.xg").write_text(HEAD, encoding="utf-8")
    rng = np.random.default_rng(0)
    X, W, t = rng.standard_normal((4, 3, 3)), rng.standard_normal((3, 5)), np.ones((4, 3), int)
    right = head_on(X, t, W)
    for factor, known in ((37 / 36, False), (4.0, True)):
        save(folder / "found.npz", X=X, t=t, W=W, loss=right["loss"] / factor, **{"d/W": W})
        said = xg("compare", "head.xg", "--against", "found.npz")
        assert "first forward difference: loss" in said.out
        assert ("yours is the diagram's divided by 4 = B" in said.out) == known
        assert ("divided" in said.out) == known


def test_drawn_targets_count_on_no_two_ranks_alike() -> None:
    """Along each axis that ranks share, each rank has targets, and not all as many."""
    for shape in ((2, 2), (4, 8), (8, 4), (1, 4), (4,), (2, 3, 4)):
        for axis in range(len(shape)):
            for ranks in (2, 4):
                if shape[axis] % ranks == 0 and prod(shape) > ranks:
                    counts = ~uneven_targets(shape, ranks)
                    parts = [int(part.sum()) for part in np.split(counts, ranks, axis)]
                    assert min(parts) > 0
                    assert len(set(parts)) > 1, (shape, axis, ranks)
    assert not uneven_targets((1, 2), 2).any()
