"""Kernels of torch for attention: flash attention where torch has it, else all weights.

Ordinary, tested code, like `kernels`.
"""

from __future__ import annotations

import torch

from xg.codegen.torch.support import keep_mask, keep_part

Array = torch.Tensor
Seed = int | torch.Tensor | None


def attention(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str
) -> tuple[Array, Array]:
    """``softmax(α Q K⊤ + M) V`` and log Σ exp of each row of scores."""
    return attend(q, k, v, m, scale, mask)


def attend(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str
) -> tuple[Array, Array]:
    """Attention by torch's own where it has it."""
    if is_flash(q, k, v, m, mask):
        y, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            whole(q), whole(k), whole(v), 0.0, mask == "causal", scale=scale
        )
        return y, lse[..., None]
    weights, lse = weigh(q, k, m, scale, mask)
    return weights.to(v.dtype) @ v, lse


def d_attention(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    mask: str,
) -> tuple[Array, Array, Array]:
    """Gradient of attention."""
    return d_attend(dy, q, k, v, m, y, lse, scale, mask)


def d_attend(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    mask: str,
) -> tuple[Array, Array, Array]:
    """Gradient of attention, by torch's own where the forward pass was."""
    if is_flash(q, k, v, m, mask):
        rows = lse.squeeze(-1)
        _, heads, length = rows.shape
        if rows.stride() != (length * heads, 1, heads):
            rows = rows.mT.contiguous().mT  # torch reads it so, whatever its strides
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            whole(dy.to(q.dtype)),
            whole(q),
            whole(k),
            whole(v),
            whole(y),
            rows,
            0.0,
            mask == "causal",
            scale=scale,
        )
    return d_weigh(dy, q, k, v, m, y, lse, None, scale, mask, 1.0)


def attention_with_dropout(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    scale: float,
    p: float,
    mask: str,
    scaling: str,
    seed: Seed,
    place: str,
) -> tuple[Array, Array, Array | None]:
    """Attention whose weights are dropped with probability p, and the mask of that."""
    keep = None if seed is None else keep_mask(pairs(q, k), p, seed, place)
    y, lse = attend_kept(q, k, v, m, keep, scale, p, mask, scaling)
    return y, lse, keep


def attention_with_part_of_dropout(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    scale: float,
    p: float,
    mask: str,
    scaling: str,
    seed: Seed,
    place: str,
    cuts: list[tuple[int, int, int]],
) -> tuple[Array, Array, Array | None]:
    """Attention with dropout on a rank, whose weights are the part that `cuts` say."""
    keep = None if seed is None else keep_part(pairs(q, k), p, seed, place, cuts)
    y, lse = attend_kept(q, k, v, m, keep, scale, p, mask, scaling)
    return y, lse, keep


def attend_kept(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    scale: float,
    p: float,
    mask: str,
    scaling: str,
) -> tuple[Array, Array]:
    """Attention with the weights that stay; with all of them if `keep` is None."""
    if keep is None:
        return attend(q, k, v, m, scale, mask)
    weights, lse = weigh(q, k, m, scale, mask)
    factor = 1 / (1 - p) if scaling == "scaled" else 1.0
    return (weights * keep * factor).to(v.dtype) @ v, lse


def d_attention_with_dropout(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    keep: Array | None,
    scale: float,
    p: float,
    mask: str,
    scaling: str,
) -> tuple[Array, Array, Array]:
    """Gradient of attention with the same weights dropped."""
    if keep is None:
        return d_attend(dy, q, k, v, m, y, lse, scale, mask)
    factor = 1 / (1 - p) if scaling == "scaled" else 1.0
    return d_weigh(dy, q, k, v, m, y, lse, keep, scale, mask, factor)


def is_flash(q: Array, k: Array, v: Array, m: Array | None, mask: str) -> bool:
    """Whether torch has this attention: no mask but a square causal one, on a CPU."""
    if m is not None or q.ndim != 4 or q.device.type != "cpu":
        return False
    if q.shape[-1] != v.shape[-1]:
        return False
    return mask == "none" or q.shape[-2] == k.shape[-2]


def pairs(q: Array, k: Array) -> Array:
    """Something of the shape of all weights, without memory."""
    return q[..., :1].expand(*q.shape[:-1], k.shape[-2])


def whole(x: Array) -> Array:
    """`x` with the numbers of a row beside each other."""
    return x if x.stride(-1) == 1 else x.contiguous()


def weigh(
    q: Array,
    k: Array,
    m: Array | None,
    scale: float,
    mask: str,
) -> tuple[Array, Array]:
    """Weights of all pairs, and log Σ exp of each row of scores, 0 of an empty one."""
    z = scores(q, k, m, scale, mask)
    lse = torch.logsumexp(z, -1, keepdim=True)
    lse = lse.masked_fill(lse == -torch.inf, 0)
    return z.sub_(lse).exp_(), lse


def d_weigh(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    keep: Array | None,
    scale: float,
    mask: str,
    factor: float,
) -> tuple[Array, Array, Array]:
    """Gradient of attention from the weights of all pairs, computed again."""
    weights = scores(q, k, m, scale, mask).sub_(lse).exp_()
    dz = (dy @ v.mT).to(weights.dtype)
    kept = weights
    if keep is not None:
        kept = weights * keep * factor
        dz = dz * keep * factor
    dz = dz.sub_((dy * y).sum(dim=-1, keepdim=True)).mul_(weights).mul_(scale)
    dz = dz.to(q.dtype)
    return dz @ k, dz.mT @ q, kept.to(dy.dtype).mT @ dy


def scores(q: Array, k: Array, m: Array | None, scale: float, mask: str) -> Array:
    """α Q K⊤ + M in float32 at least: query i of S sees the keys up to i + S_k - S."""
    z = q @ k.mT
    z = z.to(torch.promote_types(z.dtype, torch.float32)).mul_(scale)
    if m is not None:
        z = z.masked_fill(m == 0, -torch.inf)
    if mask == "causal":
        S, S_k = z.shape[-2:]
        last = torch.arange(S, device=z.device)[:, None] + (S_k - S)
        z = z.masked_fill(torch.arange(S_k, device=z.device) > last, -torch.inf)
    return z
