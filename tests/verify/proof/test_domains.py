"""Inputs where a function has a value: verify finds them, and says which they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from xg.frontend.project import read_project
from xg.verify.gradient_proof import prove
from xg_runtime.errors import RunError

FOUND = {
    "log(x)": "inputs above 0",
    "x^0.5 + x^-1": "inputs above 0",
    "log(x) + log(1 - x)": "inputs between 0 and 1",
    "sqrt(x - 5)": "inputs above 10",
    "sqrt(1 + x^2)": "",
}


@pytest.mark.parametrize("formula", FOUND)
def test_inputs_that_a_function_takes(formula: str, tmp_path: Path) -> None:
    proof = prove(read_project(_file(formula, tmp_path)), "F", {"B": 5}, 1, ())
    assert proof.domain == FOUND[formula]
    assert proof.gradients.passed


def test_the_first_edge_is_named_where_no_inputs_fit(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"y is not a number .*line 4"):
        prove(read_project(_file("log(0 - x^2 - 1)", tmp_path)), "F", {"B": 5}, 1, ())


def _file(formula: str, folder: Path) -> Path:
    path = folder / "net.xg"
    path.write_text(
        f"dim B\nop f(x) = {formula}\nblock F(x [B]) -> y [B] {{\n    x -> f : y\n}}\n",
        encoding="utf-8",
    )
    return path
