"""A map of R beside the shape of its label, which says how an axis splits."""

from __future__ import annotations

import numpy as np
import pytest

import xg
from xg.diagnostics.diagnostic import DiagnosticError

TEXT = """
dim B, M, E

block F(x [B, M*E]) -> y {label} {{
    x -> R[b, (m, e) -> {target}] : y
}}
"""


def text(target: str, label: str) -> str:
    return TEXT.format(target=target, label=label)


@pytest.mark.parametrize(
    ("target", "label", "moved"),
    [("b, m, e", "[B, M, E]", (0, 1, 2)), ("e, b, m", "[E, B, M]", (2, 0, 1))],
)
def test_a_label_says_how_an_axis_splits(target: str, label: str, moved: tuple[int, ...]) -> None:
    x = np.arange(30.0).reshape(2, 15)
    module = xg.compile(source=text(target, label), sizes={"M": 3, "E": 5}).on_arrays()
    outputs, _ = module.forward({}, {"x": x})
    assert np.array_equal(outputs["y"], x.reshape(2, 3, 5).transpose(moved))


@pytest.mark.parametrize(
    ("target", "label", "told"),
    [
        ("b, m, e", "[B, M, M]", "label says"),
        ("(b, m), e", "[B*M, M]", "label says"),
        ("b, (e, m)", "[B, E*M]", "cannot tell how"),
    ],
)
def test_a_label_that_does_not_say_it_is_refused(target: str, label: str, told: str) -> None:
    with pytest.raises(DiagnosticError, match=told):
        xg.compile(source=text(target, label))
