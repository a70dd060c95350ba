"""Products of large matrices, which oneDNN computes: only in float32, on a CPU, and untraced."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import pytest
import torch

from xg.codegen.torch.kernels import is_large, linear, product, product_with_transpose

ROWS, INNER, COLUMNS = (2, 128), 256, 256  # the smallest that count as large
X = torch.randn(*ROWS, INNER, generator=torch.Generator().manual_seed(1))
W = torch.randn(INNER, COLUMNS, generator=torch.Generator().manual_seed(2))
B = torch.randn(COLUMNS, generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module", autouse=True)
def large() -> None:
    assert torch.backends.mkldnn.is_available()
    assert is_large(X, W)


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    assert found.shape == wanted.shape
    assert found.dtype == torch.float32
    return float((found - wanted).norm() / wanted.norm())


def layout(x: torch.Tensor) -> str:
    return str(x.stride())


def strided(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, not beside each other."""
    return x.mT.contiguous().mT


@pytest.mark.parametrize(
    "x", [X, strided(X), X.repeat(1, 2, 1)[:, ::2]], ids=lambda a: str(a.stride())
)
@pytest.mark.parametrize("w", [W, strided(W)], ids=lambda a: str(a.stride()))
def test_large_products_are_exact_to_rounding(x: torch.Tensor, w: torch.Tensor) -> None:
    wanted = x.double() @ w.double()
    assert error(product(x, w), wanted) < 1e-6
    assert error(product_with_transpose(x, w.T), wanted) < 1e-6
    assert error(linear(x, w, B), wanted + B) < 1e-6


def test_smaller_or_other_numbers_stay_with_torch() -> None:
    assert not is_large(X[:, 1:], W)
    assert not is_large(X.double(), W.double())
    assert not is_large(X.bfloat16(), W)
    assert not is_large(X.to("meta"), W.to("meta"))
    assert not is_large(X, W.repeat(1, 2)[:, :COLUMNS])
    assert not is_large(X, W.repeat(1, 2)[:, :COLUMNS].mT)


def test_mixed_precision_stays_mixed() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_large(X, W)
        assert linear(X, W, B).dtype == torch.bfloat16
