"""Kernels of torch for linear recurrences: one long loop, or short ones over pieces of it.

NumPy has a text of its own, without tracing and with steps written in place: torch can't index
backwards, and its `addcmul` is one call where NumPy needs two.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import torch

Array = torch.Tensor


def recurrence(a: Array, b: Array, h: Array, reverse: bool) -> Array:
    """h_t = a_t ⊙ h_{t-1} + b_t for all t; if `reverse`, from the last one on."""
    if len(b) == 1:
        return torch.addcmul(b, a, h)
    states = b.new_empty(b.shape)
    scan(a, b, h, states, reverse)
    return states


def d_recurrence(
    d_states: Array, d_last: Array, a: Array, states: Array, h: Array, reverse: bool
) -> tuple[Array, Array, Array]:
    """Gradient of a recurrence: one that runs the other way gives that of its summands."""
    if not len(a):
        return torch.zeros_like(a), torch.zeros_like(d_states), d_last
    first, last = (-1, 0) if reverse else (0, -1)
    now, past = (slice(None, -1), slice(1, None))[:: 1 if reverse else -1]
    db = d_states.new_empty(d_states.shape)
    db[last] = d_states[last] + d_last
    scan(a[now], d_states[past], db[last], db[past], not reverse)
    da = a.new_empty(a.shape)
    shared = [n for n, size in enumerate(h.shape) if a.shape[n + 1] != size]
    if shared:
        da[first] = (db[first] * h).sum(dim=shared, keepdim=True)
        da[now] = (db[now] * states[past]).sum(dim=[n + 1 for n in shared], keepdim=True)
    else:
        torch.mul(db[first], h, out=da[first])
        torch.mul(db[now], states[past], out=da[now])
    return da, db, a[first] * db[first]


def scan(a: Array, b: Array, h: Array, states: Array, reverse: bool) -> None:
    """Write the states of a recurrence.

    Short states take their time in calls, not in numbers: so pieces of the whole run beside one
    another from 0 on, and each adds what the ones before have left, times the product of its
    factors. Where that product is no number, as of many large factors, one runs after the other.
    """
    size = int(len(b) ** 0.5)
    if torch.compiler.is_compiling():
        rows: list[Array] = []
        for i in reversed(range(len(b))) if reverse else range(len(b)):
            h = torch.addcmul(b[i], a[i], h)
            rows.append(h)
        if rows:
            states.copy_(torch.stack(rows[::-1] if reverse else rows))
    elif h.numel() < 1024 and size > 3:
        if reverse:
            found = b.new_empty(b.shape)
            scan_in_pieces(a.flip(0), b.flip(0), h, found, size)
            states.copy_(found.flip(0))
        else:
            scan_in_pieces(a, b, h, states, size)
    else:
        turn = -1 if reverse else 1
        run(a.unbind()[::turn], b.unbind()[::turn], h, states.unbind()[::turn])


def scan_in_pieces(a: Array, b: Array, h: Array, states: Array, size: int) -> None:
    """Write the states of a recurrence of which several pieces run beside one another."""
    count = len(b) // size
    end = count * size
    pieces = b[:end].reshape(count, size, *b.shape[1:]).unbind(1)
    factors = a[:end].reshape(count, size, *a.shape[1:]).unbind(1)
    inner = b.new_empty((count, size, *b.shape[1:]))
    powers = a.new_empty((count, size, *a.shape[1:]))
    run(factors, pieces, torch.zeros_like(pieces[0]), inner.unbind(1))
    last = torch.ones((), dtype=a.dtype, device=a.device)
    for factor, power in zip(factors, powers.unbind(1), strict=True):
        torch.mul(factor, last, out=power)
        last = power
    if bool(last.isfinite().all()):
        starts = h.new_empty((count + 1, *h.shape))
        starts[0] = h
        run(last.unbind(), inner[:, -1].unbind(), h, starts[1:].unbind())
        found = torch.addcmul(inner, powers, starts[:-1, None])
        states[:end] = found.reshape(end, *h.shape)
        a, b, states, h = a[end:], b[end:], states[end:], starts[-1]
    run(a.unbind(), b.unbind(), h, states.unbind())


def run(
    factors: tuple[Array, ...], summands: tuple[Array, ...], h: Array, states: tuple[Array, ...]
) -> None:
    """Write one state after the other."""
    for factor, summand, state in zip(factors, summands, states, strict=True):
        torch.addcmul(summand, factor, h, out=state)
        h = state
