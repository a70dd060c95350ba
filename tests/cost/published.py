"""Published runs of large models in their published layouts, compiled and priced.

One rate of each machine is taken from one run; it has to do for the others.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import xg
from xg.cost.report import Machine, machines
from xg.cost.stage_cost import Cluster, MeshPrice, price, stages_of
from xg.driver import Program

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "compiler/xg/cost/hardware.toml").read_text(encoding="utf-8"))
A100, H100 = 186e12, 613e12  # FLOP/s that the runs marked as measures kept up
NETWORK: Final = 25e9, 50e9  # bytes/s of a rank to other nodes: HDR and NDR InfiniBand, or RoCE
NODE = 8


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


FILES: Final = {"LM": "transformer", "Llama": "llama", "Mixtral": "routed"}


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
MIXTRAL = {"N_L": 32, "D": 4096, "N_H": 32, "N_KV": 8, "D_h": 128, "D_ff": 14336, "V": 32000}


def flops_of_mixtral(sequences: int, length: int) -> float:
    """Megatron-LM's count of its own: products of two experts a token, scores of all pairs."""
    layer = 2 * 4096**2 + 2 * 4096 * 1024 + 4096 * 8 + 2 * 3 * 4096 * 14336
    return 6 * sequences * length * (32 * (layer + 2 * length * 4096) + 4096 * 32000)


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
    # llm-foundry, scripts/train/benchmarking/README.md: 504 sequences, 16,022 tokens/s.
    "MPT 30B, 8 H100": Run(
        "LM",
        "FSDP × Checkpoints",
        {"N_D": 8},
        {**gpt(48, 7168, 56, 24), "V": 50368},
        21,
        1,
        504 * 2048 / 16022,
    ),
    # Megatron-LM, megatron/core/transformer/moe/README.md: 256 sequences, 468 TFLOP/s.
    "Mixtral 8x7B, 64 H100": Run(
        "Mixtral",
        "DP × EP",
        {"N_X": 8, "N_D": 2, "N_PP": 4},
        {**MIXTRAL, "S": 4096, "B": 16},
        16,
        8,
        flops_of_mixtral(256, 4096) / (64 * 468e12),
    ),
}
MEASURES = {"GPT-3 175B, 64 A100", "Llama 3 405B, 8,192 H100"}


def text_of(run: Run) -> str:
    """The file of a run: its block with its plans, and its stages in a plan that is written."""
    file = FILES[run.block]
    if file == "routed":
        text = (Path(__file__).parent / "routed.xg").read_text(encoding="utf-8")
    else:
        text = f"use {run.block} from {file}\n\ndim B = 1\n"
    if "N_PP" in run.mesh:
        text += f"mesh N_PP = 2\n\nplan Stages of {run.block} {{\n    layers [N_L/N_PP]\n"
        text += f"    schedule 1F1B({run.parts}, {run.turns})\n}}\n"
    return text


@cache
def compiled(name: str) -> Program:
    """The program in the published layout."""
    run = RUNS[name]
    plan = run.plan + (" × Stages" if "N_PP" in run.mesh else "")
    return xg.compile(None, run.block, plan, run.sizes, run.mesh, source=text_of(run))


def cluster_of(name: str) -> Cluster:
    """The nodes on which it ran, at the rate that the run marked as a measure kept up."""
    table, hopper = {machine.name: machine for machine in machines(TABLE)}, "H100" in name
    near, far = table["h100" if hopper else "a100"], table["h100-network"]
    rate, link = (H100, NETWORK[1]) if hopper else (A100, NETWORK[0])
    inside = Machine("near", "", "", {"bfloat16": rate}, near.link, near.latency, {})
    between = Machine("far", "", "", {"bfloat16": rate}, link, far.latency, {})
    return Cluster(inside, between, NODE)


@cache
def priced(name: str) -> MeshPrice:
    """The step of the published layout."""
    run = RUNS[name]
    made = {"D_ff": 4 * run.sizes["D"], "D_h": run.sizes["D"] // run.sizes["N_H"]}
    numbers = {**made, "N_E": 8, "k": 2, "S_k": run.sizes["S"], **run.sizes, **run.mesh}
    stages = "N_PP" if "N_PP" in run.mesh else None
    costs = stages_of(compiled(name).costs("bfloat16"))
    found = price(costs, run.mesh, stages, numbers, run.parts, cluster_of(name))
    assert found
    return found
