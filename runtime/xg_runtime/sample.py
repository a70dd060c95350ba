"""Text from a trained token model, one token at a time.

    ids = sample(module, params, prompt, 200, TokenModel(window=64), Sampling(temperature=0.8))

Only `forward` is used: each token costs a whole pass over the window.
"""

from dataclasses import dataclass

import numpy as np

from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.module import Array, Arrays, Module
from xg_runtime.random import fold, uniform


@dataclass(frozen=True)
class TokenModel:
    """How a program takes and gives tokens: ids [1, S] in, logits [1, S, V] out.

    `targets` is the input a loss needs; it gets zeros. Of a text longer than `window` the model
    sees the end.
    """

    window: int
    ids: str = "ids"
    targets: str | None = "t"
    logits: str = "Z"


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn: from softmax(logits / temperature) over the `top_k` likeliest.

    Temperature 0 takes the likeliest; `top_k` None takes all into account.
    """

    temperature: float = 1.0
    top_k: int | None = None
    seed: int = 0


def sample(
    module: Module,
    params: Arrays,
    prompt: Array,
    length: int,
    model: TokenModel,
    sampling: Sampling,
) -> Array:
    """Return `prompt` [N] with `length` tokens after it, int64 [N + length].

    Raises InputError for an empty prompt, NonFiniteError when the logits are not numbers.
    """
    if len(prompt) == 0:
        raise InputError("a prompt needs at least one token")
    text = np.concatenate([prompt.astype(np.int64), np.zeros(length, np.int64)])
    for place in range(len(prompt), len(text)):
        window = text[max(place - model.window, 0) : place]
        logits = _last_logits(module, params, window, model, place)
        text[place] = _draw(logits, sampling, uniform(fold(sampling.seed, "sample", place)))
    return text


def _last_logits(
    module: Module, params: Arrays, window: Array, model: TokenModel, place: int
) -> Array:
    """Return the logits [V] of what follows `window`, in float64."""
    inputs = {model.ids: window[None]}
    if model.targets is not None:
        inputs[model.targets] = np.zeros_like(window[None])
    outputs, _ = module.forward(params, inputs)
    logits: Array = outputs[model.logits][0, -1].astype(np.float64)
    if np.isnan(logits).any() or np.isposinf(logits).any():
        raise NonFiniteError(f"{model.logits} is not finite", model.logits, place)
    return logits


def _draw(logits: Array, sampling: Sampling, chance: float) -> int:
    """Return the token at which the summed probability passes `chance`; ties go to the first."""
    order = np.argsort(-logits, kind="stable")[: sampling.top_k]
    if sampling.temperature == 0:
        return int(order[0])
    weights = np.exp((logits[order] - logits[order[0]]) / sampling.temperature)
    passed = int((np.cumsum(weights) <= chance * weights.sum()).sum())
    return int(order[min(passed, len(order) - 1)])
