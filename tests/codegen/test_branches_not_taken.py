"""A branch that is not taken has no gradient, though its slope may be infinite or NaN there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import forms_of_code, with_calls
from numpy.typing import NDArray
from tier import THOROUGH

import xg
from xg.driver import BACKENDS
from xg.verify.reference.interpret import Interpreter

Array = NDArray[Any]
Arrays = dict[str, Array]

X = np.array([[-1.5, 0.0, 0.3, 2.0, -0.0], [1.0, -2.0, 0.0, 0.25, -0.5]])
ON, MORE = X > 0, X > 1
ROOT = np.where(ON, 0.5 / np.sqrt(np.where(ON, X, 1)), 0)
OVER = np.where(ON, 1 / np.where(ON, X, 1), 0)
LARGEST = X.max(axis=1, keepdims=True) == X

# Operators that are finite on X, and what dX is where every dY is 1.
GRADIENTS: dict[str, Array] = {
    "(x) = select(x > 0, sqrt(x), 0)": ROOT,
    "(x) = select(0 >= x, 0, sqrt(x))": ROOT,
    "(x) = select(x > 0, log(x), 2*x)": np.where(ON, OVER, 2),
    "(x) = select(x > 0, x^(-1/2), 0)": -0.5 * OVER**1.5,
    "(x) = select(x > 0, 1/x, 0)": -(OVER**2),
    "(x) = select(x > 0, x * log(x), 0)": np.where(ON, np.log(np.where(ON, X, 1)) + 1, 0),
    "(x) = select(x > 0, sqrt(x), -sqrt(1 - x))": np.where(
        ON, ROOT, 0.5 / np.sqrt(np.where(ON, 1, 1 - X))
    ),
    "(x) = select(x > 0, select(x > 1, log(x - 1), log(x)), 0)": np.where(
        MORE, 1 / np.where(MORE, X - 1, 1), OVER
    ),
    "(x) = select(x > 0, y, 0) + select(x > 1, y * y, 0) where y = sqrt(x)": ROOT + MORE,
    "(x) = select(x > 0, y, 0) + select(x > 0, y * y, 0) where y = sqrt(x)": ROOT + ON,
    "(x) = max(log(max(x, 0)), -1)": np.where(np.exp(-1) < X, OVER, 0),
    "(x) = min(1 / (max(x, 0) + 0), 3)": np.where(X > 1 / 3, -(OVER**2), 0),
    "(x [.., D]) = sum[D](select(x > 0, sqrt(x), 0))": ROOT,
    "(x [.., D]) = max[D](log(max(x, 0)))": np.where(LARGEST, OVER, 0),
    "(x [S, D]) = select(m > 0.5, sqrt(m), 0) * select(x > 0, 1, 0) where m = max[D](x) - 1": (
        LARGEST * (X > 1.5) * 0.5 * ON.sum(axis=1, keepdims=True)
    ),
    "(x [S, D]) = select(x > 0, sqrt(m), 0) where m = mean[S](x + 1.7)": np.broadcast_to(
        ON.sum(axis=0) / 4 / np.sqrt(X.mean(axis=0) + 1.7), X.shape
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def values_that_are_not_taken() -> Iterator[None]:
    """They may overflow: nothing is computed from them."""
    with np.errstate(all="ignore"):
        yield


def compiled(folder: Path, text: str) -> xg.Program:
    path = folder / "branches.xg"
    path.write_text(text, encoding="utf-8")
    return xg.compile(path)


def runs(
    program: xg.Program, params: Arrays, inputs: Arrays, backends: Sequence[str] = BACKENDS
) -> Iterator[tuple[Arrays, Arrays]]:
    """Outputs, and gradients for cotangents of 1: interpreted, and in each backend and form."""
    interpreter = Interpreter(program.graphs, params)
    outputs, record = interpreter.forward(inputs)
    ones = {name: np.ones_like(output) for name, output in outputs.items()}
    yield outputs, interpreter.backward(record, ones)
    for backend in backends:
        for kernels in forms_of_code(backend):
            module = program.on_arrays(backend, "float64", kernels=kernels)
            outputs, saved = module.forward(params, inputs)
            yield outputs, module.backward(params, saved, ones)


SOME = list(GRADIENTS)[::3]  # daily in JAX as well, whose code is NumPy's in other words


@pytest.mark.parametrize("formula", GRADIENTS)
def test_its_gradient_is_that_of_the_branch_taken(formula: str, tmp_path: Path) -> None:
    shape = "[S]" if formula.startswith("(x [.., D])") else "[S, D]"
    backends = BACKENDS if THOROUGH or formula in SOME else with_calls()
    text = f"op F{formula}\ndim S, D\nblock N(x [S, D]) -> y {shape} {{\n    x -> F : y\n}}\n"
    for outputs, gradients in runs(compiled(tmp_path, text), {}, {"x": X}, backends):
        assert np.isfinite(outputs["y"]).all()
        np.testing.assert_allclose(gradients["x"], GRADIENTS[formula], rtol=1e-12)


DECAY = """\
op Decay(x, d; g) = select(d >= 0, exp(d * log(g)) * x, 0)
dim S, D
block Retention(x [S, D], d [S, D]) -> y [S, D] {
    param g [] = ones
    x, d -> Decay(g) : y
}
"""
TINY = 1e-300  # numbers so small that not every library holds them


def test_a_decay_mask_of_200_positions(tmp_path: Path) -> None:
    text = DECAY.replace("; g)", "; g [])").replace("[S, D]", "[S, S]").replace("S, D", "S")
    program = compiled(tmp_path, text)
    rows, columns = np.indices((200, 200))
    distance = (rows - columns).astype(float)
    x, g = np.random.default_rng(0).normal(size=(200, 200)), np.array(0.01)
    seen = np.where(distance >= 0, distance, 0)
    decay = np.where(distance >= 0, g**seen, 0)
    assert not np.isfinite(np.exp(distance * np.log(g))).all()
    for outputs, gradients in runs(program, {"g": g}, {"x": x, "d": distance}):
        np.testing.assert_allclose(outputs["y"], decay * x, rtol=1e-12, atol=TINY)
        np.testing.assert_allclose(gradients["x"], decay, rtol=1e-12, atol=TINY)
        slope = np.where(distance >= 0, seen * g ** np.maximum(seen - 1, 0), 0)
        np.testing.assert_allclose(gradients["g"], (slope * x).sum(), rtol=1e-12)
        np.testing.assert_allclose(gradients["d"], decay * x * np.log(g), rtol=1e-12, atol=TINY)


MASKED = """\
op Weights(z [.., t], m [.., t]) = e / sum[t](e)
    where s = select(m > 0, log(z), -1000),
          e = exp(s - max[t](s))
dim S, D
block N(z [S, D], m [S, D]) -> y [S, D] {
    z, m -> Weights : y
    y -> ⊙<-z : y
}
"""


def test_a_masked_softmax_by_hand(tmp_path: Path) -> None:
    text = MASKED.replace("-> Weights : y", "-> Weights : p").replace("    y ->", "    p ->")
    z = np.array([[0.5, 0.0, 1.5, -2.0], [0.0, 3.0, -1.0, 0.7]])
    mask = (z > 0).astype(float)
    p = z * mask / (z * mask).sum(axis=1, keepdims=True)
    expected = (
        mask * (2 * z - (p * z).sum(axis=1, keepdims=True)) / (z * mask).sum(axis=1, keepdims=True)
    )
    for outputs, gradients in runs(compiled(tmp_path, text), {}, {"z": z, "m": mask}):
        np.testing.assert_allclose(outputs["y"], p * z, atol=1e-12)
        np.testing.assert_allclose(gradients["z"], expected, atol=1e-12)


IGNORED = """\
dim B, V
block Mean(z [B, V], t [B] in V, w [B] in 2) -> loss [] {
    z, t, w -> CE : loss
}
"""


def test_a_row_that_does_not_count_has_no_gradient_whatever_its_logits(tmp_path: Path) -> None:
    z = np.array([[0.5, 0.0, 1.5], [-np.inf, -np.inf, -np.inf], [np.nan, 1.0, np.inf]])
    inputs = {"z": z, "t": np.array([2, 1, 0]), "w": np.array([1, 0, 0])}
    softmax = np.exp(z[0]) / np.exp(z[0]).sum()
    for outputs, gradients in runs(compiled(tmp_path, IGNORED), {}, inputs):
        np.testing.assert_allclose(outputs["loss"], -np.log(softmax[2]), rtol=1e-12)
        np.testing.assert_allclose(gradients["z"][0], softmax - [0, 0, 1], rtol=1e-12)
        assert not np.any(gradients["z"][1:])
