"""Random sources: the same numbers in every backend, on every rank, in every round of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from passes.decode_step.stepping import stepping, written

import xg
from xg.cli import main
from xg.verify.reference.random import key, normal

Array = NDArray[Any]

DRAWN = """\
dim B = 200, Z = 300

block Drawn(x [B, Z]) -> n [B, Z], u [B, Z], b [B, Z], y [B, Z] {
    normal[B, Z](0.5, 2)  : n
    uniform[B, Z](-1, 4)  : u
    bernoulli[B, Z](0.3)  : b
    x -> ⊙<-n -> ⊕<-u     : y
}
"""
NOISY = """\
dim B, D = 6, Z = 4
mesh N_D = 2, N_T = 2

block Noisy(x [B, D], m [B, Z], s [B, Z]) -> y [B, D] {
    param W [Z, D]
    normal[B, Z](0.5, 2)                      : e [B, Z]
    uniform[B, Z](-1, 4)                      : u [B, Z]
    bernoulli[B, Z](0.3)                      : b [B, Z]
    s -> ⊙<-e -> ⊕<-m -> ⊙<-b -> ⊕<-u -> •<=W : h [B, D]
      -> ⊕<-x -> DO(0.25)                     : y
}

plan DP of Noisy {
    x    [B/N_D, D]
    m, s [B/N_D, Z]
}

plan TP of Noisy {
    m, s, e [B, Z/N_T]
    W       [Z/N_T, D]
}

plan BOTH = DP × TP
"""
ROUNDS = """\
dim B, S, D = 3

block Cell(x [B, D]) -> y [B, D] {
    normal[B, D](1) : e
    x -> ⊙<-e       : y
}

block Net(X [B, S, D]) -> Y [B, S, D] {
    X -> Cell over S : Y
}
"""
STEPPED = """\
dim B, S, D = 6

block Net(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D]
    uniform[B, S, D](1, 4) : u
    X -> •<=W -> ⊕<-u      : Y
}
"""
# Blocks without a tensor of their own: called, called by one another, in rounds.
BARE = """\
dim B, D = 3, S = 2

block Noise() -> y [B, D] {
    bernoulli[B, D](0.5) : y
}

block Louder() -> y [B, D] {
    Noise(B=B, D=D) as first -> ⊕<-Noise(B=B, D=D) : y
}

block Round(i [] in S) -> n [B, D], k [] in S {
    Noise(B=B, D=D) : n
    i               : k
}

block Net(x [B, D], ids [S] in S) -> z [B, D], n [B, D], N [S, B, D] {
    Louder(B=B, D=D)             : n
    ids -> Round(B=B, D=D) over S : N, K
    x -> ⊙<-n                    : z
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a text to a file."""

    def writing(text: str) -> Path:
        (tmp_path / "net.xg").write_text(text, encoding="utf-8")
        return tmp_path / "net.xg"

    return writing


def test_draws_are_equal_in_bits_and_have_their_laws(file: Callable[[str], Path]) -> None:
    program = xg.compile(file(DRAWN))
    x = np.zeros((200, 300))
    found = {
        backend: program.on_arrays(backend).forward({}, {"x": x}, seed=5)[0]
        for backend in ("numpy", "torch", "jax")
    }
    n, u, b = (np.asarray(found["numpy"][name]) for name in "nub")
    for other in ("torch", "jax"):
        for name in "ub":
            assert np.array_equal(found["numpy"][name], np.asarray(found[other][name]))
        assert np.abs(n - np.asarray(found[other]["n"])).max() < 1e-15
    assert np.array_equal(n, 2 + normal(key(5, "n"), (200, 300), 0.5))
    assert abs(n.mean() - 2) < 0.01
    assert abs(n.std() - 0.5) < 0.01
    assert u.min() >= -1
    assert u.max() < 4
    assert abs(u.mean() - 1.5) < 0.03
    assert abs(u.std() - 5 / 12**0.5) < 0.02
    assert set(np.unique(b)) == {0, 1}
    assert abs(b.mean() - 0.3) < 0.01
    assert abs(np.corrcoef([n.ravel(), u.ravel(), b.ravel()]) - np.eye(3)).max() < 0.02


@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_another_seed_draws_other_numbers_and_none_gives_means(
    backend: str, file: Callable[[str], Path]
) -> None:
    forward = xg.compile(file(DRAWN)).on_arrays(backend).forward
    inputs = {"x": np.ones((200, 300))}
    first, again, other = (forward({}, inputs, seed=seed)[0] for seed in (1, 1, 2))
    means = forward({}, inputs)[0]
    for name, mean in (("n", 2), ("u", 1.5), ("b", 0.3), ("y", 3.5)):
        assert np.array_equal(first[name], again[name])
        assert np.mean(np.asarray(first[name]) == np.asarray(other[name])) < 0.7
        assert np.array_equal(means[name], np.full((200, 300), mean))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("backend", ["numpy", "torch", "jax"])
def test_a_block_without_tensors_draws_in_the_type_of_its_caller(
    backend: str, kind: type[np.floating[Any]], file: Callable[[str], Path]
) -> None:
    module = xg.compile(file(BARE)).on_arrays(backend)
    inputs = {"x": np.ones((2, 3), kind), "ids": np.array([0, 1])}
    outputs, saved = module.forward({}, inputs, seed=3)
    assert {str(np.asarray(outputs[name]).dtype) for name in "znN"} == {np.dtype(kind).name}
    gradients = module.backward({}, saved, {"z": np.ones((2, 3), kind)})
    assert np.array_equal(np.asarray(gradients["x"]), np.asarray(outputs["n"]))
    assert np.asarray(gradients["x"]).dtype == kind


def test_gradients_agree_with_differences_in_every_backend(
    file: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verify", str(file(NOISY)), "--against", "fd,torch,jax"]
    assert main(words) == 0, capsys.readouterr().out


@pytest.mark.parametrize("plan", ["DP", "TP", "BOTH"])
def test_ranks_take_their_part_of_the_same_numbers(
    plan: str, file: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(file(NOISY)), "--plan", plan]) == 0, capsys.readouterr().out


def test_each_round_of_a_loop_draws_its_own(file: Callable[[str], Path]) -> None:
    X = np.ones((2, 5, 3))
    found: list[Array] = []
    for backend in ("numpy", "torch"):
        module = xg.compile(file(ROUNDS)).on_arrays(backend)
        found.append(np.asarray(module.forward({}, {"X": X}, seed=3)[0]["Y"]))
    assert len(np.unique(found[0])) == found[0].size
    assert np.abs(found[0] - found[1]).max() < 1e-15


def test_a_step_of_generation_adds_the_mean() -> None:
    one = stepping(written(STEPPED))
    assert np.abs(one.stepped((3, 4)) - one.expected()).max() < 1e-12
