"""Slopes at kinks and ties inside of larger formulas are those of torch, in every backend.

Those of one operator or function alone are its conventions: tests/ops/test_conventions.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from backends import forms_of_code

import xg
from xg.driver import BACKENDS
from xg.verify.reference.interpret import Interpreter

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

# Formulas of x [S, D], and the same in torch; every element is at a kink or beside one.
X = np.array([[0.0, 0.0, -1.0, 2.0], [3.0, -0.0, 3.0, 0.0]])
FORMULAS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "(x [S, D]) = x^(D - 4)": lambda torch, x: x**0,
    "(x) = x^2": lambda torch, x: x**2,
    "(x) = max(x, 2*x)": lambda torch, x: torch.maximum(x, 2 * x),
    "(x) = x * sigmoid(x)": lambda torch, x: torch.nn.functional.silu(x),
    "(x) = max(x, 0) + log(1 + exp(-abs(x)))": lambda torch, x: torch.nn.functional.softplus(x),
    "(x [.., D]) = x - max[D](x)": lambda torch, x: x - x.amax(-1, keepdim=True),
    "(x [.., D]) = x * min[D](x)": lambda torch, x: x * x.amin(-1, keepdim=True),
    "(x) = x * sign(x) + x * floor(x/2) - x^2 * round(x/2)": lambda torch, x: (
        x * x.sign() + x * (x / 2).floor() - x**2 * (x / 2).round()
    ),
    "(x) = softplus(x) * log1p(x^2)": lambda torch, x: (
        torch.nn.functional.softplus(x) * torch.log1p(x**2)
    ),
    "(x [.., D]) = x * logsumexp[D](x)": lambda torch, x: x * x.logsumexp(-1, keepdim=True),
    "(x [S, D]) = x * cumsum[S](x) * cumsum[D](x^2)": lambda torch, x: (
        x * x.cumsum(0) * (x**2).cumsum(1)
    ),
    "(x [.., D]) = x * argmax[D](x)": lambda torch, x: x * x.argmax(-1, keepdim=True),
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_slopes_at_kinks_are_those_of_torch(formula: str, tmp_path: Path) -> None:
    import torch

    path = tmp_path / "kink.xg"
    path.write_text(
        f"op F{formula}\ndim S, D\nblock N(x [S, D]) -> y [S, D] {{\n    x -> F : y\n}}\n",
        encoding="utf-8",
    )
    program = xg.compile(path)
    x = torch.tensor(X, requires_grad=True)
    (slope,) = torch.autograd.grad(FORMULAS[formula](torch, x).sum(), x)
    expected = slope.numpy()
    interpreter = Interpreter(program.graphs, {})
    outputs, record = interpreter.forward({"x": X})
    ones = {"y": np.ones_like(outputs["y"])}
    found = {"interpreter": interpreter.backward(record, ones)["x"]}
    for backend in BACKENDS:
        for kernels in forms_of_code(backend):
            module = program.on_arrays(backend, "float64", kernels=kernels)
            _, saved = module.forward({}, {"x": X})
            found[f"{backend} {kernels}"] = module.backward({}, saved, ones)["x"]
    for form, gradient in found.items():
        np.testing.assert_allclose(gradient, expected, atol=1e-15, err_msg=form)
