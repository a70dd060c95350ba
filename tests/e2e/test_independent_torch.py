"""A transformer written by hand in torch, differentiated by autograd, against generated code.

Nothing of xg is used in the witness but the names of the parameters. Every variant of
`transformer.xg` has the same loss, logits and gradients to 1e-10 in float64, in NumPy; some of
them are checked against it in torch as well, as functions and as a `Model`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import xg

Tensor: TypeAlias = Any  # of torch, which is imported where it is used

LIBRARY = Path(__file__).parents[2] / "diagrams"
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
            (f"{at}.M", layer.dropout_keep),
            (f"{at}.Y", layer.dropout_keep_2),
        ):
            found[place] = torch.as_tensor(keep)
    return found


@dataclass(frozen=True)
class Given:
    """Parameters away from ones and zeros, inputs, and cotangents of both outputs."""

    params: dict[str, Tensor]
    ids: Tensor
    t: Tensor
    d_logits: Tensor
    d_loss: Tensor


@dataclass(frozen=True)
class Answer:
    """Logits, loss and gradients, as arrays."""

    Z: Tensor
    loss: Tensor
    gradients: dict[str, Tensor]


def drawn(program: xg.Program) -> Given:
    rng = np.random.default_rng(7)
    params: dict[str, Tensor] = program.load("numpy").init(seed=1, dtype=np.float64)
    moved: dict[str, Tensor] = {
        name: x + 0.3 * rng.standard_normal(x.shape) for name, x in params.items()
    }
    ids, t = (rng.integers(0, SIZES["V"], (BATCH, LENGTH)) for _ in range(2))
    return Given(moved, ids, t, rng.standard_normal((*ids.shape, SIZES["V"])), np.asarray(1.7))


def of_witness(given: Given, variant: dict[str, str], masks: Tensor) -> Answer:
    """The answer of autograd for the model written by hand."""
    import torch

    leaves = {n: torch.tensor(x, requires_grad=True) for n, x in given.params.items()}
    z, loss = Witness(leaves, variant, masks)(torch.tensor(given.ids), torch.tensor(given.t))
    ((z * torch.tensor(given.d_logits)).sum() + float(given.d_loss) * loss).backward()
    return answer({"Z": z, "loss": loss}, {name: leaf.grad for name, leaf in leaves.items()})


def answer(outputs: dict[str, Tensor], gradients: dict[str, Tensor]) -> Answer:
    """Tensors as arrays."""
    arrays = {name: gradient.numpy() for name, gradient in gradients.items()}
    return Answer(outputs["Z"].detach().numpy(), outputs["loss"].detach().numpy(), arrays)


def error(a: Tensor, b: Tensor) -> float:
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(a), np.linalg.norm(b), 1e-300))


def check(found: Answer, expected: Answer) -> None:
    """Hold an answer against the witness's."""
    assert error(found.Z, expected.Z) < 1e-10
    assert error(found.loss, expected.loss) < 1e-10
    assert set(found.gradients) == set(expected.gradients)
    whole = np.sqrt(sum((g**2).sum() for g in found.gradients.values()))
    for name, gradient in expected.gradients.items():
        size = np.linalg.norm(found.gradients[name])
        distance = np.linalg.norm(found.gradients[name] - gradient)
        largest = max(size, np.linalg.norm(gradient))
        assert distance <= 1e-10 * largest + 1e-12 * whole, name
        assert name.endswith("b_K") or size > 1e-6 * whole, name


@pytest.mark.parametrize("variant", [*variants()], ids=lambda variant: "-".join(variant.values()))
def test_loss_logits_and_gradients_are_those_of_autograd(variant: dict[str, str]) -> None:
    """In evaluation, and in training with the masks that were drawn."""
    program = xg.compile(LIBRARY / "models" / "transformer.xg", sizes=SIZES, options=variant)
    module, given = program.load("numpy"), drawn(program)
    inputs, d_outputs = (
        {"ids": given.ids, "t": given.t},
        {"Z": given.d_logits, "loss": given.d_loss},
    )
    for seed in (None, 5):
        outputs, saved = module.forward(given.params, inputs, seed=seed)
        gradients = module.backward(given.params, saved, d_outputs)
        witness = of_witness(given, variant, masks_of(saved) if seed else None)
        check(Answer(outputs["Z"], outputs["loss"], gradients), witness)


IN_TORCH = [  # every choice of every option at least once
    {"norm": "pre", "ffn": "MLP", "act": "GELU", "pos": "learned", "head": "tied"},
    {"norm": "post", "ffn": "GatedMLP", "act": "GELU", "pos": "rope", "head": "own"},
    {"norm": "pre", "ffn": "MLP", "act": "ReLU", "pos": "sinusoidal", "head": "tied"},
]


@pytest.mark.parametrize("variant", IN_TORCH, ids=lambda variant: "-".join(variant.values()))
@pytest.mark.parametrize("dropout", [False, True], ids=["eval", "train"])
def test_functions_and_model_in_torch_are_those_of_autograd(
    variant: dict[str, str], dropout: bool
) -> None:
    import torch

    program = xg.compile(LIBRARY / "models" / "transformer.xg", sizes=SIZES, options=variant)
    module, given = program.load("torch"), drawn(program)
    params = {name: torch.tensor(array) for name, array in given.params.items()}
    inputs = {"ids": torch.tensor(given.ids), "t": torch.tensor(given.t)}
    d_outputs = {"Z": torch.tensor(given.d_logits), "loss": torch.tensor(given.d_loss)}
    outputs, saved = module.forward(params, inputs, seed=5 if dropout else None)
    gradients = module.backward(params, saved, d_outputs)
    witness = of_witness(given, variant, masks_of(saved) if dropout else None)
    check(answer(outputs, gradients), witness)

    model = module.Model(0, torch.float64)
    model.load_state_dict(params)
    seed = {"seed": torch.tensor(5)} if dropout else {}
    outputs = model.train(dropout)(**inputs, **seed)
    torch.autograd.backward([outputs["Z"], outputs["loss"]], list(d_outputs.values()))
    check(answer(outputs, {n: p.grad for n, p in model.named_parameters()}), witness)


def test_every_choice_is_held_in_torch() -> None:
    chosen = {(name, word) for variant in IN_TORCH for name, word in variant.items()}
    assert chosen == {(name, word) for name, words in OPTIONS.items() for word in words}


@pytest.mark.parametrize("name", ["beta", "layers.1.attn.W_Q"])
def test_a_gradient_that_is_slightly_off_is_found(name: str) -> None:
    variant = IN_TORCH[0]
    program = xg.compile(LIBRARY / "models" / "transformer.xg", sizes=SIZES, options=variant)
    given = drawn(program)
    witness = of_witness(given, variant, None)
    check(witness, witness)
    off = {**witness.gradients, name: witness.gradients[name] * (1 + 1e-8)}
    with pytest.raises(AssertionError, match=name):
        check(Answer(witness.Z, witness.loss, off), witness)
