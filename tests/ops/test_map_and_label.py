"""Brackets beside the shape of a label: a map of R, which splits an axis, and the axis of C."""

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


def test_the_axis_that_is_put_together_has_its_name_before_or_behind() -> None:
    """`C[H]` is of [B, H - 2] and [B, 2], too: H is what they become."""
    head = "dim B, H, W\nblock F(x [B, H, W]) -> y [B, H, W] {\n"
    parts = "    x -> slice[H](2, H) : front\n    x -> slice[H](0, 2) : last\n"
    x = np.arange(40.0).reshape(2, 5, 4)
    for brackets in ("[H]", "[-2]", ""):
        chain = f"    front, last -> C{brackets} : y\n}}\n"
        module = xg.compile(source=head + parts + chain, sizes={"H": 5}).on_arrays()
        outputs, _ = module.forward({}, {"x": x})
        assert np.array_equal(outputs["y"], np.roll(x, -2, axis=1)), brackets
    with pytest.raises(DiagnosticError) as refused:
        xg.compile(source=f"{head}{parts}    front, last -> C[W] : y\n}}\n")
    assert refused.value.diagnostics[0].help == ("they fit: C[-2] makes [B, H, W]",)


def test_a_name_before_goes_before_one_behind() -> None:
    """[N, K] and [N, K], where 2*N is K: along N, as ever."""
    text = "dim N = 3, K = 2*N\nblock F(x [N, K]) -> y [2*N, K] {\n    x, x -> C[N] : y\n}\n"
    outputs, _ = xg.compile(source=text).on_arrays().forward({}, {"x": np.ones((3, 6))})
    assert outputs["y"].shape == (6, 6)
