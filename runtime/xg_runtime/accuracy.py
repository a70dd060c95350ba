"""How often a model that says yes or no is right."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from xg_runtime.module import Arrays


@dataclass(frozen=True)
class Accuracy:
    """Names of what is said and what is true, and above what it is a yes: 0.5, of logits 0.

    `chances` are accuracies to compare with, by name.
    """

    said: str
    true: str
    threshold: float = 0.5
    chances: Mapping[str, float] = field(default_factory=dict[str, float])

    def right(self, outputs: Arrays, inputs: Arrays) -> tuple[int, int]:
        """Return how many are right, and of how many."""
        agree = (outputs[self.said] > self.threshold) == (inputs[self.true] > 0.5)
        return int(np.count_nonzero(agree)), int(np.size(agree))
