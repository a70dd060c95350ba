"""Numbers that are chosen or counted have the type of the model's floats."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import xg
from xg.driver import BACKENDS
from xg.verify.reference.interpret import Interpreter

FILE = """\
dim B, D, N
op Share(x [.., D]) = mean[D](select(x > 0, 1, 0))
op Third(x) = select(x > 0, 1, 0) / 3
op Step(x) = select(x > 0, 0.1, 0.7)
op Two(x) = select(x > 0, 2, 3)
op Number(i [..] in N) = float(i)
op Fading(x [.., D]) = x - 0.3 * (place - 1) where place = range[D]

block Net(X [B, D], i [B, D] in N) -> Y [B, D] {
    param W [D, D]
    X -> Share              : share [B]
    X -> Third              : third [B, D]
    X -> Two                : two [B, D]
    i -> Number             : number [B, D]
    X -> Fading             : fading [B, D]
    fill[B, D](0.3)         : filled [B, D]
    X -> ⊙<-(X -> Step)     : H [B, D]
    X -> Step -> •<=W -> ⊕<-H : Y
}
"""
NAMES = ("share", "third", "two", "number", "fading", "filled", "H")


@cache
def program() -> xg.Program:
    outputs = ", ".join(f"{name} [B{'' if name == 'share' else ', D'}]" for name in NAMES)
    return xg.compile(source=FILE.replace("Y [B, D] {", f"Y [B, D], {outputs} {{"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_result_has_the_type_of_the_inputs(backend: str, dtype: type[np.floating]) -> None:
    random = np.random.default_rng(0)
    params = {"W": random.standard_normal((4, 4)).astype(dtype)}
    inputs = {"X": random.standard_normal((3, 4)).astype(dtype), "i": random.integers(0, 9, (3, 4))}
    module = program().on_arrays(backend)
    outputs, saved = module.forward(params, inputs, seed=None)
    wanted, _ = Interpreter(program().graphs, params).forward(inputs)
    gradients = module.backward(
        params, saved, {name: np.ones_like(y) for name, y in outputs.items()}
    )
    found = {**outputs, **{f"d{name}": array for name, array in gradients.items()}}
    assert {name: array.dtype for name, array in found.items()} == dict.fromkeys(found, dtype)
    for name, array in outputs.items():
        np.testing.assert_allclose(array, wanted[name], rtol=float(4 * np.finfo(dtype).eps))
