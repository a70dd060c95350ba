"""Loss and gradients of a transformer: generated, written by hand, in NumPy and in torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Final

from bench.contestants import MAKERS, Task
from bench.pairs import Ratio, summary
from bench.turns import race

TASKS: Final[Mapping[str, Task]] = {
    "D 32, L 2": Task(8, 32, {"D": 32, "N_L": 2, "N_H": 4, "V": 256}),
    "D 256, L 4": Task(8, 128, {"D": 256, "N_L": 4, "N_H": 8, "V": 1024}),
    "D 768, L 2": Task(4, 256, {"D": 768, "N_L": 2, "N_H": 12, "V": 1024}),
}
# Who is held against whom, and what the ratio should not exceed.
GOALS: Final = (
    ("xg NumPy", "NumPy by hand", None),
    ("xg NumPy", "torch SDPA", None),
    ("xg NumPy, kernels", "NumPy by hand", None),
    ("xg NumPy, kernels", "torch SDPA", 1.0),
    ("torch eager", "torch SDPA", None),
    ("torch compiled", "torch SDPA", None),
)


def measure(pairs: int) -> Iterator[Ratio]:
    """Time and peak memory of all, in the same rounds."""
    for size, task in TASKS.items():
        yield from measure_task(size, task, pairs)


def measure_task(size: str, task: Task, pairs: int) -> Iterator[Ratio]:
    """One size of the model."""
    torch = find_spec("torch") is not None
    names = [name for name in MAKERS if torch or "torch" not in name]
    found = race(names, task, pairs)
    for name, reference, target in GOALS:
        if name in found.seconds and reference in found.seconds:
            times = list(zip(found.seconds[name], found.seconds[reference], strict=True))
            yield summary(f"{size}: {name}", reference, times, target)
