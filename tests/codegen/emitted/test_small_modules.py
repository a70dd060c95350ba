"""Small programs whose modules have a form that those of models do not have."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xg
from xg.driver import BACKENDS

WHOLE_NUMBERS = """\
dim B, N
op Even(g [..] in N) = equal(g, 0)
block Net(g [B] in N) -> e [B] in 2 {
    g -> Even : e
}
"""
# The cotangent of Y is the gradient of A as it is, and a term of that of X.
TAKEN_TWICE = """\
dim B, D
block Net(X [B, D], A [B, D]) -> Y [B, D], Z [B, D] {
    X -> tanh : Z
    X -> ⊕<-A : Y
}
"""
BEHIND_A_ROW = """\
dim B, D = 4, N_L = 2
block Layer(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> tanh : Y
}
block Net(X [B, D]) -> Y [B, D] {
    X -> N_L × Layer as layers -> Layer as head : Y
}
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_has_no_floats_has_an_empty_backward_pass(backend: str) -> None:
    module = xg.compile(source=WHOLE_NUMBERS).on_arrays(backend)
    outputs, saved = module.forward({}, {"g": np.arange(3)}, seed=None)
    assert outputs["e"].tolist() == [1, 0, 0]
    assert module.backward({}, saved, {}) == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_parameters_may_begin_behind_a_row(backend: str) -> None:
    params = xg.compile(source=BEHIND_A_ROW).load(backend).init()
    assert sorted(params) == ["head.W", "layers.0.W", "layers.1.W"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cotangent_that_is_a_gradient_too_keeps_its_name(backend: str) -> None:
    module = xg.compile(source=TAKEN_TWICE).on_arrays(backend)
    inputs = {"X": np.zeros((1, 2)), "A": np.ones((1, 2))}
    _, saved = module.forward({}, inputs, seed=None)
    gradients = module.backward({}, saved, {"Y": np.full((1, 2), 3.0), "Z": np.full((1, 2), 4.0)})
    assert {name: array.tolist() for name, array in gradients.items()} == {
        "X": [[7, 7]],
        "A": [[3, 3]],
    }


@pytest.mark.parametrize(
    ("name", "backend", "lines"),
    [("mlp", "numpy", 410), ("mlp", "torch", 530), ("mha", "numpy", 485), ("mha", "torch", 620)],
)
def test_a_module_is_short_and_has_nothing_that_it_does_not_use(
    name: str, backend: str, lines: int
) -> None:
    source = xg.compile(name).source(backend)
    assert len(source.splitlines()) <= lines
    functions = re.findall(r"^def (_\w+)", source, re.MULTILINE)
    assert [each for each in functions if len(re.findall(rf"\b{each}\b", source)) < 2] == []
    checks = [each for each in functions if each.startswith("_check")]
    assert checks == ["_check", "_check_floats", "_check_float"]  # the last two are of types
