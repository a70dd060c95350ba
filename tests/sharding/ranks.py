"""Rank programs on simulated ranks against the program of one device, by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import xg_runtime.ranks as ranks
from xg.driver import Program
from xg.sharding.local import ShardSpec, cuts
from xg.verify.reference.evaluate import Mesh
from xg.verify.reference.interpret import Interpreter

Array = NDArray[Any]
Arrays = dict[str, Array]
Pass = tuple[Arrays, Arrays]  # outputs and gradients by name


def interpreted(
    one: Program, many: Program, params: Arrays, inputs: Arrays, seed: int | None = 3
) -> dict[str, float]:
    """How far outputs and gradients of the ranks are from those of one device, by name."""

    def single(d_outputs: Callable[[Arrays], Arrays]) -> Pass:
        runner = Interpreter(one.graphs, params, seed)
        outputs, record = runner.forward(inputs)
        return outputs, runner.backward(record, d_outputs(outputs))

    def rank(d_outputs: Arrays) -> Pass:
        mine = ranks.local_shards(params, where)
        runner = Interpreter(many.graphs, mine, seed, mesh=cast(Mesh, ranks))
        outputs, record = runner.forward(ranks.local_shards(inputs, where))
        return outputs, runner.backward(record, ranks.local_shards(d_outputs, where))

    where = cuts(many.graphs)
    return compared(single, rank, many.graphs.mesh, where)


def compared(
    single: Callable[[Callable[[Arrays], Arrays]], Pass],
    rank: Callable[[Arrays], Pass],
    mesh: Mapping[str, int],
    where: Mapping[str, ShardSpec],
) -> dict[str, float]:
    """The distances between one device and every rank, each run on the same cotangents."""
    random = np.random.default_rng(5)
    drawn: Arrays = {}

    def cotangents(outputs: Arrays) -> Arrays:
        drawn.update((name, random.standard_normal(np.shape(x))) for name, x in outputs.items())
        return drawn

    outputs, grads = single(cotangents)
    scale = float(np.sqrt(sum((g**2).sum() for g in grads.values())))

    def whole() -> Pass:
        outs, back = rank(drawn)
        return ranks.gather_shards(outs, where), ranks.gather_shards(back, where)

    found: dict[str, float] = {}
    for outs, back in ranks.simulate(mesh, whole):
        assert outs.keys() == outputs.keys()
        assert back.keys() == grads.keys()
        pairs = [(name, outs[name], outputs[name], 1.0) for name in outputs]
        pairs += [(f"d{name}", back[name], grads[name], scale) for name in grads]
        for name, have, want, size in pairs:
            norm = float(np.linalg.norm(want)) + 1e-2 * size
            error = float(np.linalg.norm(np.asarray(have) - want)) / norm
            found[name] = max(found.get(name, 0.0), error)
    return found
