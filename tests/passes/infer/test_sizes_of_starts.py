"""A size of a cell that no operand has is that of the start which its state is given."""

from __future__ import annotations

import numpy as np
import pytest

import xg
from xg.diagnostics.diagnostic import DiagnosticError
from xg_testing.lockfile import meaning

CELL = """
block Cell(h [], W [D, D]) -> y [B, D] {
    state z [B, D]
    z -> •<=W -> tanh -> ⊕<-(h -> BC[B, D]) : y
    next z = y
}
block Net(z_0 [N, D], h [T]) -> y [T, N, D] {
    param W [D, D]
    h, W -> Cell(z=z_0) over T : y
}
"""
DIMS = {
    "no number": "dim B, T, D = 4, N",
    "a number of the program": "dim B = 3, T, D = 4, N",
    "the caller's name": "dim B, T, D = 4",
    "the caller's name with a number": "dim B = 3, T, D = 4",
    "a size of another": "dim B, T, D = 4, M = 3, N = 2*M",
}


@pytest.mark.parametrize("case", DIMS)
def test_the_size_of_a_start_need_not_be_said(case: str) -> None:
    own = "N" if "N" in DIMS[case] else "B"
    cell = CELL.replace("N, ", f"{own}, ")
    given = cell.replace("(z=z_0)", f"(B={own}, z=z_0)")
    short, long = (xg.compile(source=f"{DIMS[case]}{text}") for text in (cell, given))
    assert meaning(short.source("numpy")) == meaning(long.source("numpy"))
    rng = np.random.default_rng(0)
    z, hs, w = rng.normal(size=(6, 4)), rng.normal(size=5), rng.normal(size=(4, 4))
    values, _ = short.load("numpy").forward({"W": w}, {"z_0": z, "h": hs})
    for h, y in zip(hs, values["y"], strict=True):
        z = np.tanh(z @ w) + h
        np.testing.assert_allclose(y, z, 1e-12, 1e-12)


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("[D]", "the state z is [B, D], but starts as [D]"),
        ("[N, D + 1]", "the state z is [N, D], but starts as [N, D + 1]"),
    ],
)
def test_a_start_of_other_axes_is_refused_as_before(start: str, said: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        xg.compile(source=f"{DIMS['no number']}{CELL.replace('z_0 [N, D]', f'z_0 {start}')}")
    assert said in str(caught.value)
