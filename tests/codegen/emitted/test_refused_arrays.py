"""Generated modules refuse arrays of other shapes, and those that would have no effect."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from backends import writing
from tests.codegen.emitted.test_ranges import FORMS, arrays_of

import xg

FILE = """\
dim B, S, D = 4

block Net(x [B, S, D], c [B, 2*D], m [B, S] in 2) -> Y [B, S, D] {
    param W [D, D]

    x -> •<=W -> tanh -> Part : H
    c -> mean[-1]             : a [B]
    m -> Float                : f [B, S]
    H, a, f -> Mixed          : Y
}

op Float(m [..] in 2) = float(m)
op Mixed(h [B, S, D], a [B], f [B, S]) = h*a + f

block Part(x [B, S, D]) -> y [B, S, D] {
    param V [D, D]

    x -> •<=V -> DO(0.1) : y
}
"""
STEPPED = [form for form in FORMS if form[0] in writing("step")]
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another length": ({"x": [2, 3, 5]}, "x should have shape [2, 3, 4], not [2, 3, 5]"),
    "another batch": ({"m": [4, 3]}, "m should have shape [2, 3], not [4, 3]"),
    "another batch of formulas": ({"c": [4, 8]}, "c should have shape [2, 8], not [4, 8]"),
    "another formula": ({"c": [2, 6]}, "c should have shape [2, 8], not [2, 6]"),
    "more axes": ({"x": [2, 3, 4, 1]}, "x should have 3 axes, not shape [2, 3, 4, 1]"),
    "fewer axes": ({"m": [2]}, "m should have shape [2, 3], not [2]"),
    "no array": ({"x": None}, "x should be an array"),
}


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("what", WRONG)
def test_a_model_of_torch_refuses_other_shapes(what: str, kernels: bool) -> None:
    model = xg.compile(source=FILE, block="Net").load("torch", kernels=kernels).Model()
    changes, said = WRONG[what]
    shapes = {"x": [2, 3, 4], "c": [2, 8], "m": [2, 3]}
    inputs: dict[str, Any] = {name: torch.ones(shape) for name, shape in shapes.items()}
    inputs["m"] = inputs["m"].long()
    assert model(**inputs)["Y"].shape == (2, 3, 4)
    for name, shape in changes.items():
        given: Any = [1.0] if shape is None else torch.ones(shape, dtype=inputs[name].dtype)
        inputs[name] = given
    with pytest.raises((ValueError, TypeError), match=re.escape(said)):
        model(**inputs)


@pytest.mark.parametrize(("backend", "kernels"), STEPPED)
def test_a_step_refuses_what_would_have_no_effect(backend: str, kernels: bool) -> None:
    sizes = {"V": 11, "D": 12, "N_H": 3, "N_L": 1, "S_max": 9}
    program, array = xg.compile("gpt2", sizes=sizes), arrays_of(backend)
    module = program.step().load(backend, kernels=kernels)
    weights = program.load(backend).init()
    cache, inputs = module.empty_cache(weights), {"ids": array([[3, 5]])}
    _, kept = module.step(weights, cache, inputs)
    assert kept
    more = array([1.0])
    with pytest.raises(ValueError, match=r"there is no layers\.1\.attn\.b, but "):
        module.step({**weights, "layers.1.attn.b": more}, cache, inputs)
    with pytest.raises(ValueError, match="there is no mask, but ids"):
        module.step(weights, cache, {**inputs, "mask": more})
    with pytest.raises(ValueError, match=r"there is no K, but ids, layers\.0"):
        module.step(weights, {**cache, "K": more}, inputs)
