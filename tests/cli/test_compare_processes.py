"""`xg compare --module --plan`: code of several ranks, run in a process each."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import DIAGRAMS, Said, Xg

pytestmark = pytest.mark.usefixtures("warm_ranks")
FILE = str(DIAGRAMS / "models" / "transformer.xg")
MINI = DIAGRAMS.parent / "examples" / "minigpt"
NAMES = str(MINI / "minigpt.names.toml")
WRONG = f"""\
import sys
sys.path.insert(0, {str(MINI)!r})
import torch
import torch.distributed as dist
from minigpt import build
from wrapped import divided

def late():
    model = divided()
    if dist.get_rank() == 1:
        model.layers[1].norm_2.register_forward_hook(lambda _, __, y: 1.1 * y)
    return model

def apart():
    torch.manual_seed(dist.get_rank())
    return build()

def broken():
    model = build()
    if dist.get_rank() == 1:
        raise ValueError("no such luck")
    return model
"""


def compared(xg: Xg, module: str, plan: str, *more: str) -> Said:
    Path("wrong.py").write_text(WRONG, encoding="utf-8")
    words = ("--module", module, "--plan", plan, "--map", NAMES)
    return xg("compare", FILE, *words, *more)


def test_the_rank_that_differs_is_named(xg: Xg) -> None:
    """Every parameter that tensor parallelism cuts is a DTensor; one rank scales what it gives."""
    said = compared(xg, "wrong.py:late", "TP")
    assert said.code == 1, said.err
    assert "difference: LN of line 46 in layers.1, relative error 9.1e-02 on rank 1\n" in said.out
    assert "compared with the output of layers.1.norm_2" in said.out


def test_copies_that_start_apart_are_not_drawn_over(xg: Xg) -> None:
    said = compared(xg, "wrong.py:apart", "DP")
    assert said.code == 1, said.err
    assert "first forward difference: words.weight" in said.out
    assert " on rank 1\n" in said.out
    assert "its copies differ from rank to rank" in said.out


def test_what_one_rank_raises_is_told_with_its_line(xg: Xg) -> None:
    said = compared(xg, "wrong.py:broken", "DP")
    assert said.code != 0
    assert "rank 1: wrong.py:broken cannot be built: ValueError: no such luck" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("plan", "more", "message"),
    [
        ("PP", (), "stages"),
        ("DP", ("--set", "N_D=1000"), "1,000 ranks, each a process"),
        ("Nonsense", (), "Nonsense"),
    ],
)
def test_plans_that_no_ranks_can_follow(
    xg: Xg, plan: str, more: tuple[str, ...], message: str
) -> None:
    said = compared(xg, "wrong.py:apart", plan, *more)
    assert said.code != 0
    assert message in said.err


SHARED = """\
dim B, S, D = 8
mesh N_D = 2
block Layer(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D], b [D] = zeros
    X -> •<=W -> ⊕<-BC(b) -> tanh -> ⊕<-X : Y
}
block Net(X, t [B, S, D]) -> loss [] {
    X -> Layer as l -> l -> l -> MSE<-t : loss
}
plan DP of Net {
    X, t [B/N_D, S, D]
}
"""
THRICE = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

class Scaled(nn.Linear):
    calls = 0
    def forward(self, x):
        self.calls += 1
        late = self.calls == 2 and dist.get_rank() == 1
        return 1.1 * super().forward(x) if late else super().forward(x)

class Net(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.l = kind(8, 8)
    def forward(self, X, t):
        for _ in range(3):
            X = X + torch.tanh(self.l(X))
        return (X - t).square().mean()

def right():
    return DistributedDataParallel(Net(nn.Linear))

def late():
    return DistributedDataParallel(Net(Scaled))
"""


def test_later_calls_of_a_module_are_compared(xg: Xg, folder: Path) -> None:
    """The second call of three is wrong, on one rank."""
    (folder / "shared.xg").write_text(SHARED, encoding="utf-8")
    (folder / "thrice.py").write_text(THRICE, encoding="utf-8")
    (folder / "names.toml").write_text('[tensors]\n"l.weight" = "T : l.W"\n"l.bias" = "l.b"\n')
    words = ("compare", "shared.xg", "--plan", "DP", "--map", "names.toml", "--module")
    said = xg(*words, "thrice.py:right")
    assert (
        "agree: 7 forward tensors, 6 backward tensors and the gradients of 2 parameters" in said.out
    )
    said = xg(*words, "thrice.py:late")
    assert said.code == 1, said.err
    assert "first forward difference: ⊕ of line 5 in l, relative error" in said.out
    assert " on rank 1\n  compared with the output of l" in said.out
