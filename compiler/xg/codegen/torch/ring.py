"""Attention of torch in which keys and values go round a ring of ranks.

Ordinary, tested code, like `kernels`. Of each row of scores a rank keeps the largest, the sum of
exponentials and the sum of values that these weigh: (m, l, O). Two such are merged by the larger m,
so parts may be met in any order.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from xg.codegen.emit.under_way import Handle, only_in_modules
from xg.codegen.torch.support import keep_part

Array = torch.Tensor
Seed = int | torch.Tensor | None

# A module imports these from `xg_runtime.ranks`.
mesh_places: Callable[[tuple[int, str]], list[tuple[int, int, int]]] = only_in_modules
start_shift: Callable[[Array, str], Handle[Array]] = only_in_modules


def ring_attention(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str, around: str
) -> tuple[Array, Array]:
    """``softmax(α Q K⊤ + M) V`` of this rank's queries, and log Σ exp of each row of scores."""
    return attend_around(q, k, v, m, None, scale, mask, around)


def d_ring_attention(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    mask: str,
    around: str,
) -> tuple[Array, Array, Array]:
    """Gradient of ring attention."""
    return d_attend_around(dy, q, k, v, m, None, y, lse, scale, mask, 1.0, around)


def ring_attention_with_dropout(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    scale: float,
    p: float,
    mask: str,
    scaling: str,
    around: str,
    seed: Seed,
    place: str,
    cuts: list[tuple[int, int, int]],
) -> tuple[Array, Array, Array | None]:
    """Ring attention whose weights are dropped with probability p, and the mask of that."""
    [(_, _, ranks)] = mesh_places((-2, around))
    whole = q[..., :1].expand(*q.shape[:-1], k.shape[-2] * ranks)
    keep = keep_part(whole, p, seed, place, cuts)
    y, lse = attend_around(q, k, v, m, keep, scale, mask, around)
    if keep is not None and scaling == "scaled":
        y = y * (1 / (1 - p))
    return y, lse, keep


def d_ring_attention_with_dropout(
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
    around: str,
) -> tuple[Array, Array, Array]:
    """Gradient of ring attention with the same weights dropped."""
    factor = 1 / (1 - p) if keep is not None and scaling == "scaled" else 1.0
    return d_attend_around(dy, q, k, v, m, keep, y, lse, scale, mask, factor, around)


def attend_around(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    scale: float,
    mask: str,
    around: str,
) -> tuple[Array, Array]:
    """Attention to one part of keys and values after the other; each goes on as it is met."""
    [(_, here, ranks)] = mesh_places((-2, around))
    wide = torch.promote_types(q.dtype, torch.float32)
    y = q.new_zeros((*q.shape[:-1], v.shape[-1]), dtype=wide)
    total = q.new_zeros((*q.shape[:-1], 1), dtype=wide)
    peak = torch.full_like(total, -torch.inf)
    coming: list[Handle[Array]] = []
    for turn in range(ranks):
        if turn < ranks - 1:
            coming = [start_shift(k, around), start_shift(v, around)]
        source = (here - turn) % ranks
        z = scores_of_part(q, k, m, scale, mask, here, source, ranks)
        if z is not None:
            higher = torch.maximum(peak, z.amax(-1, keepdim=True))
            safe = higher.masked_fill(higher == -torch.inf, 0)
            e, fade = torch.exp(z - safe), torch.exp(peak - safe)
            total = total * fade + e.sum(dim=-1, keepdim=True)
            y = y * fade + kept_of_part(e, keep, source).to(v.dtype) @ v
            peak = higher
        if turn < ranks - 1:
            k, v = coming[0].wait(), coming[1].wait()
    some = total.masked_fill(total == 0, 1)
    return (y / some).to(v.dtype), peak.masked_fill(peak == -torch.inf, 0) + torch.log(some)


def d_attend_around(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    mask: str,
    factor: float,
    around: str,
) -> tuple[Array, Array, Array]:
    """The gradients of keys and values travel along; a rank's own part is its last."""
    [(_, here, ranks)] = mesh_places((-2, around))
    delta = (dy * y).sum(dim=-1, keepdim=True)
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    coming = [start_shift(k, around), start_shift(v, around)]
    sums: list[Handle[Array]] = []
    for turn in range(1, ranks + 1):
        arrived = [each.wait() for each in coming] if turn < ranks else [k, v]
        keys, values = arrived[0], arrived[1]
        if turn < ranks - 1:
            coming = [start_shift(keys, around), start_shift(values, around)]
        if turn > 1:
            sums = [start_shift(dk, around), start_shift(dv, around)]
        source = (here - turn) % ranks
        z = scores_of_part(q, keys, m, scale, mask, here, source, ranks)
        if turn > 1:
            dk, dv = sums[0].wait(), sums[1].wait()
        if z is not None:
            weights = torch.exp(z - lse)
            dz = kept_of_part((dy @ values.mT).to(weights.dtype), keep, source) * factor
            dz = ((dz - delta) * weights * scale).to(q.dtype)
            dq = dq + dz @ keys
            dk = dk + dz.mT @ q
            dv = dv + (kept_of_part(weights, keep, source) * factor).to(dy.dtype).mT @ dy
    return dq, dk, dv


def scores_of_part(
    q: Array,
    k: Array,
    m: Array | None,
    scale: float,
    mask: str,
    here: int,
    source: int,
    ranks: int,
) -> Array | None:
    """Scores of this rank's queries and the keys of another; None where all are hidden."""
    S, S_k = q.shape[-2], k.shape[-2]
    first = here * S + (S_k - S) * ranks - source * S_k  # the last of its keys that query 0 sees
    if mask == "causal" and first + S <= 0:
        return None
    z = q @ k.mT
    z = z.to(torch.promote_types(z.dtype, torch.float32)).mul_(scale)
    if m is not None:
        z = z.masked_fill(m[..., source * S_k : (source + 1) * S_k] == 0, -torch.inf)
    if mask == "causal":
        last = torch.arange(first, first + S, device=z.device)[:, None]
        z = z.masked_fill(torch.arange(S_k, device=z.device) > last, -torch.inf)
    return z


def kept_of_part(x: Array, keep: Array | None, source: int) -> Array:
    """The weights for the keys of a rank that dropout keeps."""
    S_k = x.shape[-1]
    return x if keep is None else x * keep[..., source * S_k : (source + 1) * S_k]
