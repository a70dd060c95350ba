"""Generated modules as their readers and users meet them: text, independence, refusals."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import xg
from xg.codegen.emit.module import block_functions
from xg.driver import BACKENDS

GOLDEN = Path(__file__).parent / "golden"
DIAGRAMS = Path(__file__).parents[3] / "diagrams"
GOLDENS = {"mha": "MHA", "mlp": "MLP", "transformer": "LM", "llama": "Llama"}
ELSEWHERE = (("mha", "torch"), ("transformer", "torch"), ("mlp", "jax"))
WHOLE = {"mha", "mha_torch", "mlp_jax"}
SMALL = {"V": 11, "D": 12, "N_H": 3, "N_L": 2, "D_ff": 7, "S_max": 9}


OF_RANKS = {"mlp_tp": ("mlp", "TP"), "transformer_dp_tp": ("transformer", "DP × TP")}


def program(name: str, plan: str | None = None) -> xg.Program:
    (path,) = DIAGRAMS.rglob(f"{name}.xg")
    return xg.compile(path, block=GOLDENS[name], plan=plan)


def compare(name: str, module: str, golden: Callable[[Path, str], None]) -> None:
    """The whole module of one program per backend, the functions of the blocks of others."""
    if name in WHOLE:
        golden(GOLDEN / f"{name}.py", module)
    else:
        golden(GOLDEN / f"{name}.txt", block_functions(module))


@pytest.mark.parametrize("name", GOLDENS)
def test_modules_read_as_in_the_golden(name: str, golden: Callable[[Path, str], None]) -> None:
    compare(name, program(name).source(), golden)


@pytest.mark.parametrize(("name", "backend"), ELSEWHERE)
def test_modules_of_other_backends_read_as_in_the_golden(
    name: str, backend: str, golden: Callable[[Path, str], None]
) -> None:
    compare(f"{name}_{backend}", program(name).source(backend), golden)


@pytest.mark.parametrize("name", OF_RANKS)
def test_modules_of_ranks_read_as_in_the_golden(
    name: str, golden: Callable[[Path, str], None]
) -> None:
    ranks = program(*OF_RANKS[name])
    compare(name, ranks.source("numpy"), golden)
    compare(f"{name}_torch", ranks.source("torch"), golden)


def test_kernels_read_as_in_the_golden(golden: Callable[[Path, str], None]) -> None:
    compare("mha_kernels_torch", program("mha").source("torch", kernels=True), golden)


def test_steps_read_as_in_the_golden(golden: Callable[[Path, str], None]) -> None:
    compare("llama_step", program("llama").step().source("numpy"), golden)
    compare("transformer_step_torch", program("transformer").step().source("torch"), golden)


def test_no_golden_without_a_diagram() -> None:
    elsewhere = {f"{name}_{backend}" for name, backend in ELSEWHERE}
    elsewhere |= {f"{name}_torch" for name in OF_RANKS}
    assert {backend for _, backend in ELSEWHERE} == {*BACKENDS[1:]}
    others = {"llama_step", "transformer_step_torch", "mha_kernels_torch"}
    found = {file.stem for file in GOLDEN.iterdir() if file.suffix in (".py", ".txt")}
    assert found == {*GOLDENS, *OF_RANKS, *elsewhere, *others}


# ---- on their own --------------------------------------------------------------------------------

ALONE = """
import sys
sys.modules["xg"] = sys.modules["xg_runtime"] = sys.modules["torch"] = None
sys.path.insert(0, sys.argv[1])
import numpy as np
import transformer
params = transformer.init(0, np.float64, V=11, D=8, S_max=9)
inputs = {"ids": np.array([[1, 2, 3]]), "t": np.array([[2, 3, 4]])}
outputs, saved = transformer.forward(params, inputs, seed=1)
grads = transformer.backward(params, saved, {"loss": np.array(1.0)})
assert set(grads) == set(params)
print(float(outputs["loss"]))
"""


ALONE_IN_TORCH = """
import sys
sys.modules["xg"] = sys.modules["xg_runtime"] = None
sys.path.insert(0, sys.argv[1])
import torch
import transformer
params = transformer.init(0, torch.float64, V=11, D=8, S_max=9)
inputs = {"ids": torch.tensor([[1, 2, 3]]), "t": torch.tensor([[2, 3, 4]])}
outputs, saved = transformer.forward(params, inputs, seed=1)
grads = transformer.backward(params, saved, {"loss": torch.tensor(1.0)})
assert set(grads) == set(params)
print(float(outputs["loss"]))
"""


ALONE_IN_JAX = """
import sys
sys.modules["xg"] = sys.modules["xg_runtime"] = sys.modules["torch"] = None
sys.path.insert(0, sys.argv[1])
import jax.numpy as jnp
import mlp
params = mlp.init(0, D=8)
outputs, saved = mlp.forward(params, {"X": jnp.arange(48.0).reshape(2, 3, 8) / 16}, seed=1)
grads = mlp.backward(params, saved, {"Y": jnp.ones((2, 3, 8))})
assert set(grads) == {*params, "X"}
print(float((outputs["Y"] ** 2).mean()))
"""


ALL_ALONE = {"numpy": ALONE, "jax": ALONE_IN_JAX, "torch": ALONE_IN_TORCH}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_module_runs_where_xg_is_not(backend: str, tmp_path: Path) -> None:
    name = "mlp" if backend == "jax" else "transformer"
    (tmp_path / f"{name}.py").write_text(program(name).source(backend), encoding="utf-8")
    command = [sys.executable, "-I", "-W", "error", "-c", ALL_ALONE[backend], str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert 1.0 < float(ran.stdout) < 5.0


# ---- sizes ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> ModuleType:
    return xg.compile(DIAGRAMS / "models" / "transformer.xg", sizes=SMALL).load("numpy")


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (2, 9), (5, 4)])
def test_sizes_are_read_from_inputs(model: ModuleType, batch: int, length: int) -> None:
    ids = np.zeros((batch, length), np.int64)
    outputs, saved = model.forward(model.init(), {"ids": ids, "t": ids})
    assert outputs["Z"].shape == (batch, length, SMALL["V"])
    assert model.backward(model.init(), saved, {"Z": outputs["Z"]})["E"].shape == (11, 12)


def test_sizes_are_read_from_parameters(model: ModuleType) -> None:
    params = model.init(V=17, D=6)
    ids = np.array([[16]])
    assert model.forward(params, {"ids": ids, "t": ids})[0]["Z"].shape == (1, 1, 17)


IDS = np.zeros((2, 3), np.int64)
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # inputs, changed parameters
    "t [2, 3] is missing": ({"ids": IDS}, {}),
    "t should have shape [2, 3], not [2, 4]": ({"ids": IDS, "t": np.zeros((2, 4), np.int64)}, {}),
    "gamma should have shape [12], not [12, 1]": (
        {"ids": IDS, "t": IDS},
        {"gamma": np.ones((12, 1))},
    ),
    "layers.1.attn.W_Q should have shape [12, 12], not [12, 13]": (
        {"ids": IDS, "t": IDS},
        {"layers.1.attn.W_Q": np.ones((12, 13))},
    ),
    "layers.0.ffn.b_up [7] is missing": ({"ids": IDS, "t": IDS}, {"layers.0.ffn.b_up": None}),
    "ids is missing": ({"t": IDS}, {}),
    "E is missing": ({"ids": IDS, "t": IDS}, {"E": None}),
    "ids should have 2 axes, not shape [3]": ({"ids": IDS[0], "t": IDS}, {}),
    "ids should be an array: lists and numbers have no shape": ({"ids": [[0]], "t": IDS}, {}),
    "there is no mask, but ids, t": ({"ids": IDS, "t": IDS, "mask": IDS}, {}),
    "there is no layers.2.ffn.b_up, but E, ": (
        {"ids": IDS, "t": IDS},
        {"layers.2.ffn.b_up": np.ones(7)},
    ),
}


@pytest.mark.parametrize("said", REFUSED)
def test_arrays_that_do_not_fit_are_refused_by_name(model: ModuleType, said: str) -> None:
    inputs, changes = REFUSED[said]
    params = model.init() | changes
    params = {name: value for name, value in params.items() if value is not None}
    with pytest.raises((ValueError, TypeError), match=re.escape(said)):
        model.forward(params, inputs)


def test_a_cotangent_of_no_output_is_refused(model: ModuleType) -> None:
    """It would count as zero, and all gradients would be zero without a word."""
    params = model.init()
    _, saved = model.forward(params, {"ids": IDS, "t": IDS})
    with pytest.raises(ValueError, match="there is no Loss, but Z, loss"):
        model.backward(params, saved, {"Loss": np.float32(1)})


def test_a_cotangent_of_another_shape_is_refused(model: ModuleType) -> None:
    """It would be repeated along axes that it has not, and gradients would be of another sum."""
    params = model.init()
    outputs, saved = model.forward(params, {"ids": IDS, "t": IDS})
    whole = np.ones_like(outputs["Z"])
    model.backward(params, saved, {"Z": whole})
    wrong = f"dZ should have shape {list(whole.shape)}, not {list(whole.shape[1:])}"
    with pytest.raises(ValueError, match=re.escape(wrong)):
        model.backward(params, saved, {"Z": whole[0]})


# ---- names ---------------------------------------------------------------------------------------


TITLE = "\"''' %s {np} \\N{BELL}\""
HOSTILE = """\
dim np = 2, params = 3, range = 4, len = 7, softmax, lambda = 5
block dropout TITLE (seed [np, params], at [params, range] in 2, len [softmax])
    -> out [np, params], list [softmax] {
    param init [len, lambda], table [2, lambda]
    at -> Emb(table) : one [params, range, lambda]
    one -> •<=T(init) -> mean[params, range] : float [len]
    one -> sum[params] -> mean[range, lambda] : grads []
    len -> S -> DO(0.1) -> ⊕<-BC(grads) : list
    seed -> S -> ⊕<-(float -> mean[len] -> BC) -> tanh : out
}
"""


def test_names_that_mean_something_in_python_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "hostile.xg"
    path.write_text(HOSTILE.replace("TITLE", TITLE), encoding="utf-8")
    module = xg.compile(path).load("numpy")
    params = module.init(0, np.float64)
    inputs = {"seed": np.ones((2, 3)), "at": np.ones((3, 4), np.int64), "len": np.ones(6)}
    outputs, saved = module.forward(params, inputs, seed=1)
    grads = module.backward(params, saved, outputs)
    assert {name: grad.shape for name, grad in grads.items()} == {
        "init": (7, 5), "table": (2, 5), "seed": (2, 3), "len": (6,),
    }  # fmt: skip
