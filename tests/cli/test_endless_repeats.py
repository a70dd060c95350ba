"""A repeat of any length costs every command what one round costs, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Xg
from deadline import deadline

from xg.diagnostics.limits import Executions, ListedRounds
from xg_runtime import arrays

SECONDS = 60  # what lists 10^9 rounds takes the memory of the machine first
NET = """\
dim B, D = 4, N = {rounds}
block F(X [B, D]) -> Y [B, D] {{
    param W [D, D]
    X -> •<=W : Y
}}
block Net(X [B, D], t [B, D]) -> loss [] {{
    X -> N × F as f -> MSE<-t : loss
}}
"""
BARE = """\
dim B, D = 4, N = {rounds}
block F(X [B, D]) -> Y [B, D] {{
    X -> tanh : Y
}}
block Net(X [B, D], t [B, D]) -> loss [] {{
    param W [D, D]
    X -> •<=W -> N × F as f -> MSE<-t : loss
}}
"""
NUMBERS = "10^9", "2^63"


@pytest.fixture(autouse=True)
def _deadline() -> Iterator[None]:
    with deadline(SECONDS):
        yield


def write(folder: Path, text: str, rounds: str) -> None:
    (folder / "net.xg").write_text(text.format(rounds=rounds), encoding="utf-8")
    np.savez(folder / "in.npz", X=np.ones((2, 4)), t=np.ones((2, 4)))
    arrays.write(folder / "weights.npz", {"f.0.W": np.ones((4, 4))})


@pytest.mark.parametrize("rounds", NUMBERS)
@pytest.mark.parametrize("text", [NET, BARE], ids=["parameters", "no parameters"])
def test_a_repeat_of_any_length_costs_what_one_round_costs(
    xg: Xg, folder: Path, text: str, rounds: str
) -> None:
    write(folder, text, rounds)
    for words in (
        ("check",),
        ("fmt", "--check"),
        ("show", "--as", "cost"),
        ("show", "--as", "html"),
        ("build", "--only", "svg,numpy,torch,jax,html"),
        ("build", "--kernels", "--only", "numpy,torch,jax", "-o", "fused"),
        ("verify",),
        ("explain", "--seed", 0),
        ("cost",),
        ("diff", "net.xg"),
    ):
        said = xg(words[0], "net.xg", *words[1:])
        assert (said.code, said.err) == (0, ""), words


@pytest.mark.parametrize("rounds", NUMBERS)
@pytest.mark.parametrize(
    ("text", "lister"),
    [(NET, ListedRounds), (BARE, Executions)],
    ids=["parameters", "no parameters"],
)
def test_a_run_of_too_many_rounds_is_refused(
    xg: Xg, folder: Path, text: str, rounds: str, lister: type[ListedRounds | Executions]
) -> None:
    """A command that visits each round says how many there are, and how many may be."""
    write(folder, text, rounds)
    commands: list[tuple[object, ...]] = [
        ("run", "--inputs", "in.npz", "-o", "out.npz"),
        ("train", "--data", "in.npz", "--steps", 1),
        ("export", "-o", "net.pt2"),
    ]
    if lister is ListedRounds:
        commands += [
            ("run", "--inputs", "in.npz", "--params", "weights.npz", "-o", "out.npz"),
            ("weights", "--from", "weights.npz", "-o", "out.npz"),
            ("generate", "--weights", "weights.npz"),
        ]
    found = f"{10**9:,}" if rounds == "10^9" else f"{2**63:,}"
    for command, *words in commands:
        said = xg(command, "net.xg", *words)
        assert said.code == 1, command
        assert found in said.err, (command, said.err)
        assert "at most " in said.err, command
        assert "--set N=4" in said.err, command
