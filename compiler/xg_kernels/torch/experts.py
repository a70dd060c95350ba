"""Kernels of torch for routed experts: each expert multiplies the rows that chose it.

A choice is a place in the numbers of experts, k of them for a row. In between choices are in the
order of their experts, so that each of these has its own one after the other. `torch.compile` knows
no sizes that depend on numbers: under it nothing is in order, and each expert multiplies all rows.
So this is no text for NumPy, which knows no tracing; what both share is in `xg_kernels.shared`.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import torch

from xg_kernels.torch.kernels import is_row, row_product

Array = torch.Tensor


def with_gates(
    x: Array, p: Array, e: Array, w_in: Array, w_out: Array, form: str
) -> tuple[Array, Array]:
    """The sum over the experts of each row, and what the first matrices give."""
    rows, ids = x.reshape(-1, x.shape[-1]), e.reshape(-1, e.shape[-1])
    if is_alone(rows):
        chosen = ids[0].tolist()
        g = times_each(rows, w_in, chosen)
        y = times_each(activated(g, form) * p.reshape(-1, 1), w_out, chosen).sum(dim=0)
        return y.reshape(x.shape), g.reshape(*e.shape, g.shape[-1])
    by = sorted_by_expert(ids, w_in.shape[0])
    g = times_chosen(rows_of_choices(rows, ids, by), w_in, ids, by)
    h = activated(g, form) * in_order(p.reshape(*ids.shape, 1), by)
    y = sum_of_choices(times_own(h, w_out, ids, by), ids, by)
    return y.reshape(x.shape), in_place(g, ids, by).reshape(*e.shape, g.shape[-1])


def with_both(
    x: Array, p: Array, e: Array, w_in: Array, w_up: Array, w_out: Array, form: str
) -> tuple[Array, Array, Array]:
    """The sum over the experts of each row, and what the first two matrices give."""
    rows, ids = x.reshape(-1, x.shape[-1]), e.reshape(-1, e.shape[-1])
    if is_alone(rows):
        chosen = ids[0].tolist()
        g, u = times_each(rows, w_in, chosen), times_each(rows, w_up, chosen)
        h = activated(g, form).mul_(u) * p.reshape(-1, 1)
        y = times_each(h, w_out, chosen).sum(dim=0)
        return (
            y.reshape(x.shape),
            g.reshape(*e.shape, g.shape[-1]),
            u.reshape(*e.shape, u.shape[-1]),
        )
    by = sorted_by_expert(ids, w_in.shape[0])
    rows = rows_of_choices(rows, ids, by)
    g, u = times_chosen(rows, w_in, ids, by), times_chosen(rows, w_up, ids, by)
    h = activated(g, form).mul_(u) * in_order(p.reshape(*ids.shape, 1), by)
    y = sum_of_choices(times_own(h, w_out, ids, by), ids, by)
    g, u = in_place(g, ids, by), in_place(u, ids, by)
    gates = (*e.shape, g.shape[-1])
    return y.reshape(x.shape), g.reshape(gates), u.reshape(gates)


def d_experts(
    dy: Array, x: Array, p: Array, e: Array, w_in: Array, w_out: Array, g: Array, form: str
) -> tuple[Array, Array, Array, Array]:
    """Gradient of routed experts: an expert has those of the rows that chose it."""
    count, ids = w_in.shape[0], e.reshape(-1, e.shape[-1])
    by = sorted_by_expert(ids, count)
    rows = rows_of_choices(x.reshape(-1, x.shape[-1]), ids, by)
    dy = rows_of_choices(dy.reshape(-1, dy.shape[-1]), ids, by)
    shares = in_order(p.reshape(*ids.shape, 1), by)
    g = in_order(g.reshape(*ids.shape, g.shape[-1]), by)
    h = activated(g, form)
    dh = times_chosen(dy, w_out.mT, ids, by)
    dp = in_place((dh * h).sum(dim=-1, keepdim=True), ids, by).reshape(p.shape)
    dw_out = matrices_of_experts(dy, h * shares, ids, by, count).mT
    dg = d_activated(dh * shares, g, form)
    dx = sum_of_choices(times_own(dg, w_in.mT, ids, by), ids, by)
    return dx.reshape(x.shape), dp, matrices_of_experts(rows, dg, ids, by, count), dw_out


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
    count, ids = w_in.shape[0], e.reshape(-1, e.shape[-1])
    by = sorted_by_expert(ids, count)
    rows = rows_of_choices(x.reshape(-1, x.shape[-1]), ids, by)
    dy = rows_of_choices(dy.reshape(-1, dy.shape[-1]), ids, by)
    shares = in_order(p.reshape(*ids.shape, 1), by)
    g, u = (
        in_order(g.reshape(*ids.shape, g.shape[-1]), by),
        in_order(u.reshape(*ids.shape, u.shape[-1]), by),
    )
    a = activated(g, form)
    h = a * u
    dh = times_chosen(dy, w_out.mT, ids, by)
    dp = in_place((dh * h).sum(dim=-1, keepdim=True), ids, by).reshape(p.shape)
    dw_out = matrices_of_experts(dy, h * shares, ids, by, count).mT
    dh = dh * shares
    du = a.mul_(dh)
    dg = d_activated(dh.mul_(u), g, form)
    dx = times_own(dg, w_in.mT, ids, by) + times_own(du, w_up.mT, ids, by)
    dw_in = matrices_of_experts(rows, dg, ids, by, count)
    dw_up = matrices_of_experts(rows, du, ids, by, count)
    return sum_of_choices(dx, ids, by).reshape(x.shape), dp, dw_in, dw_up, dw_out


# ---- rows in the order of experts ---------------------------------------------------------------


def is_alone(rows: Array) -> bool:
    """Whether there is one row, as in generation: its choices need no order."""
    return rows.shape[0] == 1 and not torch.compiler.is_compiling()


def sorted_by_expert(ids: Array, experts: int) -> tuple[Array, list[int]] | None:
    """The choices in the order of their experts, and how many fell on each."""
    if torch.compiler.is_compiling():
        return None
    flat = ids.reshape(-1)
    return flat.argsort(stable=True), flat.bincount(minlength=experts).tolist()


def rows_of_choices(rows: Array, ids: Array, by: tuple[Array, list[int]] | None) -> Array:
    """The row of each choice, in order; the rows as they are without one."""
    return rows if by is None else rows[by[0] // ids.shape[1]]


def in_order(each: Array, by: tuple[Array, list[int]] | None) -> Array:
    """The rows of choices, in order."""
    return each if by is None else each.reshape(-1, each.shape[2])[by[0]]


def in_place(each: Array, ids: Array, by: tuple[Array, list[int]] | None) -> Array:
    """The rows of choices, at their places again."""
    if by is None:
        return each
    placed = torch.empty_like(each)
    placed[by[0]] = each
    return placed.reshape(*ids.shape, each.shape[-1])


def sum_of_choices(given: Array, ids: Array, by: tuple[Array, list[int]] | None) -> Array:
    """The sum of the choices of each row."""
    return given if by is None else in_place(given, ids, by).sum(dim=1)


# ---- products with the matrices of experts ------------------------------------------------------


def times_chosen(rows: Array, w: Array, ids: Array, by: tuple[Array, list[int]] | None) -> Array:
    """The row of each choice times the matrix of its expert."""
    if by is not None:
        return times_own(rows, w, ids, by)
    each = torch.einsum("rd,ndf->rnf", rows, w)
    return each.gather(1, ids[..., None].expand(*ids.shape, w.shape[2]))


def times_own(each: Array, w: Array, ids: Array, by: tuple[Array, list[int]] | None) -> Array:
    """Each choice times the matrix of its expert; summed for each row without an order."""
    if by is None:
        return torch.einsum("rnf,nfd->rd", rows_of_experts(each, ids, w.shape[0]), w)
    parts = zip(each.split(by[1]), w, strict=True)
    return torch.cat([part @ matrix for part, matrix in parts])


def times_each(rows: Array, w: Array, chosen: list[int]) -> Array:
    """Each row, or the one there is, times the matrix of the expert that it has chosen."""
    pairs = zip(rows.expand(len(chosen), -1).split(1), chosen, strict=True)
    found = [(row, w[expert]) for row, expert in pairs]
    return torch.cat([row_product(r, m) if is_row(r, m) else r @ m for r, m in found])


def matrices_of_experts(
    rows: Array, each: Array, ids: Array, by: tuple[Array, list[int]] | None, experts: int
) -> Array:
    """For each expert the sum of the rows that chose it, times what their choices have."""
    if by is None:
        return torch.einsum("rd,rnf->ndf", rows, rows_of_experts(each, ids, experts))
    parts = zip(rows.split(by[1]), each.split(by[1]), strict=True)
    return torch.stack([row.T @ other for row, other in parts])


def rows_of_experts(each: Array, ids: Array, experts: int) -> Array:
    """The rows of choices, in rows of all experts."""
    rows = each.new_zeros(ids.shape[0], experts, each.shape[2])
    return rows.scatter_add(1, ids[..., None].expand(each.shape), each)


# ---- activations --------------------------------------------------------------------------------


def activated(g: Array, form: str) -> Array:
    """SiLU, GELU by its tanh form, or ReLU."""
    if form == "gelu":
        return torch.nn.functional.gelu(g, approximate="tanh")
    return torch.nn.functional.silu(g) if form == "silu" else torch.relu(g)


def d_activated(dy: Array, g: Array, form: str) -> Array:
    """Gradient of the activation."""
    if form == "gelu":
        return torch.ops.aten.gelu_backward(dy.to(g.dtype), g, approximate="tanh")
    if form == "silu":
        return torch.ops.aten.silu_backward(dy.to(g.dtype), g)
    return torch.where(g > 0, dy, 0)
