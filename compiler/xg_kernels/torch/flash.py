"""Attention by kernels that torch has itself, which keep no weights: on a CPU and on a GPU.

Ordinary, tested code, like `kernels`. A GPU has one of cuDNN and one for 16 bits, and another for
float32; each gives log Σ exp of the rows of scores, from which its gradient computes weights again.

`_fused_sdp_choice`, by which torch chooses itself, can't be traced by its compiler. Rows that are
no multiple of 8 numbers are filled with zeros on a GPU: an unaligned product of a vocabulary of
50,257 took 4.5 ms instead of 0.85.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import torch

Array = torch.Tensor


def is_flash(q: Array, k: Array, v: Array, m: Array | None, mask: str) -> bool:
    """Whether torch has this attention: no mask but a square causal one.

    A GPU has it for heads of a multiple of 8 numbers, at most 256, and not in float64.
    """
    if m is not None or q.ndim != 4 or q.shape[-1] != v.shape[-1]:
        return False
    on_gpu = q.is_cuda and q.itemsize < 8 and q.shape[-1] in range(8, 257, 8)
    if not q.is_cpu and not on_gpu:
        return False
    return mask == "none" or q.shape[-2] == k.shape[-2]


def flash(
    q: Array, k: Array, v: Array, bias: Array | None, scale: float, causal: bool
) -> tuple[Array, Array]:
    """Attention by a kernel of torch, and log Σ exp of the scores' rows, [B, N, S]."""
    aten, (q, k, v) = torch.ops.aten, operands(q, k, v)
    kernel = kernel_of(q)
    if kernel == "cpu":
        return aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, causal, attn_mask=bias, scale=scale
        )
    if kernel == "flash":
        more = 0.0, causal
        found = aten._scaled_dot_product_flash_attention(q, k, v, *more, scale=scale)
        return found[0], found[1]
    if kernel == "cudnn":
        found = aten._scaled_dot_product_cudnn_attention(
            q, k, v, bias, True, 0.0, causal, False, scale=scale
        )
        return found[0], found[1].squeeze(-1)
    found = aten._scaled_dot_product_efficient_attention(
        q, k, v, bias, True, 0.0, causal, scale=scale
    )
    sums = found[1].narrow(-1, 0, q.shape[-2])  # it has rows up to a multiple of 32
    return found[0], sums


def flash_output(q: Array, k: Array, v: Array, scale: float, causal: bool) -> Array:
    """Attention by a kernel of torch, alone; on a CPU by the function that finds it soonest."""
    if not q.is_cpu:
        return flash(q, k, v, None, scale, causal)[0]
    q, k, v = operands(q, k, v)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)


def d_flash(
    dy: Array,
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    y: Array,
    lse: Array,
    scale: float,
    causal: bool,
) -> tuple[Array, Array, Array]:
    """Gradient of attention by the kernel that `flash` takes."""
    aten, (q, k, v) = torch.ops.aten, operands(q, k, v)
    given, rows = (whole(dy.to(y.dtype)), q, k, v, whole(y)), lse.squeeze(-1)
    kernel, lengths = kernel_of(q), (q.shape[-2], k.shape[-2])
    if kernel == "cpu":
        _, heads, length = rows.shape
        if rows.stride() != (length * heads, 1, heads):
            rows = rows.mT.contiguous().mT  # torch reads it so, whatever its strides
        return aten._scaled_dot_product_flash_attention_for_cpu_backward(
            *given, rows, 0.0, causal, attn_mask=bias, scale=scale
        )
    seed = torch.empty((), dtype=torch.uint64, device=q.device)  # nothing is dropped
    if kernel == "flash":
        more = None, None, *lengths, 0.0, causal, seed, seed
        return aten._scaled_dot_product_flash_attention_backward(
            *given, rows.contiguous(), *more, scale=scale
        )
    if kernel == "cudnn":
        more = seed, seed, bias, None, None, *lengths, 0.0, causal
        return aten._scaled_dot_product_cudnn_attention_backward(
            *given, rows.unsqueeze(-1).contiguous(), *more, scale=scale
        )
    rows = torch.constant_pad_nd(rows, (0, -rows.shape[-1] % 32), torch.inf)
    more = rows, seed, seed, 0.0, [True, True, True, False], causal
    return aten._scaled_dot_product_efficient_attention_backward(
        *given[:4], bias, given[4], *more, scale=scale
    )[:3]


def kernel_of(q: Array) -> str:
    """The kernel that torch has for queries, by their device and their type."""
    if q.is_cpu:
        return "cpu"
    if q.itemsize > 2:
        return "efficient"
    return "cudnn" if plans_pay(q) else "flash"


def plans_pay(q: Array) -> bool:
    """Whether cuDNN's kernel is faster though it plans for each shape: from Hopper on.

    It has heads of at most 128 numbers; short texts come in many lengths.
    """
    if torch.version.hip is not None or q.shape[-2] < 64 or q.shape[-1] > 128:
        return False
    return torch.cuda.get_device_properties(q.device).major >= 9


def operands(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """All three in the narrowest type of them: under autocast, that of products."""
    dtype = q.dtype
    for other in (k, v):
        dtype = other.dtype if other.itemsize < dtype.itemsize else dtype
    return whole(q.to(dtype)), whole(k.to(dtype)), whole(v.to(dtype))


def whole(x: Array) -> Array:
    """`x` with the numbers of a row beside each other."""
    return x if x.stride(-1) == 1 else x.contiguous()
