"""Attention of torch: by its own kernel where it has one (`flash`), else from all weights.

Ordinary, tested code, like `kernels`; the kernels that call it are in `xg_kernels.shared`.
"""

from __future__ import annotations

import torch

from xg_kernels.shared import merging
from xg_kernels.torch.flash import d_flash, flash, flash_output, is_flash

Array = torch.Tensor


def attend(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    scale: float,
    mask: str,
    factor: float,
) -> tuple[Array, Array]:
    """Attention by torch's own where it has it: one query, the last, sees every key.

    If some weights are dropped, those that stay are multiplied by a factor.
    """
    mask = "none" if q.shape[-2] == 1 else mask
    if keep is None and is_flash(q, k, v, m, mask):
        y, lse = flash(q, k, v, None, scale, mask == "causal")
        return y, lse[..., None]
    weights, lse = weigh(q, k, m, scale, mask)
    if keep is not None:
        weights = weights * keep * factor
    return weights.to(v.dtype) @ v, lse


def output(q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str) -> Array:
    """The output of `attend`, without sums."""
    mask = "none" if q.shape[-2] == 1 else mask
    if is_flash(q, k, v, m, mask):
        return flash_output(q, k, v, scale, mask == "causal")
    weights, _ = weigh(q, k, m, scale, mask)
    return weights.to(v.dtype) @ v


def d_attend(
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
    """Gradient of attention, by torch's own where the forward pass was."""
    mask = "none" if q.shape[-2] == 1 else mask
    if keep is None and is_flash(q, k, v, m, mask):
        return d_flash(dy, q, k, v, None, y, lse, scale, mask == "causal")
    return d_weigh(dy, q, k, v, m, y, lse, keep, scale, mask, factor)


def attend_all(q: Array, k: Array, v: Array, scale: float) -> Array:
    """Attention of few queries, each of which sees every key."""
    return output(q, k, v, None, scale, "none")


def attend_band(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, behind: int, ahead: int
) -> tuple[Array, Array]:
    """Attention to a band of keys, in parts of 128 queries."""
    y = merging(q, v)
    lse = q.new_empty((*q.shape[:-1], 1), dtype=torch.promote_types(q.dtype, torch.float32))
    for rows, keys, seen in banded(q, k, m, behind, ahead):
        part = q[..., rows, :], k[..., keys, :], v[..., keys, :]
        if is_flash_of_band(q, k, v, m, behind, ahead):
            out, lse[..., rows, 0] = flash(*part, bias_of(seen, q), scale, causal=False)
        else:
            weights, lse[..., rows, :] = weigh(part[0], part[1], seen, scale, "none")
            out = weights.to(v.dtype) @ part[2]
        y[..., rows, :] = out
    return y, lse


def d_local_attention(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    behind: int,
    ahead: int,
) -> tuple[Array, Array, Array]:
    """Gradient of attention to a band of keys."""
    wide = torch.promote_types(k.dtype, torch.float32)  # many parts of queries see one key
    dq = merging(q, q)
    dk, dv = merging(k, k).to(wide).zero_(), merging(v, v).to(wide).zero_()
    for rows, keys, seen in banded(q, k, m, behind, ahead):
        part = q[..., rows, :], k[..., keys, :], v[..., keys, :]
        out, slope, sums = y[..., rows, :], dy[..., rows, :].to(q.dtype), lse[..., rows, :]
        if is_flash_of_band(q, k, v, m, behind, ahead):
            found = d_flash(slope, *part, bias_of(seen, q), out, sums, scale, causal=False)
        else:
            found = d_weigh(slope, *part, seen, out, sums, None, scale, "none", 1.0)
        dq[..., rows, :] = found[0]
        dk[..., keys, :] += found[1]
        dv[..., keys, :] += found[2]
    return dq, dk.to(k.dtype), dv.to(v.dtype)


def is_flash_of_band(
    q: Array, k: Array, v: Array, m: Array | None, behind: int, ahead: int
) -> bool:
    """Whether torch has attention to these bands: every query sees a key, on a CPU."""
    sees_itself = behind >= 0 and ahead >= 0 and q.shape[-2] <= k.shape[-2]
    return q.is_cpu and sees_itself and is_flash(q, k, v, m, "none")


def bias_of(seen: Array, q: Array) -> Array:
    """0 where a key is seen, else -∞, in the type of the queries."""
    return torch.zeros_like(seen, dtype=q.dtype).masked_fill(seen == 0, -torch.inf)


def banded(
    q: Array, k: Array, m: Array | None, behind: int, ahead: int
) -> list[tuple[slice, slice, Array]]:
    """Queries, the keys that some of them see, and which key each of them sees.

    Query i of S is at key i + S_k - S.
    """
    S, S_k = q.shape[-2], k.shape[-2]
    found: list[tuple[slice, slice, Array]] = []
    for start in range(0, S, 128):
        stop = min(S, start + 128)
        first = min(S_k, max(0, start + S_k - S - behind))
        end = max(first, min(S_k, stop + S_k - S + ahead))
        query = torch.arange(start, stop, device=q.device)[:, None] + (S_k - S)
        key = torch.arange(first, end, device=q.device)
        seen = (key >= query - behind) & (key <= query + ahead)
        if m is not None:
            seen = seen & (m[..., start:stop, first:end] != 0)
        found.append((slice(start, stop), slice(first, end), seen))
    return found


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
