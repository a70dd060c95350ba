"""Every kernel of NumPy computes what the body of its operator computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels.cases import PLACE, Case, cases
from numpy.typing import NDArray

from xg.backends.numpy import kernels
from xg.backends.numpy.kernel_table import KERNELS

Array = NDArray[Any]
CASES = list(cases(KERNELS))
USES = sorted({case.name for case in CASES})
TOLERANCE = 1e-10


def results(case: Case, function: Callable[..., Any]) -> list[Array | None]:
    """What a kernel makes of a case; its operands stay what they were."""
    before = [None if a is None else a.copy() for a in case.arrays]
    drawn = (case.seed, PLACE) if case.function.random else ()
    given = function(*case.arrays, *case.numbers, *drawn)
    for old, now in zip(before, case.arrays, strict=True):
        np.testing.assert_array_equal(old, now)
    return list(given) if case.function.results > 1 else [given]


def error(found: list[Array | None], wanted: list[Array | None]) -> float:
    """The largest relative error of any result."""
    errors = [0.0]
    for have, want in zip(found, wanted, strict=True):
        if have is None or want is None:
            assert have is None
            assert want is None
            continue
        assert have.shape == want.shape
        assert have.dtype == want.dtype
        size = max(float(np.linalg.norm(want)), 1e-3)
        errors.append(float(np.linalg.norm(np.subtract(have, want, dtype=np.float64))) / size)
    return max(errors)


@pytest.mark.parametrize("use", USES)
def test_a_kernel_computes_its_body(use: str) -> None:
    for case in (case for case in CASES if case.name == use):
        found = results(case, getattr(kernels, case.kernel))
        assert error(found, list(case.wanted)) < TOLERANCE, case.kernel


def test_every_kernel_is_met() -> None:
    assert {case.kernel for case in CASES} == {kernel.function for kernel in KERNELS.table}


@pytest.mark.parametrize("kernel", sorted({case.kernel for case in CASES}))
def test_a_kernel_that_is_a_little_wrong_is_found(kernel: str) -> None:
    def wrong(*arguments: Any) -> Any:  # noqa: ANN401 - whatever the kernel takes and gives
        given = getattr(kernels, kernel)(*arguments)
        return (
            (given[0] * (1 + 1e-8), *given[1:]) if isinstance(given, tuple) else given * (1 + 1e-8)
        )

    found = [case for case in CASES if case.kernel == kernel]
    assert any(error(results(case, wrong), list(case.wanted)) > TOLERANCE for case in found)
