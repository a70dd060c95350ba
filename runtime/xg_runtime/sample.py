"""How the next token is drawn from the logits of a model.

    token = draw(logits, Sampling(temperature=0.8, top_k=40, top_p=0.95), chance)

`chance` is a number in 0 … 1 that decides; with the same one comes the same token.
"""

from dataclasses import dataclass

import numpy as np

from xg_runtime.module import Array


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn: from softmax(logits / temperature) over the likeliest.

    Temperature 0 takes the likeliest. `top_k` leaves that many, then `top_p` leaves the fewest
    that together have this share of the probability; None leaves all.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0


def draw(logits: Array, sampling: Sampling, chance: float) -> int:
    """Return the token at which the summed probability passes `chance`; ties go to the first."""
    order = np.argsort(-logits, kind="stable")[: sampling.top_k]
    if sampling.temperature == 0:
        return int(order[0])
    summed = np.cumsum(np.exp((logits[order] - logits[order[0]]) / sampling.temperature))
    if sampling.top_p is not None:
        enough = int((summed < sampling.top_p * summed[-1]).sum()) + 1
        summed = summed[:enough]
    passed = int((summed <= chance * summed[-1]).sum())
    return int(order[min(passed, len(summed) - 1)])
