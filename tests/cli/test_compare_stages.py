"""`xg compare --module --plan` of a pipeline: each rank builds and runs its own stage."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import DIAGRAMS, Said, Xg

pytestmark = pytest.mark.usefixtures("warm_ranks")
FILE = str(DIAGRAMS / "models" / "transformer.xg")
MINI = DIAGRAMS.parent / "examples" / "minigpt"
STAGES = f"""\
import sys
sys.path.insert(0, {str(MINI)!r})
import torch
import torch.distributed as dist
from minigpt import Attention, Config, Layer, Unscaled
from torch import nn
from torch.nn import functional

class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = config = Config()
        self.words = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        self.layers = nn.ModuleDict({{"0": Layer(config, Attention)}})

    def forward(self, ids):
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.layers["0"](x)

class Last(nn.Module):
    def __init__(self, attention=Attention):
        super().__init__()
        config = Config()
        self.layers = nn.ModuleDict({{"1": Layer(config, attention)}})
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocab, bias=False)

    def forward(self, x, t):
        z = self.head(self.norm(self.layers["1"](x)))
        return z, functional.cross_entropy(z.flatten(0, 1), t.flatten())

class Cut(Last):
    def forward(self, x, t):
        return super().forward(x.detach() + 0 * x, t)

class Broken(Last):
    def forward(self, x, t):
        raise ValueError("no such luck")

def right():
    return First() if dist.get_rank() == 0 else Last()

def unscaled():
    return First() if dist.get_rank() == 0 else Last(Unscaled)

def cut():
    return First() if dist.get_rank() == 0 else Cut()

def broken():
    return First() if dist.get_rank() == 0 else Broken()
"""


def compared(xg: Xg, name: str, plan: str = "PP", *more: object) -> Said:
    Path("stages.py").write_text(STAGES, encoding="utf-8")
    words = ("--module", f"stages.py:{name}", "--map", str(MINI / "minigpt.names.toml"))
    return xg("compare", FILE, *words, "--plan", plan, *more)


def test_stages_that_agree(xg: Xg) -> None:
    """The table is on the first stage, and on the last as its head: gradients are summed."""
    said = compared(xg, "right")
    assert said.code == 0, said.out + said.err
    assert (
        "agree: 42 forward tensors, 36 backward tensors and the gradients of 36 parameters"
        in said.out
    )


def test_an_error_in_the_second_stage_is_named(xg: Xg) -> None:
    said = compared(xg, "unscaled")
    assert said.code == 1
    assert "first forward difference: O of line 22 in layers.1.attn" in said.out
    assert "the scores are not scaled by 1/sqrt(D_h)" in said.out


def test_a_gradient_that_does_not_reach_the_first_stage_is_named(xg: Xg) -> None:
    said = compared(xg, "cut")
    assert said.code == 1
    assert "first backward difference: dY of line 30 in layers.0.ffn" in said.out
    assert "likely cause: theirs is zero" in said.out


def test_a_stage_that_fails_ends_all(xg: Xg) -> None:
    said = compared(xg, "broken", "PP", "--timeout", 20)
    assert said.code == 1
    assert "rank 1: the module fails on the diagram's inputs: ValueError: no such luck" in said.err
    assert "Traceback" not in said.err


def test_what_is_refused_of_pipelines(xg: Xg) -> None:
    said = compared(xg, "right", "DP × PP")
    assert said.code == 1
    assert "also divides each stage, along N_D: compare the stages under the plan of" in said.err
