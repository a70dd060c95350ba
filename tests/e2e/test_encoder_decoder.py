"""Seed 002's architecture: what `torch.nn.Transformer` computes; it learns to translate."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional

import xg
from xg.cli import main
from xg.verify.reference.interpret import initial
from xg_runtime import checkpoint

FILE = Path(__file__).parents[2] / "diagrams" / "models" / "encoder_decoder.xg"
Array = NDArray[Any]
Tensors = dict[str, torch.Tensor]

SIZES = {"V_e": 13, "V_d": 11, "D": 12, "N": 2, "N_H": 3, "D_ff": 10}
BATCH, SOURCE, TARGET = 2, 5, 4


# ---- against torch.nn.Transformer ----------------------------------------------------------------


class Witness(torch.nn.Module):
    """The whole model as a user of torch writes it."""

    def __init__(self) -> None:
        super().__init__()
        width = SIZES["D"]
        self.source = torch.nn.Embedding(SIZES["V_e"], width)
        self.target = torch.nn.Embedding(SIZES["V_d"], width)
        self.stack = torch.nn.Transformer(
            width,
            SIZES["N_H"],
            num_encoder_layers=SIZES["N"],
            num_decoder_layers=SIZES["N"],
            dim_feedforward=SIZES["D_ff"],
            dropout=0,
            batch_first=True,
        )
        # The original has no further normalization behind either stack.
        self.stack.encoder.norm = self.stack.decoder.norm = None
        self.head = torch.nn.Linear(width, SIZES["V_d"])
        self.double()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        causal = self.stack.generate_square_subsequent_mask(y.shape[1], dtype=torch.float64)
        decoded = self.stack(_placed(self.source(x)), _placed(self.target(y)), tgt_mask=causal)
        return self.head(decoded)


def _placed(embedded: torch.Tensor) -> torch.Tensor:
    """Scaled by sqrt(D), sines and cosines added (Vaswani et al. 2017, 3.4 and 3.5)."""
    length, width = embedded.shape[-2:]
    place = torch.arange(length, dtype=torch.float64)[:, None]
    rate = 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    waves = torch.stack([torch.sin(place * rate), torch.cos(place * rate)], -1).flatten(-2)
    return embedded * math.sqrt(width) + waves


def _given(params: Tensors) -> Iterator[tuple[str, torch.Tensor]]:
    """The witness's parameters, made of xg's: products are transposed, Q, K and V stacked."""
    yield "source.weight", params["model.E_x"]
    yield "target.weight", params["model.E_y"]
    yield "head.weight", params["model.W"].T
    yield "head.bias", params["model.b"]
    for side, names in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "cross_attn"))):
        for i in range(SIZES["N"]):
            ours, theirs = f"model.{side}.{i}", f"stack.{side}.layers.{i}"
            for name, torch_name in zip(names, ("self_attn", "multihead_attn"), strict=False):
                at, to = f"{ours}.{name}", f"{theirs}.{torch_name}"
                yield f"{to}.in_proj_weight", torch.cat([params[f"{at}.W_{n}"].T for n in "QKV"])
                yield f"{to}.in_proj_bias", torch.cat([params[f"{at}.b_{n}"] for n in "QKV"])
                yield f"{to}.out_proj.weight", params[f"{at}.W_O"].T
                yield f"{to}.out_proj.bias", params[f"{at}.b_O"]
            for number in (1, 2):
                yield f"{theirs}.linear{number}.weight", params[f"{ours}.FFN.W_{number}"].T
                yield f"{theirs}.linear{number}.bias", params[f"{ours}.FFN.b_{number}"]
            for number in range(1, len(names) + 2):
                yield f"{theirs}.norm{number}.weight", params[f"{ours}.gamma_{number}"]
                yield f"{theirs}.norm{number}.bias", params[f"{ours}.beta_{number}"]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_it_is_the_transformer_of_torch() -> None:
    sizes = {**SIZES, "B": BATCH, "S_e": SOURCE, "S_d": TARGET}
    program = xg.compile(FILE, block="Translator", sizes=sizes)
    params = {name: torch.tensor(array) for name, array in initial(program.graphs, 1).items()}
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(SIZES["V_e"], (BATCH, SOURCE), generator=draw)
    y, t = (torch.randint(SIZES["V_d"], (BATCH, TARGET), generator=draw) for _ in range(2))

    leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
    witness = Witness()
    given = dict(_given(leaves))
    assert given.keys() == dict(witness.named_parameters()).keys()
    logits = torch.func.functional_call(witness, given, (x, y))
    loss = functional.cross_entropy(logits.flatten(0, 1), t.flatten())
    loss.backward()

    module = program.load("torch")
    outputs, saved = module.forward(params, {"x": x, "y": y, "t": t})
    gradients = module.backward(params, saved, {"loss": torch.ones((), dtype=torch.float64)})
    assert torch.allclose(outputs["Z"], logits, rtol=1e-10, atol=1e-12)
    assert torch.allclose(outputs["loss"], loss, rtol=1e-12)
    whole = math.hypot(*(float(torch.linalg.norm(g)) for g in gradients.values()))
    for name, leaf in leaves.items():
        assert leaf.grad is not None, name
        size = max(float(leaf.grad.norm()), float(gradients[name].norm()))
        assert size > 0, name
        assert float((leaf.grad - gradients[name]).norm()) <= 1e-10 * (size + 1e-2 * whole), name


# ---- a toy translation ---------------------------------------------------------------------------

DIGITS, BEGIN, LENGTH, ROWS = 10, 10, 4, 6_000
TOY = {"V_e": DIGITS, "V_d": DIGITS + 1, "D": 24, "N": 2, "N_H": 4, "D_ff": 48}


def reversal(rows: int, seed: int) -> dict[str, Array]:
    """Digits, the same backwards, and that one place later behind a sign that begins."""
    x = np.random.default_rng(seed).integers(0, DIGITS, (rows, LENGTH))
    t = x[:, ::-1].copy()
    y = np.concatenate([np.full((rows, 1), BEGIN), t[:, :-1]], axis=1)
    return {"x": x, "y": y, "t": t}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    """Parameters learned by the command, from rows in a file."""
    folder = tmp_path_factory.mktemp("reversal")
    np.savez(folder / "rows.npz", **reversal(ROWS, 1))  # pyright: ignore[reportArgumentType]
    words = ["train", FILE, "--block", "Translator", "--data", folder / "rows.npz"]
    words += ["--steps", 250, "--batch", 64, "--lr", 0.008, "--eval", 0, "--out", folder / "run"]
    words += [word for name, n in TOY.items() for word in ("--set", f"{name}={n}")]
    assert main([str(word) for word in words]) == 0
    return checkpoint.load(folder / "run").params


def test_it_learns_to_write_digits_backwards(trained: dict[str, Array]) -> None:
    module = xg.compile(FILE, block="Translator", sizes=TOY).load("numpy")
    wanted = reversal(500, 2)
    written = np.full((500, 1), BEGIN)
    for _ in range(LENGTH):  # greedy: each digit from those before it
        given = {"x": wanted["x"], "y": written, "t": np.zeros_like(written)}
        logits = module.forward(trained, given)[0]["Z"][:, -1, :DIGITS]
        written = np.concatenate([written, logits.argmax(-1)[:, None]], axis=1)
    exact = (written[:, 1:] == wanted["t"]).all(axis=1).mean()
    assert exact > 0.99, exact
