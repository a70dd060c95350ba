"""Shipped plans: what the ranks compute together is what one device computes alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from library import shipped
from sharding.modules import generated
from sharding.ranks import Arrays, interpreted
from tier import THOROUGH

import xg
from xg.verify.reference.interpret import initial

DIAGRAMS = Path(__file__).parents[2] / "diagrams"
SIZES: Mapping[str, Mapping[str, int]] = {
    "transformer": {
        "B": 6, "S": 12, "V": 24, "D": 24, "N_L": 2, "N_H": 6, "S_max": 18, "D_ff": 36,
    },
    "llama": {"B": 6, "S": 12, "V": 24, "D": 24, "N_L": 2, "N_H": 12, "D_ff": 72, "N_KV": 6},
}  # fmt: skip
MESHES: Mapping[str, Mapping[str, int]] = {
    "transformer": {"N_D": 2, "N_T": 3},
    "llama": {"N_D": 2, "N_G": 2, "N_T": 3},
}
PLANS = [
    *(("transformer", plan) for plan in ("FSDP_TP", "All", "Stream")),
    ("llama", "SP"),
    *([("transformer", "DP_TP"), ("transformer", "DP_SP")] if THOROUGH else []),
    *([("llama", "TP")] if THOROUGH else []),
]
EXACT = 1e-12


@cache
def alone(name: str) -> tuple[xg.Program, Arrays, Arrays]:
    """A program for one device, parameters and inputs."""
    one = xg.compile(shipped(name), sizes=SIZES[name])
    random = np.random.default_rng(0)
    inputs = {
        key: random.integers(0, int(str(spec.range)), [int(n) for n in spec.shape])
        for key, spec in one.inputs.items()
    }
    return one, initial(one.graphs, 1), inputs


def together(name: str, plan: str) -> xg.Program:
    path = shipped(name)
    return xg.compile(path, sizes=SIZES[name], mesh=MESHES[name], plan=plan)


@pytest.mark.parametrize(("name", "plan"), PLANS)
def test_ranks_agree_with_one_device(name: str, plan: str) -> None:
    one, params, inputs = alone(name)
    many = together(name, plan)
    for found in (
        generated(one, many, params, inputs),
        generated(one, many, params, inputs, module=many.load(kernels=True)),
        interpreted(one, many, params, inputs),
    ):
        assert max(found.values()) < EXACT
    assert len(found) > len(params)


@pytest.mark.parametrize(
    ("plan", "options"),
    [
        ("TP", {"bias": "QKV", "window": "near"}),
        ("SP", {"bias": "QKVO", "norm": "QK", "turns": "slowed"}),
        *([("FSDP_TP", {"bias": "QKVO", "norm": "QK", "window": "near"})] if THOROUGH else []),
    ],
)
def test_ranks_of_relatives_of_llama_agree(plan: str, options: Mapping[str, str]) -> None:
    sizes = {**SIZES["llama"], "S_w": 4}
    one = xg.compile(shipped("llama"), sizes=sizes, options=options)
    many = xg.compile(
        shipped("llama"), sizes=sizes, mesh=MESHES["llama"], plan=plan, options=options
    )
    _, _, inputs = alone("llama")
    found = generated(one, many, initial(one.graphs, 1), inputs)
    assert max(found.values()) < EXACT


def test_one_rank_along_every_axis_is_one_device() -> None:
    one, params, inputs = alone("transformer")
    many = xg.compile(
        shipped("transformer"), sizes=SIZES["transformer"], mesh={"N_D": 1, "N_T": 1}, plan="DP_TP",
    )  # fmt: skip
    assert max(generated(one, many, params, inputs).values()) < EXACT


REPEATED = """\
dim B, S, D = 4
mesh N_D = 2

block Net(X [B, S, D]) -> Y [B, S, D] {
    param b [D], W [D, D]
    X -> ⊕<-BC(sinusoid(S, D)) -> ⊕<-BC(b) -> •<=W : Y
}

plan DP of Net {
    X [B/N_D, ..]
}
"""


def test_what_is_repeated_along_a_cut_axis(tmp_path: Path) -> None:
    """An addition repeats its operand by itself, but not where a rank takes its part of it."""
    path = tmp_path / "net.xg"
    path.write_text(REPEATED, encoding="utf-8")
    one, many = xg.compile(path), xg.compile(path, plan="DP")
    inputs = {"X": np.random.default_rng(0).standard_normal((4, 3, 4))}
    found = generated(one, many, initial(one.graphs, 1), inputs)
    assert max(found.values()) < EXACT
