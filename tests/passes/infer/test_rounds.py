"""A fixed number of rounds with the same parameters: `over N_I` where no operand has the axis."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import forms_of_code
from frontend.refused import refused

import xg
from xg.driver import BACKENDS
from xg.verify.reference.interpret import Interpreter

SLOTS = """
dim B = 2, K = 3, N = 5, D = 4, N_I = 3

block Attend(x [B, N, D]) -> A [B, K, N] {
    param W [D, D]
    state s [B, K, D]

    s -> •<=W -> •<=T(x) -> S[K] : A
      -> •<=x -> tanh            : u
    next s = u
}

block Slots(x [B, N, D], s_0 [B, K, D]) -> s [B, K, D], A [N_I, B, K, N] {
    x -> Attend(s=s_0) over N_I as attend : A, s
}
"""


def test_rounds_without_an_operand_are_those_of_torch() -> None:
    import torch

    rng = np.random.default_rng(0)
    program = xg.compile(source=SLOTS, block="Slots")
    inputs = {"x": rng.standard_normal((2, 5, 4)), "s_0": rng.standard_normal((2, 3, 4))}
    params = {"attend.W": rng.standard_normal((4, 4))}
    given = {n: torch.tensor(a, requires_grad=True) for n, a in {**params, **inputs}.items()}
    W, x, s = given.values()
    maps: list[Any] = []
    for _ in range(3):
        maps.append(torch.softmax(s @ W @ x.mT, -2))
        s = torch.tanh(maps[-1] @ x)
    results = {"s": s, "A": torch.stack(maps)}
    weights = {name: rng.standard_normal(tuple(y.shape)) for name, y in results.items()}
    total = torch.stack([(y * torch.tensor(weights[n])).sum() for n, y in results.items()]).sum()
    slopes = dict(zip(given, torch.autograd.grad(total, [*given.values()]), strict=True))
    interpreter = Interpreter(program.graphs, params)
    outputs, record = interpreter.forward(inputs)
    found = {"interpreter": (outputs, interpreter.backward(record, weights))}
    for backend in BACKENDS:
        for kernels in forms_of_code(backend):
            module = program.on_arrays(backend, "float64", kernels=kernels)
            outputs, saved = module.forward(params, inputs)
            found[f"{backend} {kernels}"] = outputs, module.backward(params, saved, weights)
    for form, (values, gradients) in found.items():
        for name, y in results.items():
            np.testing.assert_allclose(values[name], y.detach().numpy(), 1e-9, 1e-12, err_msg=form)
        for name, slope in slopes.items():
            np.testing.assert_allclose(gradients[name], slope.numpy(), 1e-8, 1e-11, err_msg=form)


DUMMY = """
dim B, D, N_I = 3

block Round(x [B, D], t []) -> y [B, D] {{
    state h [B, D]

    h -> ⊕<-x -> tanh : y
    next h = y
}}

block F(x [B, D]) -> h [B, D] {{
    {}
}}
"""


def test_the_help_for_a_dummy_operand_is_true() -> None:
    line = "fill[N_I](0) : t\n    x, t -> Round over N_I : y, h"
    text = DUMMY.format(line)
    (warning, *_) = [each for each in refused(text) if "input t" in each.message]
    assert warning.help == ("use it, or leave t out",)
    without = text.replace(", t []", "").replace("fill[N_I](0) : t\n    ", "").replace("x, t", "x")
    assert not [each for each in refused(without) if each.severity == "error"]


@pytest.mark.parametrize("state", ["", "    next h = y\n"])
def test_rounds_that_are_all_the_same_are_refused(state: str) -> None:
    declared = "    state h [B, D]\n" if state else ""
    text = (
        "dim B, D, N_I = 3\n"
        f"block Round(x [B, D]) -> y [B, D] {{\n{declared}    x -> tanh : y\n{state}}}\n"
        "block F(x [B, D]) -> y [N_I, B, D] {\n    x -> Round over N_I : y\n}\n"
    )
    assert bool([each for each in refused(text) if each.code == "XG0314"]) == (not state)
