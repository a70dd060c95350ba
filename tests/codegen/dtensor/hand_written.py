"""Models as people write them, their modules called after the parameters of a diagram."""

from __future__ import annotations

import math

import torch
from examples.minigpt.minigpt import Attention, Config, Layer, MiniGPT
from torch import Tensor, nn
from torch.nn import functional


class KeywordLayer(Layer):
    """A layer that gives its attention a keyword."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x=self.norm_1(x))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class KeywordGPT(MiniGPT):
    """MiniGPT of such layers."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, Attention)
        layers = (KeywordLayer(config, Attention) for _ in range(config.layers))
        self.layers = nn.ModuleList(layers)


class MLP(nn.Module):
    """The block of diagrams/notation/mlp.xg, without dropout."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gamma = nn.LayerNorm(width)
        self.W_up = nn.Linear(width, hidden)
        self.W_down = nn.Linear(hidden, width)

    def forward(self, X: Tensor) -> Tensor:
        H = self.gamma(X)
        return X + self.W_down(functional.gelu(self.W_up(H), approximate="tanh"))


class RMS(nn.Module):
    """A norm whose weight is the parameter itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class GQA(nn.Module):
    """Attention whose heads share keys; how many it has shows in what its layers give."""

    def __init__(self, width: int, wide: int, narrow: int, head: int) -> None:
        super().__init__()
        self.head = head
        self.W_Q, self.W_K, self.W_V = (
            nn.Linear(width, out, bias=False) for out in (wide, narrow, narrow)
        )
        self.W_O = nn.Linear(wide, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for layer in (self.W_Q, self.W_K, self.W_V)
        )
        q, k = _turned(q), _turned(k)
        k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
        future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-1, -2) / math.sqrt(self.head)).masked_fill(future, -math.inf)
        return self.W_O((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def _turned(x: Tensor) -> Tensor:
    """RoPE, as Llama's: halves of a head turn together."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[2], dtype=x.dtype)[:, None] * torch.pow(
        10000.0, -torch.arange(half, dtype=x.dtype) / half
    )
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


class LlamaLayer(nn.Module):
    """A layer of Llama."""

    def __init__(self, width: int, hidden: int, wide: int, narrow: int, head: int) -> None:
        super().__init__()
        self.g_1, self.g_2 = RMS(width), RMS(width)
        self.attn = GQA(width, wide, narrow, head)
        self.W_gate, self.W_up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.W_down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        m = x + self.attn(self.g_1(x))
        h = self.g_2(m)
        return m + self.W_down(functional.silu(self.W_gate(h)) * self.W_up(h))


class Llama(nn.Module):
    """The model of diagrams/models/llama.xg with a head of its own."""

    def __init__(
        self, vocab: int, layers: int, width: int, hidden: int, wide: int, narrow: int, head: int
    ) -> None:
        super().__init__()
        self.E = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(
            LlamaLayer(width, hidden, wide, narrow, head) for _ in range(layers)
        )
        self.g = RMS(width)
        self.W_lm = nn.Linear(width, vocab, bias=False)

    def forward(self, ids: Tensor, t: Tensor) -> Tensor:
        x = self.E(ids)
        for layer in self.layers:
            x = layer(x)
        return functional.cross_entropy(self.W_lm(self.g(x)).flatten(0, 1), t.flatten())
