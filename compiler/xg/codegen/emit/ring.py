"""Attention in which keys and values go round a ring of ranks, for NumPy and torch.

Written once, in torch; `xg.codegen.numpy.dialect` says it in NumPy. Of each row of scores a rank
keeps the largest, the sum of exponentials and the sum of values that these weigh: (m, l, O). Two
such are merged by the larger m, so parts may be met in any order.

Where ranks share the sequence in zigzag, a rank has two chunks of queries, and meets two of keys;
those that a causal mask hides from each other are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from xg.codegen.emit.array_ops import Handle, only_in_modules

Array = torch.Tensor
Seed = int | torch.Tensor | None

# A module imports these from `xg_runtime.ranks`, and has `keep_part` of its backend.
mesh_places: Callable[[tuple[int, str]], list[tuple[int, tuple[int, ...], int]]] = only_in_modules
start_shift: Callable[..., Handle[Array]] = only_in_modules
keep_part: Callable[..., Array | None] = only_in_modules


def ring_attention(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str, around: str
) -> tuple[Array, Array]:
    """``softmax(α Q K⊤ + M) V`` of this rank's queries, and log Σ exp of each row."""
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
    cuts: list[tuple[int, tuple[int, ...], int]],
) -> tuple[Array, Array, Array | None]:
    """Ring attention, weights dropped with probability p; and the mask of that."""
    [(_, mine, chunks)] = mesh_places((-2, around))
    keys = k.shape[-2] // len(mine) * chunks
    pairs = torch.broadcast_to(q[..., :1], (*q.shape[:-1], keys))
    keep = keep_part(pairs, p, seed, place, cuts)
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
    """Attention to one part of keys and values after the other; each goes on."""
    [(_, mine, chunks)] = mesh_places((-2, around))
    parts, ranks = len(mine), chunks // len(mine)
    masks = some_rows(m, parts), some_rows(keep, parts)
    rows = list(zip(mine, rows_of(q, parts), *masks, strict=True))
    found = [nothing_found(own, v) for _, own, _, _ in rows]
    message = in_one(k, v)
    for turn in range(ranks):
        more = turn < ranks - 1
        coming = start_shift(message, around, donate=True) if more else None
        theirs = chunks_of((mine[0] - turn) % ranks, parts, chunks)
        met = list(zip(theirs, rows_of(k, parts), rows_of(v, parts), strict=True))
        for place, (here, own, shown, kept) in enumerate(rows):
            for source, keys, values in met:
                z = scores_of_part(own, keys, shown, scale, mask, here, source, chunks)
                if z is not None:
                    found[place] = merged(found[place], z, kept, values, source)
        if coming is not None:
            message = coming.wait()
            k, v = apart(message, k, v)
    ended = [weighed(*each) for each in found]
    y = joined([y for y, _ in ended]).to(v.dtype)
    return y, joined([lse for _, lse in ended])


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
    [(_, mine, chunks)] = mesh_places((-2, around))
    parts, ranks = len(mine), chunks // len(mine)
    delta = (dy * y).sum(dim=-1, keepdim=True)
    own = [rows_of(x, parts) for x in (q, dy, lse, delta)]
    masks = some_rows(m, parts), some_rows(keep, parts)
    rows = list(zip(mine, *own, *masks, strict=True))
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
        terms = d_part(rows, arrived, theirs, scale, mask, factor, chunks)
        sums = sums if going is None else going.wait()
        wholes = dq, *halves(sums, k, v)
        for whole, term in zip(wholes, terms, strict=True):
            whole += term
    return dq, *apart(sums, k, v)


def in_one(k: Array, v: Array) -> Array:
    """Keys and values as one message, of the wider type if theirs differ."""
    return torch.cat([k.reshape(-1), v.reshape(-1)])


def halves(message: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """The two parts of a message, in the shapes of these."""
    return message[: k.numel()].reshape(k.shape), message[k.numel() :].reshape(v.shape)


def apart(message: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """The two parts of a message, in the shapes and types of these."""
    first, second = halves(message, k, v)
    return first.to(k.dtype), second.to(v.dtype)


def d_part(
    rows: list[tuple[int, Array, Array, Array, Array, Array | None, Array | None]],
    arrived: tuple[Array, Array],
    theirs: tuple[int, ...],
    scale: float,
    mask: str,
    factor: float,
    chunks: int,
) -> tuple[Array, Array, Array]:
    """The terms of all gradients from this rank's queries and the keys of another."""
    each = [rows_of(x, len(theirs)) for x in arrived]
    met = list(zip(theirs, *each, strict=True))
    dq = [torch.zeros_like(q) for _, q, *_ in rows]
    dk = [torch.zeros_like(k) for _, k, _ in met]
    dv = [torch.zeros_like(v) for *_, v in met]
    for place, (here, q, dy, lse, delta, shown, kept) in enumerate(rows):
        for other, (source, k, v) in enumerate(met):
            z = scores_of_part(q, k, shown, scale, mask, here, source, chunks)
            if z is not None:
                weights = torch.exp(z - lse)
                dz = (dy @ v.mT).to(weights.dtype)
                dz = kept_of_part(dz, kept, source) * factor - delta
                dz = (dz * weights * scale).to(q.dtype)
                dq[place] += dz @ k
                dk[other] += dz.mT @ q
                weights = kept_of_part(weights, kept, source) * factor
                dv[other] += weights.to(dy.dtype).mT @ dy
    return joined(dq), joined(dk), joined(dv)


def nothing_found(q: Array, v: Array) -> tuple[Array, Array, Array]:
    """The state of queries that have met no key."""
    wide = torch.promote_types(q.dtype, torch.float32)
    total = torch.zeros((*q.shape[:-1], 1), dtype=wide, device=q.device)
    y = torch.zeros((*q.shape[:-1], v.shape[-1]), dtype=wide, device=q.device)
    return y, total, torch.full_like(total, -torch.inf)


def merged(
    found: tuple[Array, Array, Array],
    z: Array,
    keep: Array | None,
    values: Array,
    source: int,
) -> tuple[Array, Array, Array]:
    """The state with one more chunk of keys, of which these are the scores."""
    y, total, peak = found
    higher = torch.maximum(peak, z.amax(-1, keepdim=True))
    safe = torch.where(higher == -torch.inf, 0, higher)
    e, fade = torch.exp(z - safe), torch.exp(peak - safe)
    total = total * fade + e.sum(dim=-1, keepdim=True)
    y = y * fade + kept_of_part(e, keep, source).to(values.dtype) @ values
    return y, total, higher


def weighed(y: Array, total: Array, peak: Array) -> tuple[Array, Array]:
    """The weighed mean of all values, and the logarithm of the sum of weights."""
    some = torch.where(total == 0, 1, total)
    return y / some, torch.where(peak == -torch.inf, 0, peak) + torch.log(some)


def chunks_of(rank: int, parts: int, chunks: int) -> tuple[int, ...]:
    """The chunks of a rank: one, or in zigzag another too, as far from the end."""
    return (rank, chunks - 1 - rank)[:parts]


def rows_of(x: Array, parts: int) -> list[Array]:
    """An array's rows for each chunk; all of it where one row is for all."""
    if x.ndim < 2 or x.shape[-2] == 1:
        return [x] * parts
    n = x.shape[-2] // parts
    return [x[..., place * n : (place + 1) * n, :] for place in range(parts)]


def some_rows(x: Array | None, parts: int) -> list[Array | None]:
    """The same of what may be absent."""
    return [None] * parts if x is None else [*rows_of(x, parts)]


def joined(parts: list[Array]) -> Array:
    """The rows of all chunks, one after the other."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, -2)


def scores_of_part(
    q: Array,
    k: Array,
    m: Array | None,
    scale: float,
    mask: str,
    here: int,
    source: int,
    chunks: int,
) -> Array | None:
    """Scores of a chunk's queries and another's keys; None where all are hidden."""
    S, S_k = q.shape[-2], k.shape[-2]
    # The last of these keys that query 0 sees.
    first = here * S + (S_k - S) * chunks - source * S_k
    if mask == "causal" and first + S <= 0:
        return None
    z = (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32))
    z *= scale
    if m is not None:
        hidden = m[..., source * S_k : (source + 1) * S_k] == 0
        z = torch.where(hidden, -torch.inf, z)
    if mask == "causal":
        last = torch.arange(first, first + S, device=z.device)[:, None]
        z = torch.where(torch.arange(S_k, device=z.device) > last, -torch.inf, z)
    return z


def kept_of_part(x: Array, keep: Array | None, source: int) -> Array:
    """The weights for the keys of a chunk that dropout keeps."""
    S_k = x.shape[-1]
    return x if keep is None else x * keep[..., source * S_k : (source + 1) * S_k]
