"""Generated modules of ranks on simulated ranks against the module of one device."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from sharding.ranks import Arrays, Pass, compared

import xg_runtime.ranks as ranks
from xg.driver import Program


def generated(
    one: Program,
    many: Program,
    params: Arrays,
    inputs: Arrays,
    seed: int | None = 3,
    module: ModuleType | None = None,
) -> dict[str, float]:
    """How far outputs and gradients of the ranks are from those of one device, by name."""
    alone, together = one.load(), module or many.load()

    def single(d_outputs: Callable[[Arrays], Arrays]) -> Pass:
        outputs, saved = alone.forward(params, inputs, seed=seed)
        return outputs, alone.backward(params, saved, d_outputs(outputs))

    def rank(d_outputs: Arrays) -> Pass:
        mine = ranks.local_shards(params, where)
        outputs, saved = together.forward(mine, ranks.local_shards(inputs, where), seed=seed)
        return outputs, together.backward(mine, saved, ranks.local_shards(d_outputs, where))

    where = together.cuts()
    return compared(single, rank, many.graphs.mesh, where)
