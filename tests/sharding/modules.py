"""Generated modules of ranks on simulated ranks against the module of one device."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import xg_runtime.ranks as ranks

Array = NDArray[Any]
Arrays = dict[str, Array]


def distances(
    one: ModuleType,
    many: ModuleType,
    mesh: Mapping[str, int],
    params: Arrays,
    inputs: Arrays,
    seed: int | None = 3,
) -> dict[str, float]:
    """How far outputs and gradients of the ranks are from those of one device, by name."""
    outputs, saved = one.forward(params, inputs, seed=seed)
    random = np.random.default_rng(5)
    d_outputs = {name: random.standard_normal(np.shape(x)) for name, x in outputs.items()}
    grads = one.backward(params, saved, d_outputs)

    def rank() -> tuple[Arrays, Arrays]:
        cuts = many.cuts()
        mine = ranks.parts(params, cuts)
        found, kept = many.forward(mine, ranks.parts(inputs, cuts), seed=seed)
        back = many.backward(mine, kept, ranks.parts(d_outputs, cuts))
        return ranks.wholes(found, cuts), ranks.wholes(back, cuts)

    scale = float(np.sqrt(sum((g**2).sum() for g in grads.values())))
    found: dict[str, float] = {}
    for outs, back in ranks.simulate(mesh, rank):
        assert outs.keys() == outputs.keys()
        assert back.keys() == grads.keys()
        pairs = [(n, outs[n], outputs[n], 1.0) for n in outputs]
        pairs += [(f"d{n}", back[n], grads[n], scale) for n in grads]
        for name, have, want, size in pairs:
            norm = float(np.linalg.norm(want)) + 1e-2 * size
            error = float(np.linalg.norm(np.asarray(have) - want)) / norm
            found[name] = max(found.get(name, 0.0), error)
    return found
