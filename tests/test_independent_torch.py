"""A transformer written by hand in torch, differentiated by autograd, against generated NumPy.

Nothing of xg is used in the witness but the names of the parameters. Every variant of
`transformer.xg` has the same loss, logits and gradients to 1e-10 in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import xg

Tensor: TypeAlias = Any  # of torch, which is imported where it is used

LIBRARY = Path(__file__).parents[1] / "diagrams"
SIZES = {"V": 13, "D": 12, "N_L": 2, "N_H": 3, "D_ff": 10, "S_max": 7}
BATCH, LENGTH = 2, 5
OPTIONS = {
    "norm": ("pre", "post"),
    "ffn": ("MLP", "GatedMLP"),
    "act": ("GELU", "ReLU"),
    "pos": ("learned", "sinusoidal", "rope"),
    "head": ("tied", "own"),
}


def variants() -> Iterator[dict[str, str]]:
    for words in product(*OPTIONS.values()):
        variant = dict(zip(OPTIONS, words, strict=True))
        if variant["ffn"] == "MLP" or variant["act"] == "GELU":  # a gated MLP has no other act
            yield variant


class Witness:
    """The model in torch, straight from its textbook form. `masks` are dropout's, by place."""

    def __init__(self, params: dict[str, Tensor], variant: dict[str, str], masks: Tensor) -> None:
        self.p, self.v, self.masks = params, variant, masks

    def __call__(self, ids: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        from torch.nn import functional

        x = self.p["E"][ids]
        if self.v["pos"] == "learned":
            x = x + self.p["P"][: ids.shape[1]]
        if self.v["pos"] == "sinusoidal":
            x = x + self.waves(ids.shape[1], x.shape[2])
        for i in range(SIZES["N_L"]):
            x = self.layer(x, f"layers.{i}")
        if self.v["norm"] == "pre":
            x = functional.layer_norm(x, x.shape[-1:], self.p["gamma"], self.p["beta"])
        table = self.p["E"].T if self.v["head"] == "tied" else self.p["W_lm"]
        z = x @ table
        return z, functional.cross_entropy(z.flatten(0, 1), t.flatten())

    def waves(self, length: int, width: int) -> Tensor:
        import torch

        table = torch.zeros(length, width, dtype=torch.float64)
        for s in range(length):
            for i in range(0, width, 2):
                angle = torch.tensor(s / 10000 ** (i / width), dtype=torch.float64)
                table[s, i], table[s, i + 1] = torch.sin(angle), torch.cos(angle)
        return table

    def layer(self, x: Tensor, at: str) -> Tensor:
        post = self.v["norm"] == "post"
        h = x if post else self.norm(x, at, 1)
        m = x + self.drop(self.attention(h, f"{at}.attn"), f"{at}.M")
        m = self.norm(m, at, 1) if post else m
        h = m if post else self.norm(m, at, 2)
        y = m + self.drop(self.ffn(h, f"{at}.ffn"), f"{at}.Y")
        return self.norm(y, at, 2) if post else y

    def norm(self, x: Tensor, at: str, number: int) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        scaled = (x - mean) / (variance + 1e-5).sqrt()
        return scaled * self.p[f"{at}.gamma_{number}"] + self.p[f"{at}.beta_{number}"]

    def drop(self, x: Tensor, place: str) -> Tensor:
        return x if self.masks is None else x * self.masks[place] / 0.9

    def attention(self, x: Tensor, at: str) -> Tensor:
        import torch

        batch, length, width = x.shape
        heads, size = SIZES["N_H"], width // SIZES["N_H"]

        def projected(name: str) -> Tensor:
            y = x @ self.p[f"{at}.W_{name}"] + self.p[f"{at}.b_{name}"]
            y = y.view(batch, length, heads, size).transpose(1, 2)
            return self.turned(y) if self.v["pos"] == "rope" and name != "V" else y

        scores = projected("Q") @ projected("K").transpose(-1, -2) / size**0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        p = scores.masked_fill(future, float("-inf")).softmax(-1)
        o = (self.drop(p, f"{at}.AS") @ projected("V")).transpose(1, 2).reshape(x.shape)
        return o @ self.p[f"{at}.W_O"] + self.p[f"{at}.b_O"]

    def turned(self, x: Tensor) -> Tensor:
        import torch

        length, width = x.shape[-2:]
        place = torch.arange(length, dtype=torch.float64)[:, None]
        speed = 10000 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        c, s = torch.cos(place * speed), torch.sin(place * speed)
        a, b = x[..., : width // 2], x[..., width // 2 :]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    def ffn(self, x: Tensor, at: str) -> Tensor:
        from torch.nn import functional

        p = self.p
        if self.v["ffn"] == "GatedMLP":
            return (functional.silu(x @ p[f"{at}.W_gate"]) * (x @ p[f"{at}.W_up"])) @ p[
                f"{at}.W_down"
            ]
        u = x @ p[f"{at}.W_up"] + p[f"{at}.b_up"]
        u = (
            functional.gelu(u, approximate="tanh")
            if self.v["act"] == "GELU"
            else functional.relu(u)
        )
        return u @ p[f"{at}.W_down"] + p[f"{at}.b_down"]


def masks_of(saved: Tensor) -> dict[str, Tensor]:
    """The dropout masks of a forward pass, by the place where the witness applies them."""
    import torch

    found: dict[str, Tensor] = {}
    for i, layer in enumerate(saved.layers):
        at = f"layers.{i}"
        for place, keep in (
            (f"{at}.attn.AS", layer.attn.AS_keep),
            (f"{at}.M", layer.M_keep),
            (f"{at}.Y", layer.Y_keep),
        ):
            found[place] = torch.tensor(keep)
    return found


def error(a: Tensor, b: Tensor) -> float:
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(a), np.linalg.norm(b), 1e-300))


@pytest.mark.parametrize(
    "variant", list(variants()), ids=lambda variant: "-".join(variant.values())
)
@pytest.mark.parametrize("dropout", [False, True], ids=["eval", "train"])
def test_loss_logits_and_gradients_are_those_of_autograd(
    variant: dict[str, str], dropout: bool
) -> None:
    import torch

    module = xg.compile(LIBRARY / "transformer.xg", sizes=SIZES, options=variant).load("numpy")
    rng = np.random.default_rng(7)
    params: dict[str, Tensor] = module.init(seed=1, dtype=np.float64)
    moved: dict[str, Tensor] = {
        name: array + 0.3 * rng.standard_normal(array.shape) for name, array in params.items()
    }
    ids, t = (rng.integers(0, SIZES["V"], (BATCH, LENGTH)) for _ in range(2))
    outputs, saved = module.forward(moved, {"ids": ids, "t": t}, seed=5 if dropout else None)
    d_outputs: dict[str, Tensor] = {
        "Z": rng.standard_normal(outputs["Z"].shape),
        "loss": np.asarray(1.7),
    }
    grads = module.backward(moved, saved, d_outputs)

    leaves: dict[str, Tensor] = {
        name: torch.tensor(array, requires_grad=True) for name, array in moved.items()
    }
    witness = Witness(leaves, variant, masks_of(saved) if dropout else None)
    z, loss = witness(torch.tensor(ids), torch.tensor(t))
    ((z * torch.tensor(d_outputs["Z"])).sum() + 1.7 * loss).backward()

    assert error(outputs["Z"], z.detach().numpy()) < 1e-10
    assert error(outputs["loss"], loss.detach().numpy()) < 1e-10
    assert set(grads) == set(moved)
    whole = np.sqrt(sum((g**2).sum() for g in grads.values()))
    for name, leaf in leaves.items():
        assert leaf.grad is not None, name
        distance = np.linalg.norm(grads[name] - leaf.grad.numpy())
        largest = max(np.linalg.norm(grads[name]), float(leaf.grad.norm()))
        assert distance <= 1e-10 * largest + 1e-12 * whole, name
        assert name.endswith("b_K") or np.linalg.norm(grads[name]) > 1e-6 * whole, name
