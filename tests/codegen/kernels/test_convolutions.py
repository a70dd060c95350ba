"""Convolutions of NumPy without windows: against torch's, for strides, zeros, gaps and axes."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from xg.driver import compile_project
from xg.frontend.project import parse_project
from xg_kernels.numpy import convolution as kernels

Array = NDArray[Any]
CASES = [
    (axes, stride, padding, dilation, k)
    for axes, stride, padding, dilation, k in product((1, 2, 3), (1, 2, 3), (0, 2), (1, 2), (1, 3))
    if 6 + 2 * padding > dilation * (k - 1)
]


def by_torch(x: Array, K: Array, b: Array, dy: Array, *numbers: int) -> list[Array]:
    """Output and gradients with channels behind the places, as they come."""
    images = torch.tensor(np.moveaxis(x, -1, 1).copy(), requires_grad=True)
    kernel = torch.tensor(np.moveaxis(K, (-1, -2), (0, 1)).copy(), requires_grad=True)
    bias = torch.tensor(b, requires_grad=True)
    steps: list[Any] = [[number] * (K.ndim - 2) for number in numbers]
    convolve: Any = torch.convolution
    y = convolve(images, kernel, bias, *steps, False, [0] * (K.ndim - 2), 1)
    y.backward(torch.tensor(np.moveaxis(dy, -1, 1).copy()))
    found: list[Any] = [y, images.grad, kernel.grad, bias.grad]
    y, dx, dK, db = (each.detach().numpy() for each in found)
    return [np.moveaxis(y, 1, -1), np.moveaxis(dx, 1, -1), np.moveaxis(dK, (0, 1), (-1, -2)), db]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(("axes", "stride", "padding", "dilation", "k"), CASES)
def test_they_are_those_of_torch(
    monkeypatch: pytest.MonkeyPatch,
    axes: int,
    stride: int,
    padding: int,
    dilation: int,
    k: int,
    *,
    alone: bool,
) -> None:
    """Of images one by one, whose rows are in memory as they are, and of all at once."""

    def few_images(*_: object) -> list[slice]:
        return [slice(0, 1), slice(1, 3)] if alone else [slice(0, 3)]

    monkeypatch.setattr(kernels, "few_images", few_images)
    rng = np.random.default_rng(0)
    x, K = rng.standard_normal((3, *(6, 7, 8)[:axes], 4)), rng.standard_normal((*[k] * axes, 4, 5))
    numbers = stride, padding, dilation
    dy = rng.standard_normal((3, *kernels.window_counts(x, K, *numbers), 5))
    b = rng.standard_normal(5)
    made = [
        kernels.convolution(x, K, b, *numbers),
        *kernels.d_convolution_with_bias(dy, x, K, *numbers),
    ]
    for mine, its in zip(made, by_torch(x, K, b, dy, *numbers), strict=True):
        assert mine.shape == its.shape
        assert np.allclose(mine, its, rtol=1e-12, atol=1e-12)


def test_large_images_come_one_by_one() -> None:
    assert kernels.few_images(3, [64, 64], np.zeros((3, 3, 64, 64))) == [
        slice(0, 1), slice(1, 2), slice(2, 3)
    ]  # fmt: skip
    assert kernels.few_images(3, [4, 4], np.zeros((3, 3, 64, 64))) == [slice(0, 128)]


CONV = """dim B, H, W, C = 4
block Conv(X [B, H, W, C]) -> Y [B, H, W, C] {
    param K [3, 3, C/GROUPS, C]
    X -> conv[H, W](K, pad=1, groups=GROUPS) : Y
}
"""


@pytest.mark.parametrize(("groups", "by_hand"), [(1, True), (2, False)])
def test_a_convolution_of_groups_is_readable(groups: int, *, by_hand: bool) -> None:
    program = compile_project(parse_project(CONV.replace("GROUPS", str(groups)).encode()))
    assert ("as_strided" in program.source("numpy", kernels=True)) == by_hand
