"""The operators against torch: the same values and the same gradients, to the last digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from ops.sample import N_H, SIZES, B, D, D_h, S, S_k, Sample, V, axes, floats, ints
from ops.samples import YARN
from ops.trial import Trial

from xg import ops
from xg.ir.dim import ONE, number

if TYPE_CHECKING:
    from torch import Tensor

    Tensors = dict[str, Tensor]
    Model = Callable[[Tensors], Tensor]

TOLERANCE = 1e-12
TWO, TRIPLE = number(2), number(3)


def layer_norm(given: Tensors) -> Tensor:
    from torch.nn.functional import layer_norm

    x = given["x"]
    return layer_norm(x, x.shape[-1:], given.get("gamma"), given.get("beta"), 1e-5)


def softmax(given: Tensors) -> Tensor:
    from torch import softmax

    return softmax(given["z"], -1)


def gelu(approximate: str) -> Model:
    def model(given: Tensors) -> Tensor:
        from torch.nn.functional import gelu

        return gelu(given["x"], approximate=approximate)

    return model


def named(name: str) -> Model:
    def model(given: Tensors) -> Tensor:
        from torch.nn import functional

        return getattr(functional, name)(given["x"])

    return model


def gated(name: str) -> Model:
    def model(given: Tensors) -> Tensor:
        from torch.nn import functional

        return getattr(functional, name)(given["g"]) * given["u"]

    return model


def cross_entropy(**options: str | int) -> Model:
    settings: dict[str, Any] = dict(options)

    def model(given: Tensors) -> Tensor:
        from torch.nn.functional import cross_entropy

        rows = given["z"].reshape(-1, given["z"].shape[-1])
        targets = given["t"].reshape(-1)
        if "w" in given:
            targets = targets.where(given["w"].reshape(-1) > 0, -100)
        return cross_entropy(rows, targets, **settings)

    return model


def binary(name: str, reduction: str) -> Model:
    def model(given: Tensors) -> Tensor:
        from torch.nn import functional

        return getattr(functional, name)(given["y"], given["t"], reduction=reduction)

    return model


def mean_squared_error(given: Tensors) -> Tensor:
    from torch.nn.functional import mse_loss

    return mse_loss(given["y"], given["t"])


def embedding(given: Tensors) -> Tensor:
    from torch.nn.functional import embedding

    return embedding(given["ids"], given["E"])


def rope(given: Tensors) -> Tensor:
    """Written as in the published Llama code: x cos + rotate_half(x) sin."""
    import torch

    x = given["x"]
    length, width = x.shape[-2:]
    pairs = torch.arange(0, width, 2, dtype=x.dtype)
    inverse = 1.0 / 10000.0 ** (pairs / width)
    angle = torch.outer(torch.arange(length, dtype=x.dtype), inverse)
    angle = torch.cat((angle, angle), dim=-1)
    turned = torch.cat((-x[..., width // 2 :], x[..., : width // 2]), dim=-1)
    return x * angle.cos() + turned * angle.sin()


def rope_by_pairs(given: Tensors) -> Tensor:
    """As in the paper of YaRN: a ramp over whole pairs, columns 2i and 2i + 1 being one."""
    import math

    import torch

    x = given["x"]
    length, width = x.shape[-2:]

    def pair(turns: float) -> float:
        return width * math.log(64.0 / (turns * 2 * math.pi)) / (2 * math.log(100.0))

    first, last = max(math.floor(pair(8.0)), 0), min(math.ceil(pair(1.0)), width - 1)
    ramp = ((torch.arange(width // 2, dtype=x.dtype) - first) / (last - first)).clamp(0, 1)
    plain = 100.0 ** -(torch.arange(0, width, 2, dtype=x.dtype) / width)
    angle = torch.outer(torch.arange(length, dtype=x.dtype), plain * (1 - ramp + ramp / 8.0))
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    turned = pairs * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(turned).flatten(-2)


def rope_slowed(given: Tensors) -> Tensor:
    """Written as in transformers for Llama 3.1: `_compute_llama3_parameters`."""
    import math

    import torch

    x = given["x"]
    length, width = x.shape[-2:]
    inverse = 1.0 / 100.0 ** (torch.arange(0, width, 2, dtype=x.dtype) / width)
    wavelength = 2 * math.pi / inverse
    slow = torch.where(wavelength > 16.0 / 1.0, inverse / 8.0, inverse)
    smooth = (16.0 / wavelength - 1.0) / (4.0 - 1.0)
    smoothed = (1 - smooth) * slow / 8.0 + smooth * slow
    medium = ~(wavelength < 16.0 / 4.0) * ~(wavelength > 16.0 / 1.0)
    inverse = torch.where(medium, smoothed, slow)
    angle = torch.outer(torch.arange(length, dtype=x.dtype), inverse)
    angle = torch.cat((angle, angle), dim=-1)
    turned = torch.cat((-x[..., width // 2 :], x[..., : width // 2]), dim=-1)
    return x * angle.cos() + turned * angle.sin()


def rope_complex(given: Tensors) -> Tensor:
    """Written as in the paper: neighboring columns are one complex number."""
    import torch

    x = given["x"]
    length, width = x.shape[-2:]
    inverse = 10000.0 ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
    angle = torch.outer(torch.arange(length, dtype=x.dtype), inverse)
    turn = torch.polar(torch.ones_like(angle), angle)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], width // 2, 2).contiguous())
    return torch.view_as_real(pairs * turn).reshape(x.shape)


def convolution(**settings: int) -> Model:
    """Channels are torch's second axis, and the first two of its kernels."""

    def model(given: Tensors) -> Tensor:
        from torch.nn import functional

        K = given["K"].movedim((-1, -2), (0, 1))
        conv = functional.conv1d if K.ndim == 3 else functional.conv2d
        return conv(given["x"].movedim(-1, 1), K, given.get("b"), **settings).movedim(1, -1)

    return model


def causal(given: Tensors) -> Tensor:
    from torch.nn import functional

    x = functional.pad(given["x"].mT, (6, 0))
    return functional.conv1d(x, given["K"].movedim((-1, -2), (0, 1)), dilation=3).mT


def pooled(name: str, **settings: int) -> Model:
    def model(given: Tensors) -> Tensor:
        from torch.nn import functional

        return getattr(functional, name)(given["x"].movedim(-1, 1), **settings).movedim(1, -1)

    return model


def taken(given: Tensors) -> Tensor:
    import torch

    return torch.take_along_dim(given["x"], given["ids"][..., None], dim=1)


def added(given: Tensors) -> Tensor:
    return given["x"].new_zeros(2, 3, 7).scatter_add(-1, given["ids"], given["x"])


X, ROWS = {"x": floats(B, S, D)}, {"z": floats(B, S, V), "t": ints(B, S, below=V)}
GATE = {"g": floats(B, S, D), "u": floats(B, S, D)}
WEIGHTS = {**ROWS, "w": ints(B, S, below=number(2))}
CLASSES, HEADS = {"y": floats(S, D), "t": floats(S, D)}, {"x": floats(B, N_H, S, D_h)}
AFFINE = {"gamma": floats(D), "beta": floats(D)}
UNIT = ("y", "t")

CASES: dict[str, tuple[str, Sample, Model]] = {
    "LN": ("LN", Sample({**X, **AFFINE}), layer_norm),
    "LN plain": ("LN", Sample(X), layer_norm),
    "S": ("S", Sample({"z": floats(B, N_H, S, S_k)}), softmax),
    "GELU": ("GELU", Sample(X), gelu("tanh")),
    "GELU exact": ("GELU", Sample(X, {"form": "exact"}), gelu("none")),
    "SiLU": ("SiLU", Sample(X), named("silu")),
    "ReLU": ("ReLU", Sample(X), named("relu")),
    "sigmoid": ("sigmoid", Sample(X), named("sigmoid")),
    "tanh": ("tanh", Sample(X), named("tanh")),
    "GLU": ("GLU", Sample(GATE), gated("sigmoid")),
    "SwiGLU": ("SwiGLU", Sample(GATE), gated("silu")),
    "CE": ("CE", Sample(ROWS), cross_entropy()),
    "CE sum": ("CE", Sample(ROWS, {"reduction": "sum"}), cross_entropy(reduction="sum")),
    "CE weights": ("CE", Sample(WEIGHTS), cross_entropy()),
    "CE ignore": ("CE", Sample(ROWS, {"ignore": 3}), cross_entropy(ignore_index=3)),
    "BCE": ("BCE", Sample(CLASSES, unit=UNIT), binary("binary_cross_entropy", "mean")),
    "BCE logits": (
        "BCE",
        Sample(CLASSES, {"form": "logits", "reduction": "sum"}, unit=("t",)),
        binary("binary_cross_entropy_with_logits", "sum"),
    ),
    "MSE": ("MSE", Sample(CLASSES), mean_squared_error),
    "Emb": ("Emb", Sample({"ids": ints(B, S, below=V), "E": floats(V, D)}), embedding),
    "conv": (
        "conv",
        Sample(
            {"x": floats(B, S_k, D), "K": floats(TRIPLE, D, V), "b": floats(V)},
            {"pad": ONE, "dilation": TWO}, axes("S_k"),
        ),
        convolution(padding=1, dilation=2),
    ),
    "conv of groups": (
        "conv",
        Sample(
            {"x": floats(B, D, S_k, N_H * 3), "K": floats(TRIPLE, TWO, N_H, TRIPLE * 2)},
            {"pad": ONE, "stride": TWO, "groups": TRIPLE}, axes("D, S_k"),
            ((B, number(4), TRIPLE, TRIPLE * 2),),
        ),
        convolution(padding=1, stride=2, groups=3),
    ),
    "conv causal": (
        "conv",
        Sample(
            {"x": floats(B, S_k, D), "K": floats(TRIPLE, D, V)},
            {"side": "causal", "dilation": TRIPLE}, axes("S_k"),
        ),
        causal,
    ),
    "maxpool": (
        "maxpool",
        Sample(
            {"x": floats(B, S_k, D, N_H)}, {"k": TRIPLE, "stride": TWO, "pad": ONE},
            axes("S_k, D"), ((B, TRIPLE, number(4), N_H),),
        ),
        pooled("max_pool2d", kernel_size=3, stride=2, padding=1),
    ),
    "meanpool": (
        "meanpool",
        Sample(
            {"x": floats(B, S_k, D, N_H)}, {"k": TRIPLE, "stride": TWO, "pad": ONE},
            axes("S_k, D"), ((B, TRIPLE, number(4), N_H),),
        ),
        pooled("avg_pool2d", kernel_size=3, stride=2, padding=1),
    ),
    "upsample": (
        "upsample",
        Sample({"x": floats(B, S_k, D, N_H)}, {"k": TRIPLE}, axes("S_k, D")),
        pooled("interpolate", scale_factor=3),
    ),
    "gather": (
        "gather",
        Sample({"x": floats(B, S_k, D), "ids": ints(B, S, below=S_k)}, axes=axes("S_k")),
        taken,
    ),
    "scatter": (
        "scatter",
        Sample({"x": floats(B, S, V), "ids": ints(B, S, V, below=D)}, axes=axes("V")),
        added,
    ),
    "RoPE": ("RoPE", Sample(HEADS), rope),
    "RoPE slowed": (
        "RoPE",
        Sample(HEADS, {"base": 100.0, "factor": 8.0, "low": 1.0, "high": 4.0, "trained": 16.0}),
        rope_slowed,
    ),
    "RoPE slowed by pairs": (
        "RoPE",
        Sample(HEADS, {**YARN, "layout": "interleaved"}),
        rope_by_pairs,
    ),
    "RoPE interleaved": ("RoPE", Sample(HEADS, {"layout": "interleaved"}), rope_complex),
}  # fmt: skip


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_torch(case: str, scale: float) -> None:
    import torch

    glyph, sample, model = CASES[case]
    op = ops.find(glyph)
    assert op
    trial = Trial.make(op, sample, seed=len(case), scale=scale, sizes=SIZES)
    given: Tensors = {
        name: torch.tensor(array, requires_grad=array.dtype.kind == "f")
        for name, array in trial.arrays.items()
    }
    expected = model(given)
    (name,) = op.outputs
    found = trial.outputs()[name]
    assert np.allclose(found, expected.detach().numpy(), rtol=TOLERANCE, atol=TOLERANCE)
    gradients = trial.gradients()
    theirs = torch.autograd.grad(
        expected,
        [given[operand] for operand in gradients],
        torch.tensor(trial.cotangents["d" + name]),
    )
    for (operand, gradient), tensor in zip(gradients.items(), theirs, strict=True):
        wanted = tensor.numpy()
        error = np.abs(gradient - wanted).max()
        assert error <= TOLERANCE * max(1.0, np.abs(wanted).max()), operand


def test_a_masked_softmax_is_that_of_torch() -> None:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    random = np.random.default_rng(0)
    q, k = (torch.tensor(random.normal(size=(2, 3, 4))) for _ in range(2))
    identity = torch.eye(3, dtype=q.dtype).expand(2, 3, 3)
    theirs = scaled_dot_product_attention(q, k, identity, is_causal=True).numpy()
    mask, softmax = ops.find("SM"), ops.find("S")
    assert mask
    assert softmax
    scores = (q @ k.transpose(-1, -2)).numpy()
    types = {"a": floats(B, S, S)}
    masking = Trial.make(mask, Sample(types, {"scale": 0.5, "mask": "causal"}))
    z = masking.outputs({"a": scores})["z"]
    p = Trial.make(softmax, Sample({"z": floats(B, S, S)})).outputs({"z": z})["p"]
    assert np.allclose(p, theirs, rtol=TOLERANCE, atol=TOLERANCE)
