"""Kernels that NumPy and torch share: which attention a use asks for, and who asks for it.

Written once, in torch; `xg.codegen.numpy.dialect` says them in NumPy. How scores are computed
differs: NumPy has tiles that stay in the cache of a core, torch has kernels of its own. So each
backend has these functions in its `attention` and `experts`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from xg.codegen.emit.array_ops import only_in_modules

Array = torch.Tensor
Seed = int | torch.Tensor | None

# What each backend has.
attend: Callable[..., tuple[Array, Array]] = only_in_modules
attend_all: Callable[..., Array] = only_in_modules
attend_band: Callable[..., tuple[Array, Array]] = only_in_modules
d_attend: Callable[..., tuple[Array, Array, Array]] = only_in_modules
keep_mask: Callable[..., Array | None] = only_in_modules
keep_part: Callable[..., Array | None] = only_in_modules
output: Callable[..., Array] = only_in_modules
with_both: Callable[..., tuple[Array, Array, Array]] = only_in_modules
with_gates: Callable[..., tuple[Array, Array]] = only_in_modules


# ---- attention ----------------------------------------------------------------------------------


def attention(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str
) -> tuple[Array, Array]:
    """``softmax(α Q K⊤ + M) V``, and log Σ exp of each row of scores."""
    return attend(q, k, v, m, None, scale, mask, 1.0)


def attention_output(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str
) -> Array:
    """``softmax(α Q K⊤ + M) V`` alone."""
    return output(q, k, v, m, scale, mask)


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
    return d_attend(dy, q, k, v, m, y, lse, None, scale, mask, 1.0)


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
    factor = 1 / (1 - p) if keep is not None and scaling == "scaled" else 1.0
    y, lse = attend(q, k, v, m, keep, scale, mask, factor)
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
    cuts: list[tuple[int, tuple[int, ...], int]],
) -> tuple[Array, Array, Array | None]:
    """Attention with dropout on a rank, whose weights are the part that `cuts` say."""
    keep = None if seed is None else keep_part(pairs(q, k), p, seed, place, cuts)
    factor = 1 / (1 - p) if keep is not None and scaling == "scaled" else 1.0
    y, lse = attend(q, k, v, m, keep, scale, mask, factor)
    return y, lse, keep


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
    factor = 1 / (1 - p) if keep is not None and scaling == "scaled" else 1.0
    return d_attend(dy, q, k, v, m, y, lse, keep, scale, mask, factor)


def pairs(q: Array, k: Array) -> Array:
    """Something of the shape of all weights, without memory."""
    return torch.broadcast_to(q[..., :1], (*q.shape[:-1], k.shape[-2]))


# ---- attention to a band of keys, and of grouped heads ------------------------------------------


def local_attention(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, behind: int, ahead: int
) -> tuple[Array, Array]:
    """Attention of each query to the keys from `behind` positions before it to `ahead` after."""
    return attend_band(q, k, v, m, scale, behind, ahead)


def local_attention_output(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, behind: int, ahead: int
) -> Array:
    """Attention to a band of keys alone; one query that sees some sees all of these."""
    S_k = k.shape[-2]
    if m is None and q.shape[-2] == 1 <= S_k and behind >= 0 <= ahead:
        first = max(0, S_k - 1 - behind)
        return attend_all(q, k[..., first:, :], v[..., first:, :], scale)
    return attend_band(q, k, v, m, scale, behind, ahead)[0]


def grouped_attention_output(q: Array, k: Array, v: Array, scale: float, mask: str) -> Array:
    """Attention whose query heads share heads of keys and values, alone.

    Of one position a group's heads are queries of one head, each of which sees all.
    """
    groups = q.shape[-3] // k.shape[-3]
    if q.shape[-2] == 1 <= k.shape[-2]:
        return attend_groups(q, k, v, scale)
    return output(q, for_groups(k, groups), for_groups(v, groups), None, scale, mask)


def grouped_local_attention_output(
    q: Array, k: Array, v: Array, scale: float, behind: int, ahead: int
) -> Array:
    """The same with a band of keys, of which one position, the last, sees the last ones."""
    S_k = k.shape[-2]
    if q.shape[-2] == 1 <= S_k and behind >= 0 <= ahead:
        first = max(0, S_k - 1 - behind)
        return attend_groups(q, k[..., first:, :], v[..., first:, :], scale)
    groups = q.shape[-3] // k.shape[-3]
    k, v = for_groups(k, groups), for_groups(v, groups)
    return attend_band(q, k, v, None, scale, behind, ahead)[0]


def attend_groups(q: Array, k: Array, v: Array, scale: float) -> Array:
    """Attention of one position to all keys: a group's heads are queries of one head."""
    rows = q.reshape(*k.shape[:-2], q.shape[-3] // k.shape[-3], q.shape[-1])
    return attend_all(rows, k, v, scale).reshape(*q.shape[:-1], v.shape[-1])


def for_groups(x: Array, groups: int) -> Array:
    """Each head of keys or values, once for each of its heads of queries."""
    *leading, heads, S, width = x.shape
    every = torch.broadcast_to(x[..., None, :, :], (*leading, heads, groups, S, width))
    return every.reshape(*leading, heads * groups, S, width)


def merging(rows: Array, columns: Array) -> Array:
    """An empty [.., N, S, D_h], in memory [.., S, N, D_h] as merged heads are."""
    D_h = columns.shape[-1]
    if rows.ndim == 2:
        return torch.empty((rows.shape[0], D_h), dtype=columns.dtype, device=rows.device)
    *leading, N, S, _ = rows.shape
    shape = (*leading, S, N, D_h)
    return torch.empty(shape, dtype=columns.dtype, device=rows.device).swapaxes(-2, -3)


# ---- routed experts -----------------------------------------------------------------------------


def experts(
    x: Array, p: Array, e: Array, w_in: Array, w_out: Array, form: str
) -> tuple[Array, Array]:
    """Y = Σ_j p_j W_out[e_j] act(W_in[e_j] x); what the first matrices give too."""
    return with_gates(x, p, e, w_in, w_out, form)


def experts_output(x: Array, p: Array, e: Array, w_in: Array, w_out: Array, form: str) -> Array:
    """Y = Σ_j p_j W_out[e_j] act(W_in[e_j] x) alone."""
    return with_gates(x, p, e, w_in, w_out, form)[0]


def gated_experts(
    x: Array, p: Array, e: Array, w_in: Array, w_up: Array, w_out: Array, form: str
) -> tuple[Array, Array, Array]:
    """Y = Σ_j p_j W_out[e_j] (act(W_in[e_j] x) ⊙ W_up[e_j] x); what these two give too."""
    return with_both(x, p, e, w_in, w_up, w_out, form)


def gated_experts_output(
    x: Array, p: Array, e: Array, w_in: Array, w_up: Array, w_out: Array, form: str
) -> Array:
    """Y = Σ_j p_j W_out[e_j] (act(W_in[e_j] x) ⊙ W_up[e_j] x) alone."""
    return with_both(x, p, e, w_in, w_up, w_out, form)[0]
