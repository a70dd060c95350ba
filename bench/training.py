"""Loss and gradients of a transformer: generated, written by hand, in NumPy and in torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
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
# Contestant, opponent, and the limits on the ratios of their times and of their memory peaks.
GOALS: Final[tuple[tuple[str, str, float | None, float | None], ...]] = (
    ("xg NumPy", "NumPy by hand", None, None),
    ("xg NumPy", "torch SDPA", None, None),
    ("xg NumPy, kernels", "NumPy by hand", None, None),
    ("xg NumPy, kernels", "torch SDPA", 1.0, None),
    ("xg NumPy, kernels", "torch compiled", None, None),
    ("xg torch", "torch SDPA", None, None),
    ("xg torch, kernels", "torch SDPA", 0.95, 1.0),
    ("xg torch, kernels", "torch compiled", 1.0, None),
    ("xg torch, kernels, compiled", "torch compiled", None, None),
    ("xg torch, functions", "torch SDPA", None, None),
    ("torch eager", "torch SDPA", None, None),
    ("torch compiled", "torch SDPA", None, None),
)


def measure(pairs: int) -> Iterator[Ratio]:
    """Time and peak memory of all, in the same rounds."""
    for size, task in TASKS.items():
        yield from measure_task(size, task, pairs)


def measure_task(size: str, task: Task, pairs: int) -> Iterator[Ratio]:
    """One size of the model; the time of a step first, then the peaks."""
    torch = find_spec("torch") is not None
    names = [name for name in MAKERS if torch or "torch" not in name]
    found = race(names, task, pairs)
    goals = [goal for goal in GOALS if set(goal[:2]) <= set(names)]
    for name, reference, target, _ in goals:
        times = list(zip(found.seconds[name], found.seconds[reference], strict=True))
        yield summary(f"{size}: {name}", reference, times, target)
    for name, reference, _, target in goals:
        peaks = [(float(found.peaks[name]), float(found.peaks[reference]))]
        peak = summary(f"{size}: {name}, peak", reference, peaks, target)
        yield replace(peak, unit="B")
