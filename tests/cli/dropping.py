"""The model of examples/minigpt with dropout where the diagram has it, and with errors in it."""

import math

import torch
from examples.minigpt.minigpt import Attention, Config, Layer, MiniGPT
from torch import Tensor, nn
from torch.nn import functional


class Dropping(Attention):
    """Attention that drops weights."""

    p = 0.1

    def forward(self, x: Tensor) -> Tensor:
        """Attend to what came before."""
        b, s, _ = x.shape
        split = (b, s, self.heads, -1)
        q, k, v = (part(x).view(split).transpose(1, 2) for part in (self.q, self.k, self.v))
        future = torch.ones(s, s, dtype=torch.bool).triu(1)
        weights = self.scores(q, k).masked_fill(future, -math.inf).softmax(-1)
        weights = functional.dropout(weights, self.p, self.training)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class More(Dropping):
    """An error: another part is dropped."""

    p = 0.2


class Inside(Attention):
    """Attention of torch, which drops inside."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend to what came before."""
        b, s, _ = x.shape
        split = (b, s, self.heads, -1)
        q, k, v = (part(x).view(split).transpose(1, 2) for part in (self.q, self.k, self.v))
        p = 0.1 if self.training else 0.0
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class DroppingLayer(Layer):
    """A layer that drops what it adds."""

    def __init__(self, config: Config, attention: type[Attention]) -> None:
        super().__init__(config, attention)
        self.drop = nn.Dropout(0.1)

    def units(self, x: Tensor) -> Tensor:
        """Return the part of the hidden units."""
        return self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))

    def forward(self, x: Tensor) -> Tensor:
        """Add what attention gives, then what the hidden units give."""
        x = x + self.drop(self.attention(self.norm_1(x)))
        return x + self.drop(self.units(x))


class Without(DroppingLayer):
    """An error: only one of both is dropped."""

    def forward(self, x: Tensor) -> Tensor:
        """Add what attention gives, then what the hidden units give."""
        x = x + self.drop(self.attention(self.norm_1(x)))
        return x + self.units(x)


class Twice(DroppingLayer):
    """An error: what attention gives is dropped twice."""

    def forward(self, x: Tensor) -> Tensor:
        """Add what attention gives, then what the hidden units give."""
        x = x + self.drop(self.drop(self.attention(self.norm_1(x))))
        return x + self.drop(self.units(x))


def of(attention: type[Attention], layer: type[Layer]) -> MiniGPT:
    """The model with other parts."""
    model, config = MiniGPT(Config(), Attention), Config()
    model.layers = nn.ModuleList(layer(config, attention) for _ in range(config.layers))
    return model


def right() -> MiniGPT:
    """The model as it should be."""
    return of(Dropping, DroppingLayer)


def more() -> MiniGPT:
    """With another part dropped."""
    return of(More, DroppingLayer)


def without() -> MiniGPT:
    """With one that is missing."""
    return of(Dropping, Without)


def twice() -> MiniGPT:
    """With one too many."""
    return of(Dropping, Twice)


def inside() -> MiniGPT:
    """With one that takes no mask."""
    return of(Inside, DroppingLayer)
