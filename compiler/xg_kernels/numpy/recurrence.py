"""Kernels of NumPy for linear recurrences: one long loop, or short ones over pieces of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def recurrence(a: Array, b: Array, h: Array, reverse: bool) -> Array:
    """h_t = a_t ⊙ h_{t-1} + b_t for all t; if `reverse`, from the last one on."""
    states = np.empty(b.shape, b.dtype)
    turn = -1 if reverse else 1
    scan(a[::turn], b[::turn], h, states[::turn])
    return states


def d_recurrence(
    d_states: Array, d_last: Array, a: Array, states: Array, h: Array, reverse: bool
) -> tuple[Array, Array, Array]:
    """Gradient of a recurrence: one that runs the other way gives that of its summands."""
    if not len(a):
        return np.zeros_like(a), np.zeros_like(d_states), d_last
    turn = -1 if reverse else 1
    a, states, given = a[::turn], states[::turn], d_states[::turn]
    db = np.empty(given.shape, given.dtype)
    g = db[::turn]
    g[-1] = given[-1] + d_last
    scan(a[:0:-1], given[-2::-1], g[-1], g[-2::-1])
    da = np.empty(a.shape, a.dtype)
    shared = [n for n, size in enumerate(h.shape) if a.shape[n + 1] != size]
    if shared:
        letters = "abcdefghijkl"[: h.ndim]
        left = "".join([c for n, c in enumerate(letters) if n not in shared])
        spec = f"t{letters},t{letters}->t{left}"
        da[:1] = np.einsum(spec, g[:1], h[None]).reshape(1, *a.shape[1:])
        da[1:] = np.einsum(spec, g[1:], states[:-1]).reshape(-1, *a.shape[1:])
    else:
        np.multiply(g[0], h, out=da[0])
        np.multiply(g[1:], states[:-1], out=da[1:])
    return da[::turn], db, a[0] * g[0]


def scan(a: Array, b: Array, h: Array, states: Array) -> None:
    """Write the states of a recurrence, in the order of its arguments.

    Short states take their time in calls, not in numbers: so pieces of the whole run beside one
    another from 0 on, and each adds what the ones before have left, times the product of its
    factors. Where that product is no number, as of many large factors, one runs after the other.
    """
    size = int(len(b) ** 0.5)
    if h.size < 1024 and size > 3:
        count = len(b) // size
        end = count * size
        pieces = b[:end].reshape(count, size, *b.shape[1:])
        factors = a[:end].reshape(count, size, *a.shape[1:])
        inner, powers = np.empty(pieces.shape, b.dtype), np.empty(factors.shape, a.dtype)
        inner[:, 0], powers[:, 0] = pieces[:, 0], factors[:, 0]
        for i in range(1, size):
            np.multiply(factors[:, i], inner[:, i - 1], out=inner[:, i])
            inner[:, i] += pieces[:, i]
            with np.errstate(all="ignore"):
                np.multiply(factors[:, i], powers[:, i - 1], out=powers[:, i])
        if np.isfinite(powers[:, -1]).all():
            starts = np.empty((count, *h.shape), h.dtype)
            for j in range(count):
                starts[j] = h
                h = powers[j, -1] * h + inner[j, -1]
            powers = powers * starts[:, None]
            powers += inner
            states[:end] = powers.reshape(end, *h.shape)
            a, b, states = a[end:], b[end:], states[end:]
    for factor, summand, state in zip(a, b, states, strict=True):
        np.multiply(factor, h, out=state)
        state += summand
        h = state
