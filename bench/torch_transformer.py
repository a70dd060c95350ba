"""The model of `diagrams/models/transformer.xg` written by hand in torch, as an `nn.Module`."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

Way = Literal["explicit", "sdpa"]  # how attention is computed


def _explicit(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    scores = Q @ K.transpose(-1, -2) * Q.shape[-1] ** -0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=Q.device).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ V


def _sdpa(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(Q, K, V, is_causal=True)


WAYS: Final[Mapping[Way, Callable[..., Tensor]]] = {"explicit": _explicit, "sdpa": _sdpa}


class Attention(nn.Module):
    """Causal self-attention, by an explicit softmax or by torch's own function."""

    def __init__(self, width: int, heads: int, way: Way) -> None:
        super().__init__()
        self.heads, self.attend = heads, WAYS[way]
        self.Q, self.K, self.V, self.O = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """``[B, S, D]`` to the same."""
        Q, K, V = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.Q, self.K, self.V)
        )
        return self.O(self.attend(Q, K, V).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention and a perceptron, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int, way: Way) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, way)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """``[B, S, D]`` to the same."""
        x = x + self.attn(self.norm_1(x))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class LM(nn.Module):
    """Embeddings, layers, a head tied to the tokens' table, and the loss."""

    def __init__(self, sizes: Mapping[str, int], way: Way) -> None:
        super().__init__()
        width = sizes["D"]
        self.tokens = nn.Embedding(sizes["V"], width)
        self.places = nn.Embedding(sizes["S_max"], width)
        self.layers = nn.ModuleList(Layer(width, sizes["N_H"], way) for _ in range(sizes["N_L"]))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor, targets: Tensor, at: Tensor | None = None) -> Tensor:
        """The mean loss; tokens are the first ones, or at the positions `at`."""
        return self.loss(self.deeper(self.embedded(ids, at)), targets)

    def embedded(self, ids: Tensor, at: Tensor | None = None) -> Tensor:
        """The rows of both tables."""
        positions = torch.arange(ids.shape[1], device=ids.device) if at is None else at
        return self.tokens(ids) + self.places(positions)

    def deeper(self, x: Tensor) -> Tensor:
        """``[B, S, D]`` to the same, through all layers."""
        for layer in self.layers:
            x = layer(x)
        return x

    def loss(self, x: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of the head."""
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def by_diagram(self) -> Iterator[tuple[str, Tensor, bool]]:
        """Every parameter by its name in the diagram, and whether it is transposed there."""
        yield "E", self.tokens.weight, False
        yield "P", self.places.weight, False
        yield from _affine("", "", self.norm)
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            at = f"layers.{i}."
            yield from _affine(at, "_1", layer.norm_1)
            yield from _affine(at, "_2", layer.norm_2)
            for name in "QKVO":
                yield from _linear(f"{at}attn.", name, getattr(layer.attn, name))
            yield from _linear(f"{at}ffn.", "up", layer.up)
            yield from _linear(f"{at}ffn.", "down", layer.down)

    def load(self, params: Mapping[str, NDArray[Any]]) -> None:
        """Take parameters over by their names in the diagram."""
        with torch.no_grad():
            for name, parameter, turned in self.by_diagram():
                value = torch.from_numpy(params[name])
                parameter.copy_(value.T if turned else value)


def _affine(at: str, end: str, norm: nn.LayerNorm) -> Iterator[tuple[str, Tensor, bool]]:
    yield f"{at}gamma{end}", norm.weight, False
    yield f"{at}beta{end}", norm.bias, False


def _linear(at: str, name: str, linear: nn.Linear) -> Iterator[tuple[str, Tensor, bool]]:
    yield f"{at}W_{name}", linear.weight, True
    yield f"{at}b_{name}", linear.bias, False
