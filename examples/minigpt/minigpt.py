"""A GPT as people write it by hand, to be compared with diagrams/models/transformer.xg."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass
class Config:
    """The sizes of the model."""

    vocab: int = 61
    width: int = 24
    layers: int = 2
    heads: int = 4
    hidden: int = 40
    positions: int = 14


class Attention(nn.Module):
    """Causal self-attention; all its heads at once."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.q = nn.Linear(config.width, config.width)
        self.k = nn.Linear(config.width, config.width)
        self.v = nn.Linear(config.width, config.width)
        self.out = nn.Linear(config.width, config.width)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Return how much each query looks at each key."""
        return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])

    def forward(self, x: Tensor) -> Tensor:
        """Attend to what came before."""
        b, s, _ = x.shape
        split = (b, s, self.heads, -1)
        q, k, v = (part(x).view(split).transpose(1, 2) for part in (self.q, self.k, self.v))
        future = torch.ones(s, s, dtype=torch.bool, device=x.device).triu(1)
        p = self.scores(q, k).masked_fill(future, -math.inf).softmax(-1)
        return self.out((p @ v).transpose(1, 2).flatten(2))


class Unscaled(Attention):
    """An error: scores without 1/sqrt(D_h)."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Return how much each query looks at each key."""
        return q @ k.transpose(-1, -2)


class Layer(nn.Module):
    """A layer with its norms in front."""

    def __init__(self, config: Config, attention: type[Attention]) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(config.width)
        self.attention = attention(config)
        self.norm_2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, config.hidden)
        self.down = nn.Linear(config.hidden, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """Add what attention gives, then what the hidden units give."""
        x = x + self.attention(self.norm_1(x))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class MiniGPT(nn.Module):
    """The model, with a head that is tied to the table of words."""

    def __init__(self, config: Config, attention: type[Attention]) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        self.layers = nn.ModuleList(Layer(config, attention) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        self.head.weight = self.words.weight

    def embed(self, ids: Tensor) -> Tensor:
        """Return a vector for each word at its position."""
        return self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))

    def forward(self, ids: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits, and the loss for the words `t` that should follow."""
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        z = self.head(self.norm(x))
        return z, functional.cross_entropy(z.flatten(0, 1), t.flatten())


def build() -> MiniGPT:
    """The model as it should be."""
    return MiniGPT(Config(), Attention)


def unscaled() -> MiniGPT:
    """The model with an error."""
    return MiniGPT(Config(), Unscaled)
