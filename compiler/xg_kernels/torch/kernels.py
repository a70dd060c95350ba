"""Kernels of torch: operators that it has natively, forward and backward.

Ordinary, tested code; `kernel_tables` says which operator each computes, the module's text is taken
from here. Under autocast operands come in several types: the widest one counts, as in the bodies.

Large float32 products on a CPU go to oneDNN, which took 0.91 to 0.93 of MKL's time here and adds
the bias on the way. Below 2^16 numbers its start costs more than it saves. GELU by tanh is computed
as a sigmoid, because torch has a fast sigmoid and a slow tanh. NumPy has none of these
functions, so little here could be written once for both.
"""

from __future__ import annotations

import torch

Array = torch.Tensor


# ---- products -----------------------------------------------------------------------------------


def product(a: Array, b: Array) -> Array:
    """A B."""
    if is_row(a, b):
        return row_product(a, b)
    if is_large(a, b):
        return torch.ops.mkldnn._linear_pointwise(a, b.T, None, "none", [], "")
    if is_uneven(b):
        return (a @ filled(b))[..., : b.shape[-1]]
    return a @ b


def product_with_transpose(a: Array, b: Array) -> Array:
    """A B⊤."""
    if is_row(a, b.T):
        return row_product(a, b.T)
    if is_large(a, b):
        return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
    if is_uneven(a):
        return filled(a) @ filled(b).T
    return a @ b.T


def product_over_rows(a: Array, b: Array) -> Array:
    """A⊤ B, where the axes in front count as rows: the gradient of a matrix."""
    i, j = a.shape[-1], b.shape[-1]
    a = filled(a) if is_uneven(a) else a
    b = filled(b) if is_uneven(b) else b
    y = a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])
    return y if y.shape == (i, j) else y[:i, :j]


def linear(x: Array, w: Array, b: Array) -> Array:
    """X W + b as one product of matrices."""
    if is_row(x, w):
        return row_product(x, w).add_(b)
    if is_large(x, w):
        return torch.ops.mkldnn._linear_pointwise(x, w.T, b, "none", [], "")
    return torch.nn.functional.linear(x, w.T, b)


def is_uneven(x: Array) -> bool:
    """Whether rows are no multiple of 8 numbers, as a GPU's matrix units take them."""
    return x.is_cuda and x.shape[-1] % 8 != 0


def filled(x: Array) -> Array:
    """Rows with zeros up to a multiple of 8 numbers; a transposed matrix stays one."""
    missing = -x.shape[-1] % 8
    if x.ndim == 2 and x.stride(-2) == 1:
        return torch.constant_pad_nd(x.T, (0, 0, 0, missing)).T
    return torch.constant_pad_nd(x, (0, missing))


def is_large(a: Array, b: Array) -> bool:
    """Whether oneDNN, which torch has beside BLAS, is faster: float32, large, on a CPU.

    Traced products and those in fewer bits are left to torch, and so is a `b` that is a
    slice of something wider: there oneDNN falls back to loops, a thousand times slower.
    """
    if a.numel() < 2**16 or b.numel() < 2**16:
        return False
    if not (b.is_contiguous() or b.T.is_contiguous()):
        return False
    return is_plain(a, b) and torch.backends.mkldnn.is_available()


def is_plain(a: Array, b: Array) -> bool:
    """Whether both are float32 on a CPU, neither traced nor rounded by autocast."""
    if not a.is_cpu or a.dtype != torch.float32 or b.dtype != torch.float32:
        return False
    return not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()


def is_row(a: Array, b: Array) -> bool:
    """Whether `row_product` is for these: `a` one row, `b` large and by columns."""
    rows = b.shape[-2]
    if a.numel() != rows or b.stride() != (1, rows):
        return False
    return is_plain(a, b) and reads_columns(b)


def row_product(a: Array, b: Array) -> Array:
    """A B of one row: a product for each column, of which torch makes a batch.

    In one product BLAS waits for memory: twice as long, where no cache has `b`.
    """
    inner, columns = b.shape
    column = a.contiguous().as_strided((columns, inner, 1), (0, 1, inner))
    y = torch.bmm(b.as_strided((columns, 1, inner), (inner, inner, 1)), column)
    return y.view(*a.shape[:-1], columns)


def by_columns(w: Array) -> Array:
    """Large matrices with the numbers of a column beside each other, as a copy."""
    return w.mT.contiguous().mT if w.ndim > 1 and reads_columns(w) else w


def reads_columns(w: Array) -> bool:
    """Whether `row_product` is for such matrices: large ones on a CPU that MKL knows.

    Products of columns below 400 numbers torch computes in a slow loop.
    """
    if not w.is_cpu or w.dtype != torch.float32:
        return False
    if w.shape[-2] < 400 or w.numel() < 2**16:
        return False
    return torch.backends.cpu.get_cpu_capability().startswith("AVX")


# ---- convolutions -------------------------------------------------------------------------------


def convolution(
    x: Array, K: Array, b: Array | None, stride: int, padding: int, dilation: int, parts: int
) -> Array:
    """The convolution of torch: the channels remain the last axis in memory."""
    along = K.ndim - 2
    images = x.reshape(-1, *x.shape[-1 - along :]).movedim(-1, 1)
    kernel = K.movedim((-1, -2), (0, 1))
    steps = [stride] * along, [padding] * along, [dilation] * along
    y = torch.convolution(images, kernel, b, *steps, False, [0] * along, parts).movedim(1, -1)
    return y.reshape(*x.shape[: -1 - along], *y.shape[1:])


def d_convolution(
    dy: Array, x: Array, K: Array, stride: int, padding: int, dilation: int, parts: int
) -> tuple[Array, Array]:
    """Gradients of the operand and of the kernel."""
    return convolution_backward(dy, x, K, stride, padding, dilation, parts)


def d_convolution_with_bias(
    dy: Array, x: Array, K: Array, stride: int, padding: int, dilation: int, parts: int
) -> tuple[Array, Array, Array]:
    """Gradients of the operand, of the kernel and of the bias."""
    dx, dK = convolution_backward(dy, x, K, stride, padding, dilation, parts)
    return dx, dK, dy.reshape(-1, dy.shape[-1]).sum(dim=0)


def convolution_backward(
    dy: Array, x: Array, K: Array, stride: int, padding: int, dilation: int, parts: int
) -> tuple[Array, Array]:
    """The gradients that torch has, with the channels as the last axis."""
    along = K.ndim - 2
    images = x.reshape(-1, *x.shape[-1 - along :]).movedim(-1, 1)
    slopes = dy.reshape(-1, *dy.shape[-1 - along :]).movedim(-1, 1)
    kernel = K.movedim((-1, -2), (0, 1)).contiguous()
    steps = [stride] * along, [padding] * along, [dilation] * along
    dx, dK, _ = torch.ops.aten.convolution_backward(
        slopes, images, kernel, None, *steps, False, [0] * along, parts, [True, True, False]
    )
    return dx.movedim(1, -1).reshape(x.shape), dK.movedim((0, 1), (-1, -2))


# ---- sums ---------------------------------------------------------------------------------------


def add_to_first(a: Array, b: Array) -> Array:
    """A + B in place of A, which nothing else reads, if it has the type of the sum."""
    return a.add_(b) if torch.promote_types(a.dtype, b.dtype) == a.dtype else a + b


def add_to_second(a: Array, b: Array) -> Array:
    """A + B in place of B, which nothing else reads, if it has the type of the sum."""
    return b.add_(a) if torch.promote_types(a.dtype, b.dtype) == b.dtype else a + b


# ---- activations --------------------------------------------------------------------------------


def softmax(z: Array) -> Array:
    """Softmax over the last axis: p_i = exp(z_i) / Σ_j exp(z_j).

    A row that is masked everywhere gives zeros.
    """
    empty = z.amax(dim=-1, keepdim=True) == -torch.inf
    return torch.softmax(z, -1).masked_fill(empty, 0)


def d_softmax(dp: Array, p: Array) -> Array:
    """Gradient of softmax: dZ = (dP - Σ dP ⊙ P) ⊙ P."""
    return torch.ops.aten._softmax_backward_data(dp.to(p.dtype), p, -1, p.dtype)


def sigmoid(x: Array) -> Array:
    """A number between 0 and 1, read as a probability: Y = 1 / (1 + exp(-X))."""
    return torch.sigmoid(x)


def d_sigmoid(dy: Array, y: Array) -> Array:
    """Gradient of sigmoid: dX = dY ⊙ Y ⊙ (1 - Y)."""
    return torch.ops.aten.sigmoid_backward(dy.to(y.dtype), y)


def d_tanh(dy: Array, y: Array) -> Array:
    """Gradient of tanh: dX = dY ⊙ (1 - Y²)."""
    return torch.ops.aten.tanh_backward(dy.to(y.dtype), y)


def swiglu(g: Array, u: Array) -> Array:
    """U times the SiLU of the gate g: Y = G ⊙ σ(G) ⊙ U."""
    return torch.nn.functional.silu(g) * u


def d_swiglu(dy: Array, g: Array, u: Array) -> tuple[Array, Array]:
    """Gradient of SwiGLU: dG = dY ⊙ U ⊙ silu'(G), dU = dY ⊙ silu(G)."""
    dg = torch.ops.aten.silu_backward((dy * u).to(g.dtype), g)
    return dg, dy * torch.nn.functional.silu(g)


def gelu_tanh(x: Array) -> Array:
    """GELU by its tanh form, on a CPU as Y = X ⊙ σ(X (c + d X²)), which is faster.

    c = 2 sqrt(2/π), d = 0.044715 c.
    """
    if not x.is_cpu or x.itemsize < 4 or torch.compiler.is_compiling():
        return torch.nn.functional.gelu(x, approximate="tanh")
    c = x.new_full((), 1.5957691216057308)
    inner = torch.addcmul(c, x, x, value=0.07135481627260025)
    return inner.mul_(x).sigmoid_().mul_(x)


def d_gelu_tanh(dy: Array, x: Array) -> Array:
    """Gradient of GELU by its tanh form."""
    return torch.ops.aten.gelu_backward(dy.to(x.dtype), x, approximate="tanh")


def d_gelu_tanh_in_place(dy: Array, x: Array) -> Array:
    """Gradient of GELU by its tanh form, in place of dY."""
    dx = dy.to(x.dtype)
    return torch.ops.aten.gelu_backward.grad_input(
        dx,
        x,
        approximate="tanh",
        grad_input=dx,
    )


def gelu_exact(x: Array) -> Array:
    """GELU by the error function: Y = X ⊙ (1 + erf(X / sqrt(2))) / 2."""
    return torch.nn.functional.gelu(x)


def d_gelu_exact(dy: Array, x: Array) -> Array:
    """Gradient of GELU by the error function."""
    return torch.ops.aten.gelu_backward(dy.to(x.dtype), x)


def d_gelu_exact_in_place(dy: Array, x: Array) -> Array:
    """Gradient of GELU by the error function, in place of dY."""
    dx = dy.to(x.dtype)
    return torch.ops.aten.gelu_backward.grad_input(dx, x, grad_input=dx)


# ---- embedding, normalization, loss --------------------------------------------------------------


def embedding(ids: Array, E: Array) -> Array:
    """Rows of a table: Y = E[ids]."""
    return torch.embedding(E, ids)


def layer_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Layer normalization: Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε).

    Its mean and 1 / sqrt(σ² + ε) are given too.
    """
    if x.dtype != gamma.dtype:
        x, gamma, beta = widened(x, gamma, beta)
    return torch.native_layer_norm(x, x.shape[-1:], gamma, beta, eps)


def layer_norm_output(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
    """Layer normalization alone: Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)."""
    if x.dtype != gamma.dtype:
        x, gamma, beta = widened(x, gamma, beta)
    return torch.native_layer_norm(x, x.shape[-1:], gamma, beta, eps)[0]


def d_layer_norm(
    dy: Array, x: Array, gamma: Array, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    """Gradient of layer normalization: dγ = Σ dY ⊙ x̂, dβ = Σ dY.

    dX = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(σ² + ε) with dx̂ = dY ⊙ γ.
    """
    if not dy.dtype == x.dtype == gamma.dtype:
        x, gamma, dy = widened(x, gamma, dy)
    return torch.ops.aten.native_layer_norm_backward(
        dy, x, x.shape[-1:], mean, rstd, gamma, gamma, (True, True, True)
    )


def widened(x: Array, gamma: Array, other: Array) -> tuple[Array, Array, Array]:
    """All three in the wider type of the first two."""
    dtype = torch.promote_types(x.dtype, gamma.dtype)
    return x.to(dtype), gamma.to(dtype), other.to(dtype)


def cross_entropy(z: Array, t: Array, count: float) -> tuple[Array, Array]:
    """Cross-entropy in float32 at least: loss = Σ (log Σ_j exp(z_j) - z_t) / count.

    By log-softmax, whose largest is the peak less log Σ_j exp(z_j).
    """
    dtype = torch.promote_types(z.dtype, torch.float32)
    if torch.compiler.is_compiling():
        lse = torch.logsumexp(z.to(dtype), -1, keepdim=True)
        return (lse - z.gather(-1, t[..., None])).sum() / count, lse
    logs = torch.log_softmax(z, -1, dtype=dtype)
    lse = z.amax(dim=-1, keepdim=True) - logs.amax(dim=-1, keepdim=True)
    return -logs.gather(-1, t[..., None]).sum() / count, lse


def d_cross_entropy(dloss: Array, z: Array, t: Array, lse: Array, count: float) -> Array:
    """Gradient of cross-entropy: dZ = (softmax(Z) - onehot(t)) / count · dloss."""
    target = t[..., None]
    if torch.compiler.is_compiling():  # one loop over elements
        hot = torch.arange(z.shape[-1], device=z.device) == target
        dz = torch.exp(z.to(lse.dtype) - lse) - hot.to(lse.dtype)
        return (dz * (dloss / count)).to(z.dtype)
    dz = torch.softmax(z, -1, dtype=lse.dtype)
    dz.scatter_(-1, target, dz.gather(-1, target) - 1)
    return dz.mul_(dloss / count).to(z.dtype)
