"""Errors planted into a GPT that is written by hand, and where and how each must be named.

They are the kinds that users of Megatron-LM, torchtitan and DeepSpeed report. Code of several ranks
is acted by one process: what a rank lacks is left out.
"""

# ruff: noqa: E501 - a table of errors, a line for each
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import torch
from examples.minigpt.minigpt import Attention, Config, MiniGPT
from torch import Tensor, nn
from torch.nn import functional

Loose: TypeAlias = Any  # modules of torch, whose parts are tensors or modules to a checker


@dataclass(frozen=True)
class Planted:
    """An error: how a model gets it, the edge that is named first, words of the cause."""

    plant: Callable[[Loose], object]
    edge: str
    words: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])


class Flexible(Attention):
    """Attention with every step to be replaced."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.scale = 1 / math.sqrt(config.width // config.heads)
        self.filler, self.shift, self.dim, self.turn = -math.inf, 0, -1, lambda x: x
        self.keep: Callable[[Tensor], Tensor] = lambda x: x
        self.apart: Callable[[Tensor, int], Tensor] = lambda x, heads: x.view(
            *x.shape[:2], heads, -1
        ).transpose(1, 2)
        self.join: Callable[[Tensor, Any], Tensor] = lambda o, shape: o.transpose(1, 2).reshape(
            shape
        )
        self.drop = 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Attend."""
        q, k, v = (self.apart(part(x), self.heads) for part in (self.q, self.k, self.v))
        s = x.shape[1]
        future = torch.ones(s, s, dtype=torch.bool).triu(1 + self.shift)
        scores = (self.turn(q) @ self.turn(k).transpose(-1, -2) * self.scale).masked_fill(
            future, self.filler
        )
        p = functional.dropout(scores.softmax(self.dim), self.drop)
        return self.keep(self.out(self.join(p @ v, x.shape)))


class Free(nn.Module):
    """A layer with every step to be replaced."""

    def __init__(self, layer: Loose, attention: Loose) -> None:
        super().__init__()
        self.norm_1, self.attention, self.norm_2 = layer.norm_1, attention, layer.norm_2
        self.up, self.down = layer.up, layer.down
        self.add_1 = self.add_2 = lambda x, y: x + y
        self.act: Callable[[Tensor], Tensor] = lambda x: functional.gelu(x, approximate="tanh")

    def forward(self, x: Tensor) -> Tensor:
        """Attend, then think."""
        x = self.add_1(x, self.attention(self.norm_1(x)))
        return self.add_2(x, self.down(self.act(self.up(self.norm_2(x)))))


def model() -> MiniGPT:
    """A model whose steps can be replaced, without an error."""
    found = MiniGPT(Config(), Flexible)
    found.layers = nn.ModuleList(Free(layer, layer.attention) for layer in found.layers)
    return found


# ---- ways to plant -------------------------------------------------------------------------------


def attending(name: str, value: object) -> Callable[[Loose], object]:
    """Another step in the attention of every layer."""
    return lambda m: [setattr(layer.attention, name, value) for layer in m.layers]


def layering(name: str, value: object) -> Callable[[Loose], object]:
    """Another step in every layer."""
    return lambda m: [setattr(layer, name, value) for layer in m.layers]


def linear(
    path: str, forward: Callable[[Loose, Tensor], Tensor], layer: int = 1
) -> Callable[[Loose], object]:
    """Another forward of one module of a layer."""

    def plant(m: Loose) -> None:
        module = m.layers[layer].get_submodule(path)
        module.forward = lambda x, module=module: forward(module, x)

    return plant


def ending(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Loose], object]:
    """Another loss."""

    def plant(m: Loose) -> None:
        whole = m.forward

        def forward(ids: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
            z, _ = whole(ids, t)
            return z, change(z, t)

        m.forward = forward

    return plant


def ce(z: Tensor, t: Tensor, **more: Loose) -> Tensor:
    """The loss as it should be."""
    return functional.cross_entropy(z.flatten(0, 1), t.flatten(), **more)


def turn(interleaved: bool, base: float, way: int = 1) -> Callable[[Tensor], Tensor]:
    """Rotary positions of either layout."""

    def turned(x: Tensor) -> Tensor:
        s, d = x.shape[-2:]
        speed = base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
        angle = way * torch.arange(s, dtype=x.dtype)[:, None] * speed
        c, n = angle.cos(), angle.sin()
        if not interleaved:
            a, b = x[..., : d // 2], x[..., d // 2 :]
            return torch.cat([a * c - b * n, b * c + a * n], -1)
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * c - b * n, b * c + a * n], -1).flatten(-2)

    return turned


def on_ranks(module: Loose, x: Tensor, biases: int = 1, ranks: int = 2) -> Tensor:
    """A row-parallel product: the bias on so many ranks, the sum over so many of two."""
    parts = zip(x.chunk(2, -1), module.weight.chunk(2, 1), strict=True)
    products = [part @ weight.T for part, weight in parts][:ranks]
    return sum(products[1:], products[0]) + biases * module.bias


def stale(m: Loose) -> None:
    """A product with a copy of its weight, made when the model was built."""
    module = m.layers[1].up
    module.register_buffer("copied", module.weight.detach().clone())
    module.forward = lambda x: functional.linear(x, module.copied, module.bias)


def exchanged(m: Loose) -> None:
    """Queries by the weight of keys."""
    attention: Loose = m.layers[1].attention
    attention.q.forward = lambda x: functional.linear(x, attention.k.weight, attention.q.bias)


def turning(turned: Callable[[Tensor], Tensor]) -> Callable[[Loose], object]:
    """Positions by turns, and no table of them."""

    def plant(m: Loose) -> None:
        attending("turn", turned)(m)
        m.embed = lambda ids: m.words(ids)
        del m.positions

    return plant


def untied(m: Loose) -> None:
    """A head with a table of its own."""
    m.head.weight = nn.Parameter(copy.deepcopy(m.words.weight.detach()))


def unbiased(module: Loose, x: Tensor) -> Tensor:
    """A norm by n - 1."""
    normal = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + module.eps).sqrt()
    return normal * module.weight + module.bias


def half(tensor: Tensor) -> Tensor:
    """The same numbers, and half the gradient."""
    return 0.5 * tensor + 0.5 * tensor.detach()


def columns(module: Loose, x: Tensor) -> Tensor:
    """A column-parallel product whose backward pass lacks the sum over two ranks."""
    (w, v), (b, c) = module.weight.chunk(2), module.bias.chunk(2)
    return torch.cat([functional.linear(x, w, b), functional.linear(x.detach(), v, c)], -1)


def first_half(call: Callable[..., Tensor]) -> Callable[[Loose, Tensor], Tensor]:
    """Parameters that get gradients from the first half of the batch only."""

    def forward(module: Loose, x: Tensor) -> Tensor:
        frozen = [p.detach() for p in (module.weight, module.bias)]
        own, others = x.chunk(2)
        return torch.cat([call(own, module.weight, module.bias), call(others, *frozen)])

    return forward


def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A norm of 24 numbers."""
    return functional.layer_norm(x, (24,), weight, bias)


def detached_head(m: Loose) -> None:
    """A head through which no gradient goes to the table."""
    m.head.forward = lambda x: x @ m.words.weight.detach().T


def without_gradients(m: Loose) -> None:
    """Attention under no_grad."""
    attention = m.layers[1].attention
    whole = attention.forward
    attention.forward = torch.no_grad()(whole)


ROPE: Final = {"pos": "rope"}
FORWARD: Final[Mapping[str, Planted]] = {
    "scores not scaled": Planted(attending("scale", 1.0), "layers.0.attn.O", "not scaled by 1/sqrt(D_h)"),
    "scores scaled by the whole width": Planted(attending("scale", 24**-0.5), "layers.0.attn.O", "scaled by 1/sqrt(D)"),
    "no mask": Planted(attending("shift", 99), "layers.0.attn.O", "causal mask is missing"),
    "mask one too late": Planted(attending("shift", 1), "layers.0.attn.O", "one position too many"),
    "masked by 0": Planted(attending("filler", 0.0), "layers.0.attn.O", "hidden scores are 0"),
    "softmax along queries": Planted(attending("dim", -2), "layers.0.attn.O", "along another axis"),
    "heads merged without transpose": Planted(attending("join", lambda o, shape: o.reshape(shape)), "layers.0.attn.O", "without the transpose"),
    "heads from every other column": Planted(attending("apart", lambda x, h: x.view(*x.shape[:2], -1, h).permute(0, 3, 1, 2)), "layers.0.attn.O", "every N_H-th column"),
    "dropout left on": Planted(attending("drop", 0.1), "layers.0.attn.O", "dropout left on"),
    "attention without residual": Planted(layering("add_1", lambda x, y: y), "layers.0.M", "the residual X is not added"),
    "MLP without residual": Planted(layering("add_2", lambda x, y: y), "layers.0.Y", "the residual M is not added"),
    "exact GELU": Planted(layering("act", functional.gelu), "layers.0.ffn.U", "exact GELU, by erf"),
    "SiLU": Planted(layering("act", functional.silu), "layers.0.ffn.U", "SiLU"),
    "no activation": Planted(layering("act", lambda x: x), "layers.0.ffn.U", "GELU is left out"),
    "other eps": Planted(lambda m: setattr(m.norm, "eps", 1e-6), "Y", "eps is 1e-06, not 1e-05"),
    "variance by n - 1": Planted(linear("norm_2", unbiased), "layers.1.LN", "divided by n - 1"),
    "norm scales by 1 + γ": Planted(linear("norm_2", lambda m, x: norm(x, 1 + m.weight, m.bias)), "layers.1.LN", "counted from 1"),
    "norm without mean": Planted(linear("norm_2", lambda m, x: functional.rms_norm(x, (24,), m.weight, m.eps) + m.bias), "layers.1.LN", "RMSNorm"),
    "bias on every rank": Planted(linear("down", lambda m, x: on_ranks(m, x, biases=2)), "layers.1.ffn.Y", "b_down is added 2 times"),
    "sum over ranks missing": Planted(linear("down", lambda m, x: on_ranks(m, x, ranks=1)), "layers.1.ffn.Y", "rank 0 of 2"),
    "bias left out": Planted(linear("attention.out", lambda m, x: x @ m.weight.T), "layers.1.attn.Y", "b_O is not added"),
    "transposed weight": Planted(linear("attention.q", lambda m, x: x @ m.weight + m.bias), "layers.1.attn.⊕", "W_Q is transposed"),
    "stale weight": Planted(stale, "layers.1.ffn.⊕", "stale copy"),
    "weights exchanged": Planted(exchanged, "layers.1.attn.⊕", "W_K is used in place of W_Q"),
    "head not tied": Planted(untied, "Z", "not tied"),
    "positions from 2": Planted(lambda m: setattr(m.positions, "forward", lambda i: functional.embedding(i + 2, m.positions.weight)), "PE", "+2 off"),
    "words scaled": Planted(lambda m: setattr(m.words, "forward", lambda i: functional.embedding(i, m.words.weight) * 24**0.5), "Emb", "square root of their width"),
    "mean taken twice": Planted(ending(lambda z, t: ce(z, t) / len(t)), "loss", "divided by 8 = B"),
    "loss summed": Planted(ending(lambda z, t: ce(z, t, reduction="sum")), "loss", "the loss is the sum"),
    "targets shifted twice": Planted(ending(lambda z, t: ce(z[:, :-1], t[:, 1:])), "loss", "shifted by one"),
    "RoPE interleaved": Planted(turning(turn(True, 1e4)), "layers.0.attn.O", "it turns columns 2i and 2i + 1 (interleaved)", ROPE),
    "RoPE the other way round": Planted(turning(turn(False, 1e4, -1)), "layers.0.attn.O", "the other way round", ROPE),
    "RoPE of another base": Planted(turning(turn(False, 5e5)), "layers.0.attn.O", "its base is 500,000", ROPE),
}  # fmt: skip
BACKWARD: Final[Mapping[str, Planted]] = {
    "residual detached": Planted(layering("add_1", lambda x, y: x.detach() + y), "d/layers.0.Y", "through ⊕ of line 45 is missing"),
    "residual counted twice": Planted(layering("add_2", lambda x, y: x + y + (x - x.detach())), "d/layers.1.M", "counted twice"),
    "head detached": Planted(detached_head, "d/E", "the part from Emb"),
    "loss of a rank not averaged": Planted(ending(lambda z, t: 2 * ce(z, t) - ce(z, t).detach()), "d/Z", "times 2"),
    "gradient summed twice": Planted(lambda m: m.layers[1].up.weight.register_hook(lambda g: 2 * g), "d/layers.1.ffn.W_up", "times 2"),
    "gradient averaged over ranks that hold parts": Planted(lambda m: m.layers[0].norm_1.bias.register_hook(lambda g: g / 2), "d/layers.0.beta_1", "divided by 2"),
    "parameter frozen": Planted(lambda m: m.layers[0].norm_2.bias.requires_grad_(False), "d/layers.0.beta_2", "no gradient arrives"),
    "all-reduce of columns missing": Planted(linear("up", columns), "d/layers.1.LN", "rank 0 of 2"),
    "norm's gradient not summed": Planted(linear("norm_2", first_half(norm)), "d/layers.1.gamma_2", "rank 0 of 2"),
    "weight's gradient not summed": Planted(linear("down", first_half(functional.linear)), "d/layers.1.ffn.b_down", "rank 0 of 2"),
    "attention under no_grad": Planted(without_gradients, "d/layers.1.attn.Y", "no gradient arrives"),
    "gradient transposed": Planted(lambda m: m.layers[1].attention.v.weight.register_hook(lambda g: g.T.contiguous()), "d/layers.1.attn.W_V", "transposed"),
    "activation's gradient halved": Planted(layering("act", lambda x: half(functional.gelu(x, approximate="tanh"))), "d/layers.1.ffn.⊕", "divided by 2"),
}  # fmt: skip
