"""Models as people write them in torch, small and in float64: what `xg import` has to read."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it


class CausalAttention(nn.Module):
    """Queries, keys and values from one matrix; fused attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        b, s, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(b, s, self.heads, d // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.drop(self.out(y.transpose(1, 2).reshape(b, s, d)))


class Block(nn.Module):
    """A pre-norm layer."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = CausalAttention(width, heads)
        self.ln2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, hidden)
        self.proj = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.proj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Decoder(nn.Module):
    """A GPT: learned positions, two layers, a head of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(29, 12)
        self.wpe = nn.Embedding(32, 12)
        self.h = nn.ModuleList(Block(12, 3, 20) for _ in range(2))
        self.ln_f = nn.LayerNorm(12)
        self.head = nn.Linear(12, 29, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.h:
            x = layer(x)
        return self.head(self.ln_f(x))


class SoftmaxAttention(nn.Module):
    """Scores, mask and softmax written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = (self._split(f(x)) for f in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(keep[:, None, None, :] == 0, float("-inf"))
        context = torch.matmul(scores.softmax(-1), v).permute(0, 2, 1, 3)
        return self.output(context.flatten(2))


class EncoderLayer(nn.Module):
    """A post-norm layer."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.attention = SoftmaxAttention(width, heads)
        self.norm1, self.norm2 = (nn.LayerNorm(width, eps=1e-12) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, keep))
        return self.norm2(x + self.mlp(x))


class Encoder(nn.Module):
    """A BERT-like encoder with a padding mask and tied output weights."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(23, 12)
        self.types = nn.Embedding(2, 12)
        self.layers = nn.ModuleList(EncoderLayer(12, 2, 20) for _ in range(2))

    def forward(self, ids: Tensor, types: Tensor, keep: Tensor) -> Tensor:
        x = self.words(ids) + self.types(types)
        for layer in self.layers:
            x = layer(x, keep)
        return x @ self.words.weight.t()


class RMSNorm(nn.Module):
    """Spelled out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(x: Tensor) -> Tensor:
    """The halves exchanged, the first one negative."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class GroupedAttention(nn.Module):
    """Rotary positions, and fewer heads for keys and values."""

    def __init__(self, width: int, heads: int, groups: int, head: int) -> None:
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, head
        self.q_proj = nn.Linear(width, heads * head, bias=False)
        self.k_proj = nn.Linear(width, groups * head, bias=False)
        self.v_proj = nn.Linear(width, groups * head, bias=False)
        self.o_proj = nn.Linear(heads * head, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, s, _ = x.shape
        q = self.q_proj(x).view(b, s, self.heads, self.head).transpose(1, 2)
        k = self.k_proj(x).view(b, s, self.groups, self.head).transpose(1, 2)
        v = self.v_proj(x).view(b, s, self.groups, self.head).transpose(1, 2)
        q, k = (t * cos + rotated(t) * sin for t in (q, k))
        k, v = (self._repeated(t) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, s, -1))

    def _repeated(self, x: Tensor) -> Tensor:
        b, n, s, d = x.shape
        times = self.heads // self.groups
        return x[:, :, None].expand(b, n, times, s, d).reshape(b, n * times, s, d)


class GatedMLP(nn.Module):
    """A gate by SiLU."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    """A layer of Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.input_norm = RMSNorm(16)
        self.self_attn = GroupedAttention(16, 6, 2, 4)
        self.post_norm = RMSNorm(16)
        self.mlp = GatedMLP(16, 22)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_norm(x), cos, sin)
        return x + self.mlp(self.post_norm(x))


class Llama(nn.Module):
    """RMSNorm, rotary positions, grouped-query attention, SwiGLU."""

    inv_freq: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(31, 16)
        self.layers = nn.ModuleList(LlamaLayer() for _ in range(2))
        self.norm = RMSNorm(16)
        self.lm_head = nn.Linear(16, 31, bias=False)
        freq = 1.0 / (10000.0 ** (torch.arange(0, 4, 2, dtype=torch.float64) / 4))
        self.register_buffer("inv_freq", freq)

    def forward(self, ids: Tensor) -> Tensor:
        place = torch.arange(ids.shape[1], device=ids.device)
        angle = place[:, None] * self.inv_freq[None, :]
        angle = torch.cat((angle, angle), dim=-1)
        cos, sin = angle.cos(), angle.sin()
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.norm(x))


class Stack(nn.Module):
    """The encoder that `torch.nn` provides, with a padding mask in which True hides a position."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        return self.encoder(x, src_key_padding_mask=hidden)


class Classifier(nn.Module):
    """Mean pooling, an MLP, and the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(10, 14)
        self.outer = nn.Linear(14, 6)

    def forward(self, x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        z = self.outer(torch.relu(self.inner(x)).mean(dim=1))
        return z, F.cross_entropy(z, t)


class OldGPTBlock(nn.Module):
    """A mask in a buffer, and a GELU written out, as in the first codes of GPT-2."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.c_attn = nn.Linear(12, 36)
        self.c_proj = nn.Linear(12, 12)
        self.c_fc = nn.Linear(12, 20)
        self.c_out = nn.Linear(20, 12)
        self.register_buffer("mask", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32))

    def forward(self, x: Tensor) -> Tensor:
        b, s, d = x.size()
        q, k, v = self.c_attn(x).split(d, dim=2)
        q, k, v = (t.view(b, s, 3, d // 3).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :s, :s] == 0, float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(b, s, d)
        x = x + self.c_proj(y)
        u = self.c_fc(x)
        u = 0.5 * u * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (u + 0.044715 * u**3)))
        return x + self.c_out(u)


@dataclass(frozen=True)
class Case:
    """A model, inputs for its export, and inputs of other sizes to compare on."""

    build: Callable[[], nn.Module]
    inputs: Callable[[int, int], tuple[Tensor, ...]]
    dynamic: tuple[tuple[str, ...], ...]


def ids(below: int) -> Callable[[int, int], Tensor]:
    """Random integers [B, S]."""
    return lambda b, s: torch.randint(0, below, (b, s))


def hiding(b: int, s: int) -> Tensor:
    """Which positions are padding; the first never is."""
    return torch.arange(s)[None, :] >= torch.randint(1, s + 1, (b, 1))


CASES = {
    "decoder": Case(Decoder, lambda b, s: (ids(29)(b, s),), (("B", "S"),)),
    "encoder": Case(
        Encoder,
        lambda b, s: (ids(23)(b, s), ids(2)(b, s), (~hiding(b, s)).long()),
        (("B", "S"), ("B", "S"), ("B", "S")),
    ),
    "llama": Case(Llama, lambda b, s: (ids(31)(b, s),), (("B", "S"),)),
    "stack": Case(
        Stack,
        lambda b, s: (torch.randn(b, s, 12).double(), hiding(b, s)),
        (("B", "S"), ("B", "S")),
    ),
    "classifier": Case(
        Classifier,
        lambda b, s: (torch.randn(b, s, 10).double(), torch.randint(0, 6, (b,))),
        (("B", "S"), ("B",)),
    ),
    "old_gpt": Case(OldGPTBlock, lambda b, s: (torch.randn(b, s, 12).double(),), (("B", "S"),)),
}
