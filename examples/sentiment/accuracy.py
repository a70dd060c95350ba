"""How often a classifier of two classes is right."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from xg_runtime.module import Arrays


@dataclass(frozen=True)
class BinaryAccuracy:
    """The names of the output and of the truth, and the output above which it is class 1.

    The threshold is 0.5 of probabilities and 0 of logits. `chances` are accuracies to compare with,
    by name.
    """

    output: str
    truth: str
    threshold: float = 0.5
    chances: Mapping[str, float] = field(default_factory=dict[str, float])

    def right(self, outputs: Arrays, inputs: Arrays) -> tuple[int, int]:
        """Return how many are right, and of how many."""
        agree = (outputs[self.output] > self.threshold) == (inputs[self.truth] > 0.5)
        return int(np.count_nonzero(agree)), int(np.size(agree))
