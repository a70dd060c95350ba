"""Real numbers on ranks: a parallel program run once on simulated ranks, each with its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import xg_runtime.ranks as ranks
from xg.driver import Program
from xg.pages.explorer.play import SEED, PlayRun, recorded
from xg.pages.explorer.uses import BlockUse
from xg.sharding.shard_spec import cuts
from xg.verify.reference import random_inputs as invented
from xg.verify.reference.body_cache import BodyCache
from xg.verify.reference.interpret import Interpreter, Record, initial
from xg.verify.reference.mesh import Mesh
from xg.verify.single_device import single
from xg_runtime.ranks.grid import Grid


def play_ranks(small: Program, uses: Sequence[BlockUse]) -> list[PlayRun]:
    """One run of a parallel program whose sizes all have numbers, rank by rank.

    Every rank gets its parts of the numbers that `play` draws for one device.
    """
    alone, mesh, traces = single(small).graphs, small.graphs.mesh, BodyCache()
    params, inputs = initial(alone, SEED), invented.inputs(alone, SEED)
    outputs, _ = Interpreter(alone, params, SEED).forward(inputs)
    cotangents = invented.cotangents(outputs, SEED)
    where = cuts(small.graphs)

    def rank() -> Record:
        mine, beside = ranks.local_shards(params, where), cast(Mesh, ranks)
        interpreter = Interpreter(small.graphs, mine, SEED, traces=traces, mesh=beside)
        _, record = interpreter.forward(ranks.local_shards(inputs, where))
        interpreter.backward(record, ranks.local_shards(cotangents, where))
        return record

    grid = Grid(mesh)
    return [
        recorded(f"rank {number}", record, uses, grid.coordinates(number))
        for number, record in enumerate(ranks.simulate(mesh, rank))
    ]
