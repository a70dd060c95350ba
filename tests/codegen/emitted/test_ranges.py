"""Generated modules refuse integers outside the range that the file declares: none are moved."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from tests.backends import with_kernels

import xg
from xg.codegen.backend import backends

FILE = """\
dim B, S, D = 4, V = 5, N

block LM(ids [B, S] in V, t [B, S] in V, group [B, S] in N) -> loss [] {
    param E [V, D]

    ids -> Emb(E) -> •<=T(E) : Z
    Z, t -> Loss             : loss
    group -> Even            : even
}

op Even(g [..] in N) = equal(g, 0)

block Loss(Z [B, S, V], t [B, S] in V) -> loss [] {
    t -> R   : t_flat [B*S] in V
    Z -> R   : Z_flat [B*S, V]
    Z_flat, t_flat -> CE(ignore=-100) : loss
}
"""
GOOD = {"ids": [[0, 4]], "t": [[-100, 4]], "group": [[7, 8]]}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "negative": ({"ids": [[0, -1]]}, "ids[0, 1] is -1, expected integers from 0 to 4"),
    "too large": ({"t": [[5, -100]]}, "t[0, 0] is 5, expected integers from 0 to 4"),
    "not ignored": ({"ids": [[-100, 0]]}, "ids[0, 0] is -100, expected integers from 0 to 4"),
    "floats": ({"ids": [[0.0, 1.0]]}, "ids should be integers, not "),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> xg.Program:
    path = tmp_path_factory.mktemp("ranges") / "lm.xg"
    path.write_text(FILE, encoding="utf-8")
    return xg.compile(path, block="LM")


MADE: dict[tuple[str, bool], tuple[ModuleType, Any]] = {}


def ready(program: xg.Program, backend: str, kernels: bool) -> tuple[ModuleType, Any]:
    """The module of a backend and its parameters, made once."""
    if (backend, kernels) not in MADE:
        module = program.load(backend, kernels=kernels)
        MADE[backend, kernels] = module, module.init()
    return MADE[backend, kernels]


def arrays_of(backend: str) -> Callable[[Any], Any]:
    """The function that makes an array of the library that a backend computes with."""
    library = backends()[backend].runs.library
    module: Any = import_module("jax.numpy" if library == "jax" else library)
    return module.asarray


FORMS = [(name, False) for name in backends()] + [(name, True) for name in with_kernels()]


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize(("backend", "kernels"), FORMS)
def test_integers_outside_their_range_are_refused(
    program: xg.Program, backend: str, kernels: bool, what: str
) -> None:
    (module, params), array = ready(program, backend, kernels), arrays_of(backend)
    changes, said = BAD[what]
    inputs = {name: array(value) for name, value in (GOOD | changes).items()}
    with pytest.raises(ValueError, match=re.escape(said)):
        module.forward(params, inputs)


@pytest.mark.parametrize(("backend", "kernels"), FORMS)
def test_targets_that_a_loss_ignores_are_not(
    program: xg.Program, backend: str, kernels: bool
) -> None:
    """Also where the loss is in a block, behind a reshape; a range without a size has no end."""
    (module, params), array = ready(program, backend, kernels), arrays_of(backend)
    outputs, _ = module.forward(params, {name: array(v) for name, v in GOOD.items()})
    assert np.isfinite(float(outputs["loss"]))


def test_a_model_of_torch_refuses_them_too_and_can_be_traced(program: xg.Program) -> None:
    model = program.load("torch").Model()
    inputs = {name: torch.tensor(value) for name, value in GOOD.items()}
    with pytest.raises(ValueError, match=re.escape("ids[0, 1] is 5, expected integers")):
        model(**inputs | {"ids": torch.tensor([[0, 5]])})
    exported = torch.export.export(model, (), inputs).module()
    assert torch.equal(exported(**inputs)["loss"], model(**inputs)["loss"])


def test_a_step_refuses_them() -> None:
    program = xg.compile("gpt2", sizes={"V": 11, "D": 12, "N_H": 3, "N_L": 1, "S_max": 9})
    module, weights = program.step().load("numpy"), program.load("numpy").init()
    with pytest.raises(ValueError, match=re.escape("ids[0, 0] is 11, expected integers")):
        module.step(weights, module.empty_cache(weights), {"ids": np.array([[11]])})
