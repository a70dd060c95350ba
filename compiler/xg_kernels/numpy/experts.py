"""Kernels of NumPy for routed experts: each expert multiplies the rows that chose it.

A choice is a place in the numbers of experts, k of them for a row, counted as if they were one
axis. Everything that a choice has is kept at its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def with_gates(
    x: Array, p: Array, e: Array, w_in: Array, w_out: Array, form: str
) -> tuple[Array, Array]:
    """The sum over the experts of each row, and what the first matrices give."""
    choices, k = choices_by_expert(e, len(w_in)), e.shape[-1]
    g = products_of_choices(x.reshape(-1, x.shape[-1]), w_in, choices, k)
    h = activated(g, form)
    h *= p.reshape(-1, 1)
    y = sums_of_choices(h, w_out, choices, k)
    return y.reshape(x.shape), g.reshape(*e.shape, g.shape[-1])


def with_both(
    x: Array, p: Array, e: Array, w_in: Array, w_up: Array, w_out: Array, form: str
) -> tuple[Array, Array, Array]:
    """The sum over the experts of each row, and what the first two matrices give."""
    choices, k = choices_by_expert(e, len(w_in)), e.shape[-1]
    rows = x.reshape(-1, x.shape[-1])
    g = products_of_choices(rows, w_in, choices, k)
    u = products_of_choices(rows, w_up, choices, k)
    h = activated(g, form)
    h *= u
    h *= p.reshape(-1, 1)
    y = sums_of_choices(h, w_out, choices, k)
    return y.reshape(x.shape), g.reshape(*e.shape, g.shape[-1]), u.reshape(*e.shape, u.shape[-1])


def d_experts(
    dy: Array, x: Array, p: Array, e: Array, w_in: Array, w_out: Array, g: Array, form: str
) -> tuple[Array, Array, Array, Array]:
    """Gradient of routed experts: an expert has those of the rows that chose it."""
    choices, k = choices_by_expert(e, len(w_in)), e.shape[-1]
    rows, dy, shares = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1]), p.reshape(-1, 1)
    g = g.reshape(-1, g.shape[-1])
    h = activated(g, form)
    dh = products_of_choices(dy, w_out.swapaxes(1, 2), choices, k)
    dp = np.einsum("rf,rf->r", dh, h).reshape(p.shape)
    h *= shares
    dw_out = matrices_of_choices(dy, h, choices, k).swapaxes(1, 2)
    dh *= shares
    dh *= slope_of_activation(g, form)
    dx = sums_of_choices(dh, w_in.swapaxes(1, 2), choices, k)
    return dx.reshape(x.shape), dp, matrices_of_choices(rows, dh, choices, k), dw_out


def d_gated_experts(
    dy: Array,
    x: Array,
    p: Array,
    e: Array,
    w_in: Array,
    w_up: Array,
    w_out: Array,
    g: Array,
    u: Array,
    form: str,
) -> tuple[Array, Array, Array, Array, Array]:
    """Gradient of gated routed experts: an expert has those of the rows that chose it."""
    choices, k = choices_by_expert(e, len(w_in)), e.shape[-1]
    rows, dy, shares = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1]), p.reshape(-1, 1)
    g, u = g.reshape(-1, g.shape[-1]), u.reshape(-1, u.shape[-1])
    a = activated(g, form)
    dh = products_of_choices(dy, w_out.swapaxes(1, 2), choices, k)
    h = a * u
    dp = np.einsum("rf,rf->r", dh, h).reshape(p.shape)
    h *= shares
    dw_out = matrices_of_choices(dy, h, choices, k).swapaxes(1, 2)
    dh *= shares
    a *= dh  # the gradient of U
    dh *= u
    dh *= slope_of_activation(g, form)
    dx = sums_of_choices(dh, w_in.swapaxes(1, 2), choices, k)
    dx += sums_of_choices(a, w_up.swapaxes(1, 2), choices, k)
    dw_in = matrices_of_choices(rows, dh, choices, k)
    dw_up = matrices_of_choices(rows, a, choices, k)
    return dx.reshape(x.shape), dp, dw_in, dw_up, dw_out


# ---- products of the rows that chose an expert --------------------------------------------------


def choices_by_expert(e: Array, experts: int) -> list[Array]:
    """The choices that fell on each expert, in order."""
    flat = e.reshape(-1)
    ends = np.cumsum(np.bincount(flat, minlength=experts))
    return np.split(np.argsort(flat, kind="stable"), ends[:-1])


def products_of_choices(rows: Array, w: Array, choices: list[Array], k: int) -> Array:
    """The row of each choice times the matrix of its expert."""
    each = np.empty((k * len(rows), w.shape[2]), rows.dtype)
    for matrix, chosen in zip(w, choices, strict=True):
        each[chosen] = rows[chosen // k] @ matrix
    return each


def sums_of_choices(each: Array, w: Array, choices: list[Array], k: int) -> Array:
    """Each choice times the matrix of its expert, summed for its row."""
    given = np.empty((len(each), w.shape[2]), each.dtype)
    for matrix, chosen in zip(w, choices, strict=True):
        given[chosen] = each[chosen] @ matrix
    return given.reshape(-1, k, w.shape[2]).sum(axis=1)


def matrices_of_choices(rows: Array, each: Array, choices: list[Array], k: int) -> Array:
    """For each expert the sum of the rows that chose it, times what their choices have."""
    return np.stack([rows[chosen // k].T @ each[chosen] for chosen in choices])


# ---- activations --------------------------------------------------------------------------------


def activated(g: Array, form: str) -> Array:
    """SiLU, GELU by its tanh form, or ReLU."""
    if form == "relu":
        return np.maximum(g, 0)
    inner = g * (0.5 if form == "silu" else 0.7978845608028654 + 0.035677408136300125 * g * g)
    np.tanh(inner, out=inner)
    inner += 1
    inner *= g
    inner *= 0.5
    return inner


def slope_of_activation(g: Array, form: str) -> Array:
    """The derivative of the activation."""
    if form == "relu":
        return (g > 0).astype(g.dtype)
    square = g * g if form == "gelu" else 0
    top = np.tanh(
        g * (0.5 if form == "silu" else 0.7978845608028654 + 0.035677408136300125 * square)
    )
    inner = g * (0.5 if form == "silu" else 0.7978845608028654 + 0.10703222440890037 * square)
    return 0.5 * (1 + top) * (1 + inner * (1 - top))
