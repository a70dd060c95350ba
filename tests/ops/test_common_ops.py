"""The ops of `common`: values and gradients are those of torch."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import xg
from xg.diagnostics.diagnostic import Source
from xg.frontend.project import common_ops
from xg.syntax.parse import parse

if TYPE_CHECKING:
    from torch import Tensor

OPS = {op.name.name: op for op in parse(Source("common.xg", common_ops().read_text("utf-8"))).ops}
FORMULAS: dict[str, Callable[..., Tensor]] = {
    "Swish": lambda torch, x: x * torch.sigmoid(x),
    "Mish": lambda torch, x: torch.nn.functional.mish(x),
    "ELU": lambda torch, x: torch.nn.functional.elu(x),
    "SELU": lambda torch, x: torch.nn.functional.selu(x),
    "LeakyReLU": lambda torch, x: torch.nn.functional.leaky_relu(x),
    "SquaredReLU": lambda torch, x: torch.relu(x) ** 2,
    "HardSigmoid": lambda torch, x: (x + 3).clamp(0, 6) / 6,
    "HardSwish": lambda torch, x: torch.nn.functional.hardswish(x),
    "LogSigmoid": lambda torch, x: torch.nn.functional.logsigmoid(x),
    "Softsign": lambda torch, x: torch.nn.functional.softsign(x),
    "Softcap": lambda torch, x: 30 * torch.tanh(x / 30),
    "Sign": lambda torch, x: torch.sign(x),
    "Floor": lambda torch, x: torch.floor(x),
    "Round": lambda torch, x: torch.round(x),
    "StraightRound": lambda torch, x: x + (torch.round(x) - x).detach(),
    "Unit": lambda torch, x: torch.nn.functional.normalize(x, dim=-1),
    "RMSNorm": lambda torch, x, g: torch.nn.functional.rms_norm(x, (5,), g, 1e-6),
    "Variance": lambda torch, x: x.var(-1, correction=0),
    "LogSoftmax": lambda torch, x: torch.log_softmax(x, -1),
    "Entropy": lambda torch, x: -(x.softmax(-1) * x.log_softmax(-1)).sum(-1),
    "L1": lambda torch, x, y: torch.nn.functional.l1_loss(x, y, reduction="none"),
    "Huber": lambda torch, x, y: torch.nn.functional.huber_loss(x, y, reduction="none"),
    "KL": lambda torch, x, y: torch.nn.functional.kl_div(
        x.log_softmax(-1), y.log_softmax(-1), reduction="none", log_target=True
    ).sum(-1),
    "Cosine": lambda torch, x, y: torch.nn.functional.cosine_similarity(x, y, dim=-1),
    "Distance": lambda torch, x, y: ((x[:, :, None] - y[:, None]) ** 2).sum(-1),
}
REDUCED = {"Variance", "Entropy", "KL", "Cosine"}


def test_every_op_is_tried() -> None:
    assert list(OPS) == list(FORMULAS)
    assert {"Swish", "Huber", "Unit", "LogSigmoid"} < OPS.keys()


@pytest.mark.parametrize("name", FORMULAS)
def test_an_op_is_that_of_torch(name: str) -> None:
    import torch

    op = OPS[name]
    rng = np.random.default_rng(0)
    inputs = {"x": 3 * rng.standard_normal((2, 4, 5))}
    call, head, param = name, "x [B, S, D]", ""
    if len(op.data) == 2:
        inputs["y"] = 2 * rng.standard_normal((2, 4, 5))
        call, head = f"{name}<-y", "x [B, S, D], y [B, S, D]"
        if name == "Distance":
            head = "x [B, S, D], y [B, M, D]"
    if any(own.shape for own in op.own):
        call, param = f"{name}(g)", "param g [D]\n"
    shape = "[B, S]" if name in REDUCED else "[B, S, M]" if name == "Distance" else "[B, S, D]"
    program = xg.compile(
        source=f"use {name} from common\ndim B = 2, S = 4, M = 4, D = 5\n"
        f"block Main({head}) -> z {shape} {{\n{param}x -> {call} : z\n}}\n"
    )
    params = {"g": rng.standard_normal(5)} if param else {}
    given = {n: torch.tensor(a, requires_grad=True) for n, a in (inputs | params).items()}
    expected = FORMULAS[name](torch, *given.values())
    weights = rng.standard_normal(tuple(expected.shape))
    slopes = torch.autograd.grad((expected * torch.tensor(weights)).sum(), [*given.values()])
    module: Any = program.load("numpy")
    outputs, saved = module.forward(params, inputs)
    np.testing.assert_allclose(outputs["z"], expected.detach().numpy(), rtol=1e-9, atol=1e-9)
    found = module.backward(params, saved, {"z": weights})
    for key, slope in zip(given, slopes, strict=True):
        np.testing.assert_allclose(found[key], slope.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_entropies_of_large_and_of_hidden_logits(dtype: str) -> None:
    """The entropy of [0, 1], whatever is added to both, and whatever a mask hides beside them."""
    z = np.array([[1e4, 1e4 + 1, -np.inf]], dtype)
    program = xg.compile(
        source="use Entropy, KL from common\ndim B = 1, D = 3\n"
        "block Main(z [B, D], t [B, D]) -> h [B], k [B] {\nz -> Entropy : h\nz -> KL<-t : k\n}\n"
    )
    module: Any = program.load("numpy")
    outputs, saved = module.forward({}, {"z": z, "t": z})
    np.testing.assert_allclose(outputs["h"], [0.5822032], rtol=2e-3)
    np.testing.assert_allclose(outputs["k"], [0.0])
    gradients = module.backward({}, saved, {"h": np.ones(1, dtype), "k": np.ones(1, dtype)})
    for name in ("z", "t"):
        assert np.isfinite(gradients[name]).all()
