"""Kernels of torch for attention around a ring: by its own kernel for each part, where it has one.

Ordinary, tested code, like `kernels`. The kernel of `flash` gives the weighed mean of a part's
values and log Σ exp of its scores; two such are merged by their sums. No scores are kept.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from xg.codegen.emit.array_ops import Handle, only_in_modules
from xg.codegen.emit.ring import apart, attend_around, chunks_of, d_attend_around, halves, in_one
from xg.codegen.torch.support import keep_part
from xg_kernels.torch.flash import d_flash, flash, is_flash

Array = torch.Tensor
Seed = int | torch.Tensor | None

# A module imports these from `xg_runtime.ranks`.
mesh_places: Callable[[tuple[int, str]], list[tuple[int, tuple[int, ...], int]]] = only_in_modules
start_shift: Callable[..., Handle[Array]] = only_in_modules


def attention_around(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str, around: str
) -> tuple[Array, Array]:
    """``softmax(α Q K⊤ + M) V`` of this rank's queries, and log Σ exp of each row."""
    return attend_in_parts(q, k, v, m, None, scale, mask, around)


def d_attention_around(
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
    """Gradient of attention around a ring."""
    return d_attend_in_parts(dy, q, k, v, m, None, y, lse, scale, mask, 1.0, around)


def attention_around_with_dropout(
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
    cuts: list[tuple[int, tuple[int, ...], int]],
) -> tuple[Array, Array, Array | None]:
    """Attention around, weights dropped with probability p; and the mask of that."""
    [(_, mine, chunks)] = mesh_places((-2, around))
    keys = k.shape[-2] // len(mine) * chunks
    whole = torch.broadcast_to(q[..., :1], (*q.shape[:-1], keys))
    keep = None if seed is None else keep_part(whole, p, seed, place, cuts)
    y, lse = attend_in_parts(q, k, v, m, keep, scale, mask, around)
    if keep is not None and scaling == "scaled":
        y = y * (1 / (1 - p))
    return y, lse, keep


def d_attention_around_with_dropout(
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
    """Gradient of attention around a ring with the same weights dropped."""
    factor = 1 / (1 - p) if keep is not None and scaling == "scaled" else 1.0
    return d_attend_in_parts(dy, q, k, v, m, keep, y, lse, scale, mask, factor, around)


def attend_in_parts(
    q: Array,
    k: Array,
    v: Array,
    m: Array | None,
    keep: Array | None,
    scale: float,
    mask: str,
    around: str,
) -> tuple[Array, Array]:
    """Attention around by torch's own, or from the scores of each part."""
    if is_flash_around(q, k, v, m, keep, mask):
        return flash_around(q, k, v, scale, mask, around)
    return attend_around(q, k, v, m, keep, scale, mask, around)


def d_attend_in_parts(
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
    """The gradient by torch's own where the forward pass was."""
    if is_flash_around(q, k, v, m, keep, mask):
        return d_flash_around(dy, q, k, v, y, lse, scale, mask, around)
    return d_attend_around(dy, q, k, v, m, keep, y, lse, scale, mask, factor, around)


def is_flash_around(
    q: Array, k: Array, v: Array, m: Array | None, keep: Array | None, mask: str
) -> bool:
    """Whether torch has the attention of each part: equal chunks, nothing dropped."""
    return keep is None and q.shape[-2] == k.shape[-2] and is_flash(q, k, v, m, mask)


def flash_around(
    q: Array, k: Array, v: Array, scale: float, mask: str, around: str
) -> tuple[Array, Array]:
    """Attention to a rank's own keys and values, then to one part after the other."""
    [(_, mine, chunks)] = mesh_places((-2, around))
    parts, ranks = len(mine), chunks // len(mine)
    y = lse = q
    message = in_one(k, v)
    for turn in range(ranks):
        more = turn < ranks - 1
        coming = start_shift(message, around, donate=True) if more else None
        theirs = chunks_of((mine[0] - turn) % ranks, parts, chunks)
        seen = seen_of_part(mine, theirs, mask, q.shape[-2])
        if seen is not None:
            rows, columns, causal = seen
            part = q[..., rows, :], k[..., columns, :], v[..., columns, :]
            found, sums = flash(*part, None, scale, causal)
            if turn == 0:
                y, lse = found.to(sums.dtype), sums
            else:
                share = torch.sigmoid(sums - lse[..., rows])[..., None]
                y[..., rows, :] += share * (found - y[..., rows, :])
                lse[..., rows] = torch.logaddexp(lse[..., rows], sums)
        if coming is not None:
            message = coming.wait()
            k, v = apart(message, k, v)
    return y.to(v.dtype), lse[..., None]


def d_flash_around(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    y: Array,
    lse: Array,
    scale: float,
    mask: str,
    around: str,
) -> tuple[Array, Array, Array]:
    """The gradients of keys and values travel along; a rank's own part is its last."""
    [(_, mine, chunks)] = mesh_places((-2, around))
    parts, ranks = len(mine), chunks // len(mine)
    message = in_one(k, v)
    dq, sums = torch.zeros_like(q), torch.zeros_like(message)
    coming = start_shift(message, around, donate=True) if ranks > 1 else None
    for turn in range(1, ranks + 1):
        arrived = k, v
        if coming is not None:
            message = coming.wait()
            arrived = apart(message, k, v)
            more = turn < ranks - 1
            coming = start_shift(message, around, donate=True) if more else None
            del message  # the last one is not held while the rank meets its own
        going = start_shift(sums, around, donate=True) if turn > 1 else None
        theirs = chunks_of((mine[0] - turn) % ranks, parts, chunks)
        terms = d_flash_of_part(dy, q, *arrived, y, lse, scale, mask, mine, theirs)
        sums = sums if going is None else going.wait()
        wholes = dq, *halves(sums, k, v)
        for whole, (part, term) in zip(wholes, terms, strict=False):  # or none
            whole[..., part, :] += term
    return dq, *apart(sums, k, v)


def d_flash_of_part(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    y: Array,
    lse: Array,
    scale: float,
    mask: str,
    mine: tuple[int, ...],
    theirs: tuple[int, ...],
) -> list[tuple[slice, Array]]:
    """The terms of dQ, dK and dV from keys of a rank, each with the rows it is for."""
    seen = seen_of_part(mine, theirs, mask, q.shape[-2])
    if seen is None:
        return []
    rows, columns, causal = seen
    part = dy[..., rows, :], q[..., rows, :], k[..., columns, :], v[..., columns, :]
    found = d_flash(*part, None, y[..., rows, :], lse[..., rows, :], scale, causal)
    return list(zip((rows, columns, columns), found, strict=True))


def seen_of_part(
    mine: tuple[int, ...], theirs: tuple[int, ...], mask: str, length: int
) -> tuple[slice, slice, bool] | None:
    """The queries of a rank that see keys of another, which, and whether causally.

    In zigzag all see the first chunk of a rank before, and those of the second chunk
    see all of a rank behind. None where a mask hides everything.
    """
    every, middle = slice(0, length), length // 2
    if mask == "none" or theirs == mine:
        return every, every, mask == "causal"
    if theirs[0] < mine[0]:
        return every, slice(0, length // len(theirs)), False
    return (slice(middle, length), every, False) if len(mine) == 2 else None
