"""A convolution by kernels against `torch.nn.Conv2d`."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

import xg
from bench.experts import Array, Step, by_kernels, on_torch
from bench.pairs import Ratio, compare

FILE: Final = Path(__file__).with_suffix(".xg")
PLACES: Final = {128: (8, 28, 28), 64: (8, 56, 56), 16: (8, 32, 32)}  # by channels
GOALS: Final = (
    ("xg torch, kernels", 128, 1.05),
    ("xg torch, kernels", 64, 1.05),
    ("xg torch, kernels", 16, 1.05),
    ("xg NumPy, kernels", 128, 3.0),
    ("xg NumPy, kernels", 64, 3.0),
    ("xg NumPy, kernels", 16, 3.0),
)
BY_TORCH: Final = "torch.nn.Conv2d"


def measure(pairs: int) -> Iterator[Ratio]:
    """Outputs and gradients of one layer, in seconds of the CPU."""
    for name, channels, target in GOALS:
        steps = contestants({"C": channels, "D": channels}, PLACES[channels])
        what = f"convolution of {channels}: {name}"
        yield compare(what, steps[name], BY_TORCH, steps[BY_TORCH], pairs, target, cpu=True)


def contestants(sizes: Mapping[str, int], places: tuple[int, int, int]) -> dict[str, Step]:
    """All that compute the layer, by their names."""
    program = xg.compile(FILE, sizes=sizes)
    rng = np.random.default_rng(0)
    rows, slopes = (rng.standard_normal((*places, sizes[name])).astype(np.float32) for name in "CD")
    steps, start = by_kernels(program, rows, slopes)
    return {**steps, BY_TORCH: _by_torch(start, rows, slopes)}


def _by_torch(start: Mapping[str, Any], rows: Array, slopes: Array) -> Step:
    """With channels in front of places, as torch has them, in what it is given and gives."""
    import torch

    kernel = start["K"].permute(3, 2, 0, 1)
    layer = torch.nn.Conv2d(kernel.shape[1], kernel.shape[0], kernel.shape[-1], padding=1)
    layer.load_state_dict({"weight": kernel, "bias": start["b"]})
    rows, slopes = (np.ascontiguousarray(np.moveaxis(each, -1, 1)) for each in (rows, slopes))
    step = on_torch(layer, rows, slopes)
    return lambda: {name: made.permute(0, 2, 3, 1) for name, made in step().items()}
