"""Products by other means than BLAS, only in float32, on a CPU, and untraced.

Those of large matrices are oneDNN's, those of one row a batch of products of columns.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import pytest
import torch

from xg_kernels.torch.kernels import (
    by_columns,
    is_large,
    is_row,
    linear,
    product,
    product_with_transpose,
)

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


# ---- one row ------------------------------------------------------------------------------------

TALL = torch.randn(512, 256, generator=torch.Generator().manual_seed(4))
ROW = torch.randn(1, 1, 512, generator=torch.Generator().manual_seed(5))
SPACED = torch.stack([ROW, ROW], dim=-1)[..., 0]


def names_cpu(monkeypatch: pytest.MonkeyPatch, capability: str) -> None:
    """Let torch say that it runs on such a CPU; what is computed is right on any."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)


@pytest.fixture
def of_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    names_cpu(monkeypatch, "AVX2")


@pytest.mark.usefixtures("of_x86")
@pytest.mark.parametrize("x", [ROW, ROW[0], SPACED], ids=lambda a: str(a.stride()))
def test_a_row_is_exact_to_rounding(x: torch.Tensor) -> None:
    w = by_columns(TALL)
    assert is_row(x, w)
    assert torch.equal(w, TALL)
    wanted = x.double() @ w.double()
    assert error(product(x, w), wanted) < 1e-6
    assert error(product_with_transpose(x, w.T), wanted) < 1e-6
    assert error(linear(x, w, B), wanted + B) < 1e-6


@pytest.mark.usefixtures("of_x86")
def test_other_rows_stay_with_torch() -> None:
    w = by_columns(TALL)
    assert not is_row(ROW, TALL)
    assert not is_row(ROW.repeat(1, 2, 1), w)
    assert not is_row(ROW.double(), w.double())
    assert not is_row(ROW.to("meta"), w.to("meta"))
    assert not is_row(ROW, by_columns(TALL.repeat(2, 1))[::2])
    assert not is_row(ROW[..., :256], strided(TALL[:256]))
    with torch.autocast("cpu", torch.bfloat16):
        assert product(ROW, w).dtype == torch.bfloat16


@pytest.mark.usefixtures("of_x86")
def test_only_large_matrices_are_laid_out_by_columns() -> None:
    for small in (TALL[:, :64], TALL[:256].repeat(1, 4), ROW[0, 0].repeat(512), TALL.double()):
        assert by_columns(small) is small
    experts = by_columns(TALL.repeat(2, 1, 1))
    assert experts.shape == (2, 512, 256)
    assert is_row(ROW, experts[1])
    assert by_columns(experts).data_ptr() == experts.data_ptr()


@pytest.mark.parametrize("capability", ["DEFAULT", "NO AVX", "SVE256"])
def test_cpus_that_mkl_does_not_know_keep_their_layout(
    capability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_cpu(monkeypatch, capability)
    assert by_columns(TALL) is TALL
    assert not is_row(ROW, strided(TALL))
    names_cpu(monkeypatch, "AVX512")
    assert by_columns(TALL) is not TALL
    assert is_row(ROW, strided(TALL))
