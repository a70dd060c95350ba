"""Layouts of published tensors, there and back, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from xg_runtime.names import Misfit, TensorLayout

SIZES = {"C_in": 3, "P": 2}


@pytest.mark.parametrize(
    ("text", "shape", "wanted"),
    [
        ("", (2, 5), [(2, 5)]),
        ("T", (2, 5), [(5, 2)]),
        ("T", (4, 2, 5), [(4, 5, 2)]),
        ("split", (2, 9), [(2, 4), (2, 2), (2, 3)]),
        ("split", (9,), [(4,), (5,)]),
        ("T -> split", (9, 2), [(2, 4), (2, 5)]),
        ("rows", (9, 2), [(4, 2), (5, 2)]),
        ("T -> rows", (2, 9), [(4, 2), (5, 2)]),
        ("R[1, s, d -> s, d]", (1, 4, 5), [(4, 5)]),
        ("R[1, 1, d -> d]", (1, 1, 5), [(5,)]),
        ("R[d, c, p, q -> (p=P, q=P, c=C_in), d]", (5, 3, 2, 2), [(12, 5)]),
        ("R[(h, d=2), i -> i, h, d] -> T", (6, 5), [(5, 2, 3)]),
    ],
)
def test_there_and_back(text: str, shape: tuple[int, ...], wanted: list[tuple[int, ...]]) -> None:
    tensor = np.arange(np.prod(shape)).reshape(shape)
    layout = TensorLayout.of(text)
    params = layout.params(tensor, wanted, SIZES)
    assert [param.shape for param in params] == wanted
    later = layout.tensor(params, SIZES)
    assert (later.shape, later.dtype, later.size) == (tensor.shape, tensor.dtype, tensor.size)
    assert np.array_equal(later.array(), tensor)


def test_a_kernel_of_patches_is_the_matrix_of_its_patches() -> None:
    """Rows in the order (p, q, c): what a convolution would multiply with each."""
    kernel = np.random.default_rng(0).normal(size=(5, 3, 2, 2))
    (matrix,) = TensorLayout.of("R[d, c, p, q -> (p=P, q=P, c=C_in), d]").params(kernel, (), SIZES)
    for p, q, c in np.ndindex(2, 2, 3):
        assert np.array_equal(matrix[(p * 2 + q) * 3 + c], kernel[:, c, p, q])


@pytest.mark.parametrize(
    ("text", "shape", "reason"),
    [
        ("T", (5,), "T needs two axes"),
        ("split", (2, 8), "its last axis is not 4 + 5 long"),
        ("rows", (8, 2), "its first axis is not 4 + 5 long"),
        ("R[1, s, d -> s, d]", (2, 4, 5), "an axis of 2 is not 1"),
        ("R[1, s, d -> s, d]", (4, 5), "it has 2 axes, not 3"),
        ("R[(h, d=2), i -> i, h, d]", (5, 3), "an axis of 5 is not h times d"),
        ("R[(h, d), i -> i, h, d]", (6, 3), "h and d have no size: give them one with ="),
        ("R[(h, d=N), i -> i, h, d]", (6, 3), "the diagram has no number for N"),
    ],
)
def test_a_tensor_that_does_not_fit(text: str, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(Misfit) as caught:
        TensorLayout.of(text).params(np.zeros(shape), [(4,), (5,)], SIZES)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    "text",
    [
        "U",
        "split -> T",
        "stack -> T",
        "R[a, b]",
        "R[a, b -> a]",
        "R[a, a -> a, a]",
        "R[a-b -> b]",
        "T T",
    ],
)
def test_a_text_that_is_no_layout(text: str) -> None:
    with pytest.raises(Misfit):
        TensorLayout.of(text)
