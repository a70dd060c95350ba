"""Attention of a GPU by its definition, under the names and with the arguments that torch has.

Where there is no GPU, they show that each argument of `xg_kernels.torch.flash` is in its place: a
wrong one gives other numbers, or does not fit. Their signatures are compared with torch's.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import torch
from torch import Tensor

Found = tuple[Tensor | int | None, ...]


def _scores(q: Tensor, k: Tensor, scale: float | None, causal: bool) -> Tensor:
    assert scale is not None
    z = q @ k.mT * scale
    future = torch.ones(z.shape[-2:], dtype=torch.bool).triu(1)
    return z.masked_fill(future, -torch.inf) if causal else z


def _forward(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, causal: bool, dropout: float
) -> tuple[Tensor, Tensor]:
    assert dropout == 0
    z = _scores(q, k, scale, causal)
    return torch.softmax(z, -1) @ v, torch.logsumexp(z, -1)


def _backward(
    dy: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    lse: Tensor,
    scale: float | None,
    causal: bool,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    assert dropout == 0
    p = torch.exp(_scores(q, k, scale, causal) - lse[..., None])
    dz = p * (dy @ v.mT - (dy * y).sum(-1, keepdim=True)) * (scale or 0)
    return dz @ k, dz.mT @ q, p.mT @ dy


def _scaled_dot_product_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Found:
    assert not return_debug_mask
    y, lse = _forward(query, key, value, scale, is_causal, dropout_p)
    return y, lse, None, None, query.shape[-2], key.shape[-2], None, None, None


def _scaled_dot_product_flash_attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Tensor,
    philox_offset: Tensor,
    *,
    scale: float | None = None,
) -> Found:
    assert (cum_seq_q, cum_seq_k) == (None, None)
    assert (max_q, max_k) == (query.shape[-2], key.shape[-2])
    assert logsumexp.shape == query.shape[:-1]
    assert logsumexp.is_contiguous()
    assert philox_seed.dtype == philox_offset.dtype == torch.uint64
    given = grad_out, query, key, value, out, logsumexp
    return _backward(*given, scale, is_causal, dropout_p)


def _scaled_dot_product_cudnn_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Found:
    assert attn_bias is None
    assert compute_log_sumexp
    assert not return_debug_mask
    y, lse = _forward(query, key, value, scale, is_causal, dropout_p)
    return y, lse[..., None], None, None, query.shape[-2], key.shape[-2], None, None, None


def _scaled_dot_product_cudnn_attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    philox_seed: Tensor,
    philox_offset: Tensor,
    attn_bias: Tensor | None,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    *,
    scale: float | None = None,
) -> Found:
    assert (attn_bias, cum_seq_q, cum_seq_k) == (None, None, None)
    assert (max_q, max_k) == (query.shape[-2], key.shape[-2])
    assert logsumexp.shape == (*query.shape[:-1], 1)
    assert logsumexp.is_contiguous()
    assert philox_seed.ndim == philox_offset.ndim == 0
    given = grad_out, query, key, value, out, logsumexp.squeeze(-1)
    return _backward(*given, scale, is_causal, dropout_p)


def _scaled_dot_product_efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Found:
    assert attn_bias is None
    assert compute_log_sumexp
    y, lse = _forward(query, key, value, scale, is_causal, dropout_p)
    rows = -lse.shape[-1] % 32
    return y, torch.nn.functional.pad(lse, (0, rows), value=torch.inf), None, None


def _scaled_dot_product_efficient_attention_backward(
    grad_out_: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    philox_seed: Tensor,
    philox_offset: Tensor,
    dropout_p: float,
    grad_input_mask: list[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Found:
    assert attn_bias is None
    assert grad_input_mask == [True, True, True, False]
    assert logsumexp.shape[-1] % 32 == 0
    assert philox_seed.ndim == philox_offset.ndim == 0
    lse = logsumexp[..., : query.shape[-2]]
    found = _backward(grad_out_, query, key, value, out, lse, scale, is_causal, dropout_p)
    return *found, None


class Aten:
    """The operators, as `torch.ops.aten` has them."""

    _scaled_dot_product_flash_attention = staticmethod(_scaled_dot_product_flash_attention)
    _scaled_dot_product_flash_attention_backward = staticmethod(
        _scaled_dot_product_flash_attention_backward
    )
    _scaled_dot_product_cudnn_attention = staticmethod(_scaled_dot_product_cudnn_attention)
    _scaled_dot_product_cudnn_attention_backward = staticmethod(
        _scaled_dot_product_cudnn_attention_backward
    )
    _scaled_dot_product_efficient_attention = staticmethod(_scaled_dot_product_efficient_attention)
    _scaled_dot_product_efficient_attention_backward = staticmethod(
        _scaled_dot_product_efficient_attention_backward
    )
