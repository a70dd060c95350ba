"""Learning rate over time: linear warm-up, then constant, linear or cosine decay.

    Schedule(kind="cosine", peak=1e-3, warmup=100, steps=1000, final=0.1).rate(step)

`step` counts from 0. The warm-up rises in equal parts to the peak, which step `warmup` has; the
decay ends at `final · peak`, which the first step after the last would have
(cosine: Loshchilov, Hutter, "SGDR", 2017, one period).
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each step; `final` is a part of `peak`."""

    kind: Kind
    peak: float
    steps: int
    warmup: int = 0
    final: float = 0.0

    def rate(self, step: int) -> float:
        """Return the learning rate of `step`."""
        if step < self.warmup:
            return self.peak * (step + 1) / (self.warmup + 1)
        return self.peak * (self.final + (1 - self.final) * self._remaining_decay(step))

    def _remaining_decay(self, step: int) -> float:
        """Return how much of the decay is still to come, from 1 to 0."""
        if self.kind == "constant":
            return 1.0
        passed = min((step - self.warmup) / max(self.steps - self.warmup, 1), 1.0)
        return 1 - passed if self.kind == "linear" else (1 + math.cos(math.pi * passed)) / 2
