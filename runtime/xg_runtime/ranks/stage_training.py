"""The steps of training on one stage of a pipeline: the parts of a batch are the microbatches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xg_runtime.cells import SCHEDULES
from xg_runtime.module import Arrays
from xg_runtime.ranks.collectives import all_reduce
from xg_runtime.ranks.mesh import current
from xg_runtime.ranks.pipeline import Part, Pipeline
from xg_runtime.world import World


@dataclass(frozen=True)
class StageTraining:
    """The running rank's stage, and the name of the order in which it takes its cells."""

    pipeline: Pipeline
    schedule: str

    def gradients(
        self, params: Arrays, parts: Sequence[tuple[Arrays, float, int]], loss: str, world: World
    ) -> tuple[float, Arrays]:
        """Loss and gradients of a batch in parts: each its inputs, its weight and its seed.

        The loss is the same on every rank; sums over ranks may be deferred until the last part.
        """
        dtype = next(iter(params.values())).dtype
        cells = [Part(x, {loss: np.full((), weight, dtype)}, seed) for x, weight, seed in parts]
        held: dict[str, Any] = {}
        link = self.pipeline.link
        order = SCHEDULES[self.schedule](link.count, len(cells))[link.place]
        results, gradients = self.pipeline.step(
            params,
            cells,
            order,
            lambda part: world.holding(held, is_last=part + 1 == len(cells)),
        )
        pairs = zip(results, parts, strict=True)
        mine = [weight * float(result[loss]) for result, (_, weight, _) in pairs if loss in result]
        total = self._everywhere(sum(mine))
        return total, {name: gradients[name] for name in params if name in gradients}

    def loss(self, params: Arrays, inputs: Arrays, loss: str) -> float:
        """The loss of a batch without dropout, the same on every rank."""
        outputs, _ = self.pipeline.forward(params, Part(inputs, {}, None))
        current().flush()
        return self._everywhere(float(outputs.get(loss, 0.0)))

    def _everywhere(self, mine: float) -> float:
        """A number of the last stage; others have 0."""
        return float(all_reduce(np.array(mine, np.float64), self.pipeline.link.axis))
