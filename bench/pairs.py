"""Two things timed in turns, so that other work on the machine affects both equally."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import comb
from statistics import median
from time import perf_counter, process_time

Action = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Ratio:
    """How one thing compares with another: medians in seconds (or its `unit`), and of the ratios.

    `low` … `high` holds the true median ratio with 95 % confidence, where there are pairs enough
    for such an interval. `target` is what the ratio should not exceed, None where nothing is
    promised.
    """

    what: str
    against: str
    seconds: float
    reference: float
    ratio: float
    low: float
    high: float
    pairs: int
    target: float | None
    unit: str = "s"

    @property
    def misses(self) -> bool:
        """Whether the target is missed: by a twentieth, or by a tenth at the interval's end."""
        if self.target is None:
            return False
        return self.ratio > 1.05 * self.target or self.high > 1.10 * self.target

    def data(self) -> dict[str, str | float | None]:
        """This measurement for a JSON document."""
        return asdict(self)


def compare(
    what: str,
    action: Action,
    against: str,
    reference: Action,
    pairs: int,
    target: float | None,
    *,
    cpu: bool = False,
) -> Ratio:
    """Time `action` and `reference` in turns, once unmeasured and then `pairs` times.

    Seconds are those of the CPU, of all threads, if `cpu`; otherwise those of a clock.
    """
    action()
    reference()
    clock = process_time if cpu else perf_counter
    times = [(_seconds(action, clock), _seconds(reference, clock)) for _ in range(pairs)]
    return summary(what, against, times, target)


def summary(
    what: str, against: str, times: list[tuple[float, float]], target: float | None
) -> Ratio:
    """Medians of pairs of seconds that were taken in turns."""
    ratios = sorted(first / second for first, second in times)
    margin = _margin(len(ratios))
    return Ratio(
        what,
        against,
        median(first for first, _ in times),
        median(second for _, second in times),
        median(ratios),
        ratios[margin],
        ratios[-1 - margin],
        len(times),
        target,
    )


def _seconds(action: Action, clock: Callable[[], float]) -> float:
    start = clock()
    action()
    return clock() - start


def _margin(count: int) -> int:
    """How many of the smallest and of the largest values are outside the interval."""
    outside = 0.0
    for margin in range(count):
        outside += 2 * comb(count, margin) / 2**count
        if outside > 0.05:
            return max(0, margin - 1)
    return 0
