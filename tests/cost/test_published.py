"""Published runs of large models in their published layouts: written, drawn, and priced.

One rate of each machine is taken from one run; it has to do for the others. The table of
docs/plans.md is checked against what is computed here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import xg
from xg.cost.hardware import Machine, machines
from xg.cost.mesh_price import Cluster, MeshPrice, price
from xg.driver import Program

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "plans.md"
TABLE = tomllib.loads((ROOT / "compiler/xg/cost/hardware.toml").read_text(encoding="utf-8"))
A100, H100 = 186e12, 613e12  # FLOP/s that the runs marked as measures kept up
NETWORK: Final = 25e9, 50e9  # bytes/s of a rank to other nodes: HDR and NDR InfiniBand, or RoCE


@dataclass(frozen=True)
class Run:
    """A model in a layout: sizes of all ranks' microbatch, microbatches, stages of a rank."""

    block: str
    plan: str
    mesh: Mapping[str, int]
    sizes: Mapping[str, int]
    parts: int
    turns: int
    seconds: float

    @property
    def is_llama(self) -> bool:
        return self.block == "Llama"


def gpt(layers: int, width: int, heads: int, batch: int) -> dict[str, int]:
    """GPT-3 and its kin: Brown et al. 2020, with the vocabulary of Megatron-LM."""
    return {"N_L": layers, "D": width, "N_H": heads, "V": 51200, "S": 2048, "S_max": 2048} | {
        "B": batch
    }


def flops_of_gpt(layers: int, width: int, batch: int) -> float:
    """Narayanan et al. 2021, formula 3: with every layer computed again."""
    tokens = batch * 2048
    return (
        96 * tokens * layers * width**2 * (1 + 2048 / (6 * width) + 51200 / (16 * layers * width))
    )


# 126 layers, and an embedding and a head that take the room of one each: 128 in equal stages.
LLAMA = {"N_L": 128, "D": 16384, "N_H": 128, "N_KV": 8, "D_h": 128, "D_ff": 53248, "V": 128256}
TOKENS = 2**24  # of a step
FLOPS_OF_LLAMA = TOKENS * (6 * 405e9 + 6 * 126 * 16384 * 8192)
SELECTIVE, FULL = "SP_VP × Scores", "TP × VP × Checkpoints"
RUNS: Mapping[str, Run] = {
    # Korthikanti et al. 2022 (arXiv 2205.05198), tables 3 and 5: with both techniques.
    "22B, 8 A100": Run("LM", SELECTIVE, {"N_T": 8}, gpt(48, 6144, 64, 4), 1, 1, 1.10),
    "GPT-3 175B, 64 A100": Run(
        "LM", SELECTIVE, {"N_T": 8, "N_PP": 8}, gpt(96, 12288, 96, 1), 64, 3, 13.75
    ),
    "530B, 280 A100": Run(
        "LM", SELECTIVE, {"N_T": 8, "N_PP": 35}, gpt(105, 20480, 128, 1), 280, 3, 37.83
    ),
    "1T, 512 A100": Run(
        "LM", SELECTIVE, {"N_T": 8, "N_PP": 64}, gpt(128, 25600, 160, 1), 512, 1, 71.49
    ),
    # Narayanan et al. 2021 (arXiv 2104.04473), table 2: 1,536 sequences a step.
    "GPT-3 175B, 384 A100": Run(
        "LM",
        f"{FULL} × DP",
        {"N_T": 8, "N_PP": 12, "N_D": 4},
        gpt(96, 12288, 96, 4),
        384,
        1,
        flops_of_gpt(96, 12288, 1536) / (384 * 153e12),
    ),
    "GPT-3 175B, 1,536 A100": Run(
        "LM",
        f"{FULL} × DP",
        {"N_T": 8, "N_PP": 12, "N_D": 16},
        gpt(96, 12288, 96, 16),
        96,
        1,
        flops_of_gpt(96, 12288, 1536) / (1536 * 141e12),
    ),
    # Dubey et al. 2024 (arXiv 2407.21783), table 4: 430 and 400 TFLOP/s.
    "Llama 3 405B, 8,192 H100": Run(
        "Llama",
        "SP_VP × DP",
        {"N_T": 1, "N_G": 8, "N_PP": 16, "N_D": 64},
        {**LLAMA, "S": 8192, "B": 64},
        32,
        8,
        FLOPS_OF_LLAMA / (8192 * 430e12),
    ),
    "Llama 3 405B, 16,384 H100": Run(
        "Llama",
        "SP_VP × DP",
        {"N_T": 1, "N_G": 8, "N_PP": 16, "N_D": 128},
        {**LLAMA, "S": 8192, "B": 128},
        16,
        8,
        FLOPS_OF_LLAMA / (16384 * 400e12),
    ),
}
MEASURES = {"GPT-3 175B, 64 A100", "Llama 3 405B, 8,192 H100"}


@cache
def compiled(name: str) -> Program:
    """The program, its stages in a plan that is written for it."""
    run = RUNS[name]
    text = f"use {run.block} from {'llama' if run.is_llama else 'transformer'}\n\ndim B = 1\n"
    plan = run.plan
    if "N_PP" in run.mesh:
        plan += " × Stages"
        text += f"mesh N_PP = 2\n\nplan Stages of {run.block} {{\n    layers [N_L/N_PP]\n"
        text += f"    schedule 1F1B({run.parts}, {run.turns})\n}}\n"
    return xg.compile(None, run.block, plan, run.sizes, run.mesh, source=text)


def priced(name: str) -> MeshPrice:
    run, table = RUNS[name], {machine.name: machine for machine in machines(TABLE)}
    near = table["h100" if run.is_llama else "a100"]
    rate, link = (H100, NETWORK[1]) if run.is_llama else (A100, NETWORK[0])
    far = table["h100-network"]
    inside = Machine("near", "", "", {"bfloat16": rate}, near.link, near.latency, {})
    between = Machine("far", "", "", {"bfloat16": rate}, link, far.latency, {})
    made = {"D_ff": 4 * run.sizes["D"], "D_h": run.sizes["D"] // run.sizes["N_H"]}
    numbers = {**made, "S_k": run.sizes["S"], **run.sizes, **run.mesh}
    stages = "N_PP" if "N_PP" in run.mesh else None
    reports = compiled(name).costs("bfloat16", brief=True)
    found = price(reports, run.mesh, stages, numbers, run.parts, Cluster(inside, between, 8))
    assert found
    return found


@pytest.mark.parametrize("name", RUNS)
def test_a_published_step_is_priced_within_a_quarter(name: str) -> None:
    seconds = priced(name).seconds
    assert seconds == pytest.approx(RUNS[name].seconds, rel=0.02 if name in MEASURES else 0.25)


@pytest.mark.parametrize("name", RUNS)
def test_the_page_says_what_is_computed(name: str) -> None:
    run = RUNS[name]
    (row,) = re.findall(rf"^\| {re.escape(name)} \|.*$", PAGE.read_text("utf-8"), re.MULTILINE)
    seconds = priced(name).seconds
    off = round(100 * (seconds / run.seconds - 1))
    assert row.endswith(f"| {run.seconds:.2f} s | {seconds:.2f} s | {off:+d} % |")


@pytest.mark.parametrize("name", ["GPT-3 175B, 64 A100", "Llama 3 405B, 16,384 H100"])
def test_a_published_layout_is_drawn(name: str) -> None:
    stages = compiled(name).stages
    assert len(stages) == RUNS[name].mesh["N_PP"] * RUNS[name].turns
    drawn = stages[0].render("overview", "svg").decode("utf-8")
    assert "AG" in drawn
    assert "RS" in drawn
