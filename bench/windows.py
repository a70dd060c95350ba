"""Attention to a window of w positions by kernels, against torch's own with a mask."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

import xg
from bench.experts import Step, by_kernels, on_torch
from bench.pairs import Ratio, compare

FILE: Final = Path(__file__).with_suffix(".xg")
SIZES: Final[Mapping[str, int]] = {"D": 512, "N_H": 8, "w": 256}
GOALS: Final = (("SDPA, masked", 1.0), ("half the text", 2.2))


def measure(pairs: int) -> Iterator[Ratio]:
    """Outputs and gradients of a layer, in seconds of the CPU; of half the text, too."""
    steps, halves = contestants(SIZES, 4096), contestants(SIZES, 2048)
    for name in ("xg torch, kernels", "xg NumPy, kernels"):
        others = {"SDPA, masked": steps["by hand"], "half the text": halves[name]}
        for against, target in GOALS:
            what = f"window: {name}"
            yield compare(what, steps[name], against, others[against], pairs, target, cpu=True)


def contestants(sizes: Mapping[str, int], length: int) -> dict[str, Step]:
    """All that compute the layer, by their names."""
    program = xg.compile(FILE, sizes=sizes)
    rng = np.random.default_rng(0)
    shape = (1, length, sizes["D"])
    rows, slopes = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    steps, start = by_kernels(program, rows, slopes)
    return {**steps, "by hand": on_torch(_by_hand(start, sizes, length), rows, slopes)}


def _by_hand(start: Mapping[str, Any], sizes: Mapping[str, int], length: int) -> Any:  # noqa: ANN401 - a module
    """As `transformers` computes it with `attn_implementation="sdpa"`."""
    import torch

    places = torch.arange(length)
    distance = places[:, None] - places
    seen = (distance >= 0) & (distance < sizes["w"])

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, tensor in start.items():
                self.register_parameter(name, torch.nn.Parameter(tensor.clone()))

        def forward(self, x: Any) -> Any:  # noqa: ANN401 - a tensor
            own: Any = self
            heads = (*x.shape[:2], sizes["N_H"], -1)
            q, k, v = ((x @ w).view(heads).transpose(1, 2) for w in (own.W_Q, own.W_K, own.W_V))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            return y.transpose(1, 2).reshape(x.shape) @ own.W_O

    return Model()
