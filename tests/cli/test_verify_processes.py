"""`xg verify --on processes`: torch code on gloo processes against one device; that it can fail.

To start processes takes seconds, so three tests do. The others have the same done by simulated
ranks, which differ in nothing but where they are.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli.conftest import DIAGRAMS, Xg

from xg.cli.computing import Ranks
from xg.driver import Program
from xg.ir.graph import IRProgram
from xg.verify.reference import random as invented
from xg_runtime.errors import RankError
from xg_runtime.module import Array, Arrays
from xg_runtime.ranks.task import Answer, Json

SUM = 'all_reduce(U @ W_down, "N_T") + b'
TORCH = "import torch\n"
NET = """\
dim B, S, D = 6, D_ff = 2*D
mesh N_T = 2

block Net(X [B, S, D]; p = 0.3) -> Y [B, S, D] {
    param W_up [D, D_ff], W_down [D_ff, D], b [D]

    X -> •<=W_up -> GELU -> DO(p) : U
      -> •<=W_down -> ⊕<-BC(b)    : Y
}

plan TP of Net { W_up [D, D_ff/N_T]
                 W_down [D_ff/N_T, D] }
plan Rows of Net { X [B/N_T, S, D] }
"""


def plant(monkeypatch: pytest.MonkeyPatch, right: str, wrong: str) -> None:
    """Change the code of ranks where it has `right`."""
    real = Program.source

    def planted(self: Program, backend: str = "numpy", *, kernels: bool = False) -> str:
        source = real(self, backend, kernels=kernels)
        if self.single_device is None or right not in source:
            return source
        return source.replace(right, wrong).replace(
            TORCH, TORCH + "from xg_runtime.ranks import rank\n"
        )

    monkeypatch.setattr(Program, "source", planted)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    (tmp_path / "net.xg").write_text(NET, encoding="utf-8")
    return tmp_path / "net.xg"


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """The options of every launch of processes; simulated ranks do the work in their place."""
    asked, real = list[Json](), Ranks.do

    def do(self: Ranks, function: str, options: Json, arrays: Arrays) -> list[Answer]:
        assert (self.on, self.checked) == ("processes", True)
        asked.append(options)
        return real(replace(self, on="simulated"), function, options, arrays)

    monkeypatch.setattr(Ranks, "do", do)
    return asked


@pytest.mark.usefixtures("warm_ranks")
def test_two_processes_and_a_planted_mistake(
    xg: Xg, monkeypatch: pytest.MonkeyPatch, net: Path
) -> None:
    """One of two plans has a rank that adds a bias to its term of a sum."""
    plant(monkeypatch, SUM, 'all_reduce(U @ W_down + b, "N_T")')
    said = xg("verify", net, "--on", "processes", "--json")
    assert said.code == 1
    wrong, right = json.loads(said.out)["ranks"]
    assert (wrong["plan"], wrong["on"], wrong["passed"]) == ("TP", "processes", False)
    assert wrong["single"]["code"]["torch"]["first_difference"] == "Y, most on rank 0"
    assert all(row["calls"] == row["expected"]["calls"] for row in wrong["single"]["sent"])
    assert (right["plan"], right["passed"]) == ("Rows", True)
    assert right["single"]["code"]["torch"]["error"] < 1e-14
    assert [row["pass"] for row in right["single"]["sent"]] == ["backward"]


@pytest.mark.usefixtures("warm_ranks")
def test_keys_go_round_four_processes_in_zigzag(xg: Xg) -> None:
    """Each has two chunks of the sequence, and so of positions, targets and masks."""
    model = DIAGRAMS / "models" / "transformer.xg"
    words = ("--block", "LM", "--plan", "Zigzag", "--set", "N_S=4", "--on", "processes", "--json")
    said = xg("verify", model, *words)
    (proof,) = json.loads(said.out)["ranks"]
    assert (said.code, proof["on"], proof["passed"]) == (0, "processes", True)
    assert proof["single"]["code"]["torch"]["error"] < 1e-13
    assert {row["calls"] for row in proof["single"]["sent"] if row["collective"] == "shift"} == {
        6,
        12,
    }


NARROW = """\
dim B, S, N = 200, D = 3
mesh N_T = 2

op Square(k [..] in N, x [..]) = x + float(k*k) / 400
op Gate(m [..] in 2, x [..]) = x * (1 - 2*m)

block Net(k, l [B, S] in N, m [B, S] in 2, X [B, S]) -> Y [B, S, D] {
    param E [N, D]
    l -> T -> T  : j [B, S] in N
    m -> T -> T  : o [B, S] in 2
    Square(k, X) : a [B, S]
    Square(j, a) : b [B, S]
    Gate(o, b)   : c [B, S]
    j -> Emb(E) -> ⊙<-BC(c) -> tanh : Y
}

plan Whole of Net {
    k, l, m    [B, S/N_T]
    j, o, X, c [B, S]
}
"""


@pytest.mark.usefixtures("warm_ranks")
def test_processes_send_narrow_integers(
    xg: Xg, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A product of two uint8 needs more bits than they have, also after a gather."""
    real = invented.inputs

    def narrow(program: IRProgram, seed: int) -> dict[str, Array]:
        types = {"k": "uint8", "l": "uint8", "m": "bool"}
        return {n: x.astype(types.get(n, x.dtype)) for n, x in real(program, seed).items()}

    monkeypatch.setattr(invented, "inputs", narrow)
    (tmp_path / "net.xg").write_text(NARROW, encoding="utf-8")
    words = ("--set", "N=200", "--on", "processes", "--json")
    said = xg("verify", tmp_path / "net.xg", *words)
    (proof,) = json.loads(said.out)["ranks"]
    assert (said.code, proof["on"], proof["passed"]) == (0, "processes", True)
    sent = {(row["pass"], row["collective"]): row["calls"] for row in proof["single"]["sent"]}
    assert sent["forward", "all_gather"] >= 2  # of j and o


def test_programs_of_one_mesh_share_their_processes(
    xg: Xg, simulated: list[Json], net: Path
) -> None:
    said = xg("verify", net, DIAGRAMS / "notation" / "mlp.xg", "--on", "processes")
    assert said.code == 0, said.out + said.err
    assert [len(options["trials"]) for options in simulated] == [2, 1, 1, 1]
    assert "on 2 ranks that are processes, N_T = 2, dropout on" in said.out
    assert "torch code of ranks and of one device agree: 1 output and 4 gradients" in said.out
    assert "edges" not in said.out
    assert said.out.endswith("5 parallel programs: all proven\n")


def test_kernels_may_bundle_sums(xg: Xg, simulated: list[Json]) -> None:
    model = DIAGRAMS / "notation" / "mlp.xg"
    said = xg("verify", model, "--plan", "DP", "--on", "processes", "--kernels")
    assert said.code == 0, said.out + said.err
    assert "yes, bundling 6 calls" in said.out


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("(U @ W_down) + b", "DIFFER: first in Y, most on rank"),
        ('all_reduce(U @ W_down, "N_T") + (rank("N_T") == 1) * b', "first in Y, most on rank 0"),
        (f'{SUM} * (1 + 1e-15 * rank("N_T"))', "first in Y, in bits, on rank 1"),
        (f'{SUM} + all_reduce(0 * b, "N_T")', "NO: 1 calls of"),
        (f"{SUM}[1:]", "internal error: RuntimeError"),
    ],
    ids=["not summed", "one rank", "bits", "sent for nothing", "an error"],
)
def test_a_planted_mistake_is_told_with_its_rank(
    xg: Xg,
    monkeypatch: pytest.MonkeyPatch,
    simulated: list[Json],
    net: Path,
    wrong: str,
    message: str,
) -> None:
    plant(monkeypatch, SUM, wrong)
    said = xg("verify", net, "--on", "processes", "--set", "N_T=3")
    assert said.code == 1
    assert message in said.out, said.out
    assert said.out.endswith("2 parallel programs: 1 FAILED\n")
    assert simulated


def test_a_rank_that_is_lost_ends_the_command(
    xg: Xg, monkeypatch: pytest.MonkeyPatch, net: Path
) -> None:
    def lost(*_: object) -> list[Answer]:
        raise RankError(1, "rank 1 was killed by SIGKILL before its first collective")

    monkeypatch.setattr(Ranks, "do", lost)
    said = xg("verify", net, "--on", "processes")
    assert said.code == 4
    assert "rank 1 was killed by SIGKILL" in said.err


def test_what_processes_do_not_do_is_refused(xg: Xg, net: Path) -> None:
    said = xg("verify", net, "--against", "single,exact", "--on", "processes")
    assert said.code == 1
    assert "write --against single here, and check exact in a run without --on" in said.err
    said = xg("verify", net, "--set", "N_T=65", "--on", "processes")
    assert said.code == 1
    assert "this mesh has 65 ranks, each a process on this machine" in said.err
