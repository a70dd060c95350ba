import subprocess
import sys

import numpy as np
import pytest

from xg_runtime.errors import RunError
from xg_runtime.module import Arrays, Module
from xg_runtime.run import run


def test_outputs_and_gradients_have_their_names(small: Module, small_inputs: Arrays) -> None:
    params = small.init(0, np.float64)
    d_outputs = {"loss": np.ones(())}
    assert list(run(small, params, small_inputs)) == ["Z", "loss"]
    found = run(small, params, small_inputs, d_outputs=d_outputs)
    assert list(found) == ["Z", "loss", "d/E", "d/W", "d/b", "d/W_out", "d/b_out"]
    _, saved = small.forward(params, small_inputs)
    assert np.array_equal(found["d/W"], small.backward(params, saved, d_outputs)["W"])


def test_dropout_is_on_with_a_seed(small: Module, small_inputs: Arrays) -> None:
    params = small.init(0, np.float64)
    losses = [run(small, params, small_inputs, seed=s)["loss"] for s in (None, None, 1, 1, 2)]
    assert losses[0] == losses[1]
    assert losses[2] == losses[3]
    assert len({float(loss) for loss in losses}) == 3


def test_a_nan_is_an_error(small: Module, small_inputs: Arrays) -> None:
    params = small.init(0, np.float64)
    params["b"][0] = np.nan
    with pytest.raises(RunError, match="Z holds values that are not numbers"):
        run(small, params, small_inputs)


IMPORT_ALL = """
import importlib, pkgutil, sys, xg_runtime
assert "numpy" not in sys.modules
for part in pkgutil.iter_modules(xg_runtime.__path__):
    if part.name not in ("tensors", "tensor_stepper"):  # those that are about torch
        importlib.import_module("xg_runtime." + part.name)
print(sorted({name.split(".")[0] for name in sys.modules} & {"torch", "xg", "lark", "numpy"}))
"""


def test_the_runtime_imports_neither_torch_nor_the_compiler(environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", IMPORT_ALL]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "['numpy']\n"


LIGHT = """
import sys
from xg_runtime import errors, files, random
print("numpy" in sys.modules, "tempfile" in sys.modules)
"""


def test_what_the_compiler_uses_to_write_files_is_light(environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", LIGHT]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "False False\n"
