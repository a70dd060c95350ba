"""RWKV's step keeps as much for any text, and its weights are exponents that may be anything."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.families import Arrays, V, in_double
from models.more_families import EVERY
from models.witness import Witness, quietly

import xg


def in_steps(witness: Witness, ids: Any, backend: str, kernels: bool) -> tuple[Any, Arrays]:  # noqa: ANN401 - an array
    """Logits of a text that is read in parts, and the cache behind it."""
    program, params = witness.held.program, witness.held.params
    module = program.step_on_arrays(backend, kernels=kernels)
    cache = module.empty_cache(params)
    parts: list[Any] = []
    for start, stop in ((0, 4), (4, 5), (5, 6), (6, ids.shape[1])):
        out, cache = module.step(params, cache, {"ids": ids[:, start:stop]})
        parts.append(out["Z"])
    return np.concatenate(parts, 1), cache


@pytest.mark.parametrize("kernels", [False, True], ids=["readable", "kernels"])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_steps_are_those_of_transformers(backend: str, kernels: bool, tmp_path: Path) -> None:
    """Its own states go from part to part as well."""
    torch: Any = import_module("torch")
    witness = Witness.of(EVERY["rwkv"], tmp_path)
    ids = np.random.default_rng(2).integers(0, V, (1, 40))
    with quietly(), in_double(), torch.no_grad():
        model = witness.family.model().from_pretrained(witness.folder, dtype=torch.float64).eval()
        state, said = None, list[Any]()
        for part in np.split(ids, 8, axis=1):
            found = model(input_ids=torch.from_numpy(part), state=state, use_cache=True)
            state = found.state
            said.append(found.logits.numpy())
    logits, cache = in_steps(witness, ids, backend, kernels)
    assert np.abs(logits - np.concatenate(said, 1)).max() < 1e-8
    _, shorter = in_steps(witness, ids[:, :7], backend, kernels)
    shapes = [{name: each.shape for name, each in found.items()} for found in (shorter, cache)]
    assert shapes[0] == shapes[1]
    assert len(cache) == 2 * 6  # of each layer


@pytest.mark.parametrize("kernels", [False, True], ids=["readable", "kernels"])
@pytest.mark.parametrize("scale", [2000.0, -2000.0])
def test_exponents_beyond_all_floats(scale: float, kernels: bool) -> None:
    """Keys from -2000 to 2000, at the first position too, whose exponentials are 0 or infinite."""
    torch: Any = import_module("torch")
    found: Any = import_module("transformers.models.rwkv.modeling_rwkv")
    program = xg.compile(EVERY["rwkv"].path, block="TimeMix", sizes={"D": 3, "D_a": 3})
    rng = np.random.default_rng(0)
    params = {name: rng.normal(size=tuple(map(int, p.shape))) for name, p in program.params.items()}
    params["W_k"] = np.full((3, 3), scale)
    x = np.abs(rng.normal(size=(2, 5, 3)))
    module = program.load(kernels=kernels)
    given, saved = module.forward(params, {"X": x})
    gradients = module.backward(params, saved, {"Y": np.ones_like(x)})
    before = np.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    mixed = {n: x * params[f"mu_{n}"] + before * (1 - params[f"mu_{n}"]) for n in "kvr"}
    k, v, r = (torch.from_numpy(mixed[n] @ params[f"W_{n}"]) for n in "kvr")
    decay, first = (torch.from_numpy(params[f"shares.{name}"]) for name in ("lambda", "u"))
    with in_double():
        mean, _ = found.rwkv_linear_attention_cpu(decay, first, k, v)
    wanted = (torch.sigmoid(r) * mean).numpy() @ params["W_out"]
    assert np.abs(given["Y"] - wanted).max() < 1e-8
    assert all(np.isfinite(gradient).all() for gradient in gradients.values())
