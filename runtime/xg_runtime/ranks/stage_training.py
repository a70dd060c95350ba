"""The steps of training on the stages of one rank: the parts of a batch are the microbatches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from xg_runtime.module import Arrays
from xg_runtime.ranks.collectives import all_reduce
from xg_runtime.ranks.mesh import current
from xg_runtime.ranks.pipeline import Part, Pipeline
from xg_runtime.stage_messages import scheduled_actions
from xg_runtime.world import World


@dataclass(frozen=True)
class StageTraining:
    """The running rank's stages, and the name of the order in which it takes its cells."""

    pipeline: Pipeline
    schedule: str

    def init(self, seed: int = 0, dtype: DTypeLike = np.float32) -> Arrays:
        """The parameters of all stages of this rank."""
        params: Arrays = {}
        for stage in self.pipeline.stages:
            params |= stage.module.init(seed, dtype)
        return params

    def gradients(
        self, params: Arrays, parts: Sequence[tuple[Arrays, float, int]], loss: str, world: World
    ) -> tuple[float, Arrays]:
        """Loss and gradients of a batch in parts: each its inputs, its weight and its seed.

        The loss is the same on every rank; sums over ranks may be deferred until the last part.
        """
        dtype = next(iter(params.values())).dtype
        cells = [Part(x, {loss: np.full((), weight, dtype)}, seed) for x, weight, seed in parts]
        stages, link = self.pipeline.stages, self.pipeline.link
        held: list[dict[str, Any]] = [{} for _ in stages]
        every = scheduled_actions(self.schedule, link.ranks, len(cells), len(stages))
        results, gradients = self.pipeline.step(
            params,
            cells,
            every[link.rank],
            lambda cell: world.holding(held[cell.turn], is_last=cell.part + 1 == len(cells)),
            wanted=loss,
        )
        pairs = zip(results, parts, strict=True)
        mine = [weight * float(result[loss]) for result, (_, weight, _) in pairs if loss in result]
        total = self._everywhere(sum(mine))
        return total, {name: gradients[name] for name in params if name in gradients}

    def loss(self, params: Arrays, inputs: Arrays, loss: str) -> float:
        """The loss of a batch without dropout, the same on every rank."""
        outputs = self.pipeline.forward(params, Part(inputs, {}, None))
        current().flush()
        return self._everywhere(float(outputs.get(loss, 0.0)))

    def _everywhere(self, mine: float) -> float:
        """A number of the last stage; others have 0."""
        return float(all_reduce(np.array(mine, np.float64), self.pipeline.link.axis))
