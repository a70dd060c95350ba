"""Loss and gradients of a small transformer: generated NumPy, hand-written NumPy, eager torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import xg
from bench import plain_transformer
from bench.pairs import Ratio, compare

FILE = Path(__file__).parent / "transformer.xg"
Array = NDArray[Any]
Step = Callable[[], tuple[float, dict[str, Array]]]


@dataclass(frozen=True, slots=True)
class Contestants:
    """One step on the same parameters and data, each on its own; torch where it is installed."""

    generated: Step
    plain: Step
    torch: Step | None


def contestants(dtype: type[np.floating[Any]], batch: int, length: int) -> Contestants:
    """Make them, on random tokens."""
    module = xg.compile(FILE, sizes={"S": length}).load("numpy")
    params: dict[str, Array] = module.init(0, dtype, S=length)
    tokens = np.random.default_rng(0).integers(0, 256, (2, batch, length))
    ids, targets = tokens
    one = {"loss": np.ones((), dtype)}

    def generated() -> tuple[float, dict[str, Array]]:
        outputs, saved = module.forward(params, {"ids": ids, "t": targets})
        return float(outputs["loss"]), module.backward(params, saved, one)

    def plain() -> tuple[float, dict[str, Array]]:
        return plain_transformer.loss_and_gradients(params, ids, targets)

    if find_spec("torch") is None:
        return Contestants(generated, plain, None)
    from bench import torch_transformer

    leaves = torch_transformer.tensors({name: p.copy() for name, p in params.items()})
    return Contestants(
        generated, plain, lambda: torch_transformer.loss_and_gradients(leaves, ids, targets)
    )


def measure(pairs: int) -> Iterator[Ratio]:
    """Generated against hand-written NumPy, and against torch."""
    rivals = contestants(np.float32, 8, 64)
    what = "training step, generated NumPy"
    yield compare(what, rivals.generated, "written by hand", rivals.plain, pairs, None)
    if rivals.torch:
        yield compare(what, rivals.generated, "eager torch", rivals.torch, pairs, None)
