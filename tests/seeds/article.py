"""Formulas of seed 003 as its article prints them, index by index, and as they should be.

Words are rows: e [N, D] embeddings, a = e q and b = e k [N, D], x_ij = a_i · b_j, w = softmax(x),
y = w v with v = e m. The names are those of the article; d… is the error of something.
"""

from __future__ import annotations

import numpy as np

from xg_runtime.module import Array


def softmax_jacobian(w: Array) -> Array:
    """∂w_j/∂x_k of one row: w_j (1 - w_j) where j = k, -w_j w_k elsewhere."""
    size = len(w)
    return np.array(
        [[w[j] * (1 - w[j]) if j == k else -w[j] * w[k] for k in range(size)] for j in range(size)]
    )


def norm_jacobian(x: Array, deviation: float) -> Array:
    """J = (N I - 1) / (N σ) - (x - μ) (x - μ)ᵀ / (N σ³) of one row."""
    size, centred = len(x), x - x.mean()
    first = (size * np.eye(size) - np.ones((size, size))) / (size * deviation)
    return first - np.outer(centred, centred) / (size * deviation**3)


def expanded_norm(x: Array) -> Array:
    """The article's example in two dimensions: what it divides by is the variance."""
    centred = x - (x[0] + x[1]) / 2
    return centred / ((centred[0] ** 2 + centred[1] ** 2) / 2)


def errors_of_product(w: Array, v: Array, dy: Array) -> tuple[Array, Array]:
    """∂C/∂w and ∂C/∂v of y = w v: every use of each element, summed."""
    rows, inner, columns = len(w), len(v), v.shape[1]
    dw, dv = np.zeros_like(w), np.zeros_like(v)
    for i in range(rows):
        for k in range(inner):
            dw[i, k] = sum(v[k, j] * dy[i, j] for j in range(columns))
    for k in range(inner):
        for j in range(columns):
            dv[k, j] = sum(w[i, k] * dy[i, j] for i in range(rows))
    return dw, dv


def errors_of_scores(w: Array, dw: Array) -> Array:
    """∂C/∂x_ij = Σ_k ∂C/∂w_ik ∂w_ik/∂x_ij."""
    return np.stack([dw[i] @ softmax_jacobian(w[i]) for i in range(len(w))])


def error_of_query(dx: Array, b: Array) -> Array:
    """∂C/∂a_ik = Σ_j ∂C/∂x_ij b_jk."""
    words, size = b.shape
    return np.array(
        [[sum(dx[i, j] * b[j, k] for j in range(words)) for k in range(size)] for i in range(words)]
    )


def printed_error_of_matrix(da: Array, e: Array) -> Array:
    """∂C/∂q_ij = Σ_k ∂C/∂a_kj e_kj, as it is printed: i does not occur."""
    words, size = e.shape
    one = [sum(da[k, j] * e[k, j] for k in range(words)) for j in range(size)]
    return np.array([one] * size)


def error_of_matrix(da: Array, e: Array) -> Array:
    """∂C/∂q_ij = Σ_k ∂C/∂a_kj e_ki."""
    words, size = e.shape
    return np.array(
        [[sum(da[k, j] * e[k, i] for k in range(words)) for j in range(size)] for i in range(size)]
    )


def printed_error_of_words(da: Array, q: Array, db: Array, k: Array) -> Array:
    """∂C/∂e_ij = Σ_k (∂C/∂a_kj q_ik + ∂C/∂b_kj k_ik), as it is printed; it needs N = D."""
    size = len(q)
    return np.array(
        [
            [sum(da[n, j] * q[i, n] + db[n, j] * k[i, n] for n in range(size)) for j in range(size)]
            for i in range(size)
        ]
    )


def error_of_words(*paths: tuple[Array, Array]) -> Array:
    """∂C/∂e_ij = Σ_k ∂C/∂a_ik q_jk, for each path: query, key and value."""
    return np.sum([error @ matrix.T for error, matrix in paths], axis=0)


def positions(position: int) -> Array:
    """The article's example of a word at a position, in four dimensions, as it is printed."""
    angles = [position / 10000 ** (part / 4) for part in (0, 1, 2, 3)]
    return np.array([np.sin(angles[0]), np.cos(angles[1]), np.sin(angles[2]), np.cos(angles[3])])
