"""Kernels of torch: operators that it has natively, forward and backward.

Ordinary, tested code; `kernel_table` says which operator each computes, the module's text is taken
from here. Under autocast operands come in several types: the widest one counts, as in the bodies.
"""

from __future__ import annotations

import torch

from xg.backends.torch.support import keep_mask

Array = torch.Tensor
Seed = int | torch.Tensor | None


def linear(x: Array, w: Array, b: Array) -> Array:
    """``X W + b`` as one product of matrices."""
    y = torch.addmm(b, x.reshape(-1, x.shape[-1]), w)
    return y.reshape(*x.shape[:-1], w.shape[1])


def add_to_first(a: Array, b: Array) -> Array:
    """``A + B``, in place of A (which nothing else reads) where it has the type of the sum."""
    return a.add_(b) if torch.promote_types(a.dtype, b.dtype) == a.dtype else a + b


def add_to_second(a: Array, b: Array) -> Array:
    """``A + B``, in place of B (which nothing else reads) where it has the type of the sum."""
    return b.add_(a) if torch.promote_types(a.dtype, b.dtype) == b.dtype else a + b


def softmax(z: Array) -> Array:
    """Softmax over the last axis; a row that is masked everywhere gives zeros, not NaN."""
    empty = z.amax(dim=-1, keepdim=True) == -torch.inf
    return torch.softmax(z, -1).masked_fill(empty, 0)


def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax."""
    return torch.ops.aten._softmax_backward_data(dp.to(p.dtype), p, -1, p.dtype)


def gelu_tanh(x: Array) -> Array:
    """GELU by its tanh form."""
    return torch.nn.functional.gelu(x, approximate="tanh")


def d_gelu_tanh(dy: Array, x: Array) -> Array:
    """Gradient of GELU by its tanh form."""
    return torch.ops.aten.gelu_backward(dy.to(x.dtype), x, approximate="tanh")


def gelu_exact(x: Array) -> Array:
    """GELU by the error function."""
    return torch.nn.functional.gelu(x)


def d_gelu_exact(dy: Array, x: Array) -> Array:
    """Gradient of GELU by the error function."""
    return torch.ops.aten.gelu_backward(dy.to(x.dtype), x)


def layer_norm(x: Array, gamma: Array, beta: Array, eps: float) -> tuple[Array, Array, Array]:
    """Layer normalization and its statistics."""
    x = x.to(torch.promote_types(x.dtype, gamma.dtype))
    return torch.native_layer_norm(x, x.shape[-1:], gamma.to(x.dtype), beta.to(x.dtype), eps)


def d_layer_norm(
    dy: Array, x: Array, gamma: Array, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """Gradient of layer normalization."""
    x = x.to(torch.promote_types(x.dtype, gamma.dtype))
    return torch.ops.aten.native_layer_norm_backward(
        dy.to(x.dtype),
        x,
        x.shape[-1:],
        mean,
        rstd,
        gamma.to(x.dtype),
        gamma.to(x.dtype),
        (True, True, True),
    )


def cross_entropy(z: Array, t: Array, reduction: str) -> tuple[Array, Array]:
    """Cross-entropy by log-sum-exp, in float32 at least."""
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    lse = torch.logsumexp(z, -1, keepdim=True)
    total = (lse - z.gather(-1, t[..., None])).sum()
    return (total / t.numel() if reduction == "mean" else total), lse


def d_cross_entropy(dloss: Array, z: Array, t: Array, lse: Array, reduction: str) -> Array:
    """Gradient of cross-entropy: softmax, the one at the target and the scale in one tensor."""
    dz = (z - lse).exp_()
    target = t[..., None]
    dz.scatter_(-1, target, dz.gather(-1, target) - 1)
    return dz.mul_(dloss / t.numel() if reduction == "mean" else dloss).to(z.dtype)


# ---- attention ----------------------------------------------------------------------------------


def attention(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str
) -> tuple[Array, Array]:
    """``softmax(α Q K⊤ + M) V`` and log Σ exp of each row of scores."""
    return attend(q, k, v, m, scale, mask)


def attend(
    q: Array, k: Array, v: Array, m: Array | None, scale: float, mask: str
) -> tuple[Array, Array]:
    """Attention by torch's own where it has it."""
    if is_flash(q, k, v, m, mask):
        y, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            whole(q), whole(k), whole(v), 0.0, mask == "causal", scale=scale
        )
        return y, lse[..., None]
    weights, lse = weigh(q, k, m, scale, mask)
    return weights.to(v.dtype) @ v, lse


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
    return d_attend(dy, q, k, v, m, y, lse, scale, mask)


def d_attend(
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
    """Gradient of attention, by torch's own where the forward pass was."""
    if is_flash(q, k, v, m, mask):
        rows = lse[..., 0].transpose(1, 2).contiguous()  # torch reads it so, whatever its strides
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            whole(dy.to(q.dtype)),
            whole(q),
            whole(k),
            whole(v),
            whole(y),
            rows.transpose(1, 2),
            0.0,
            mask == "causal",
            scale=scale,
        )
    return d_weigh(dy, q, k, v, m, y, lse, None, scale, mask, 1.0)


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
    """Attention whose weights are dropped with probability p; which stay is given too."""
    if seed is None:
        y, lse = attend(q, k, v, m, scale, mask)
        return y, lse, None
    weights, lse = weigh(q, k, m, scale, mask)
    keep = keep_mask(weights, p, seed, place)
    if keep is None:
        return weights.to(v.dtype) @ v, lse, None
    factor = 1 / (1 - p) if scaling == "scaled" else 1.0
    return (weights * keep * factor).to(v.dtype) @ v, lse, keep


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
    if keep is None:
        return d_attend(dy, q, k, v, m, y, lse, scale, mask)
    factor = 1 / (1 - p) if scaling == "scaled" else 1.0
    return d_weigh(dy, q, k, v, m, y, lse, keep, scale, mask, factor)


def is_flash(q: Array, k: Array, v: Array, m: Array | None, mask: str) -> bool:
    """Whether torch has this attention without its weights; its causal mask is a square one."""
    if m is not None or q.ndim != 4 or q.device.type != "cpu" or q.shape[-1] != v.shape[-1]:
        return False
    return mask == "none" or q.shape[-2] == k.shape[-2]


def whole(x: Array) -> Array:
    """`x` with the numbers of a row beside each other."""
    return x if x.stride(-1) == 1 else x.contiguous()


def weigh(q: Array, k: Array, m: Array | None, scale: float, mask: str) -> tuple[Array, Array]:
    """Weights of all pairs, and log Σ exp of each row of scores, 0 where it sees nothing."""
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
    """Gradient of attention from the weights of all pairs, computed anew."""
    weights = scores(q, k, m, scale, mask).sub_(lse).exp_()
    dz = (dy @ v.mT).to(weights.dtype)
    kept = weights
    if keep is not None:
        kept = weights * keep * factor
        dz = dz * keep * factor
    dz = dz.sub_((dy * y).sum(dim=-1, keepdim=True)).mul_(weights).mul_(scale).to(q.dtype)
    return dz @ k, dz.mT @ q, kept.to(dy.dtype).mT @ dy


def scores(q: Array, k: Array, m: Array | None, scale: float, mask: str) -> Array:
    """``α Q K⊤ + M`` in float32 at least: query i of S sees the keys up to i + S_k - S."""
    z = q @ k.mT
    z = z.to(torch.promote_types(z.dtype, torch.float32)).mul_(scale)
    if m is not None:
        z = z.masked_fill(m == 0, -torch.inf)
    if mask == "causal":
        S, S_k = z.shape[-2:]
        last = torch.arange(S, device=z.device)[:, None] + (S_k - S)
        z = z.masked_fill(torch.arange(S_k, device=z.device) > last, -torch.inf)
    return z
