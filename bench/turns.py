"""Contestants that take turns, each in a process of its own.

In one process the threads of one library would still spin when the next has its turn. A turn is as
many steps as fill a few hundredths of a second; between turns everybody rests. With one thread each
(`OMP_NUM_THREADS=1`) what counts is the time that a process had a core: others may want it too.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter, process_time, sleep
from typing import Any

from bench.contestants import Step, Task, make

TURN, REST = 0.04, 0.04  # seconds
CLOCK = process_time if os.environ.get("OMP_NUM_THREADS") == "1" else perf_counter


@dataclass(frozen=True, slots=True)
class Race:
    """Seconds per step of each contestant in each round, and the bytes a step has alive at most."""

    seconds: Mapping[str, Sequence[float]]
    peaks: Mapping[str, int]


def race(names: Sequence[str], task: Task, rounds: int) -> Race:
    """Let contestants take turns, in each round once."""
    with ExitStack() as stack:
        lines = {name: stack.enter_context(_process(name, task)) for name in names}
        peaks = {name: int(_ask(line, "peak")) for name, line in lines.items()}
        times: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(rounds):
            for name, line in lines.items():
                times[name].append(_ask(line, "turn"))
                sleep(REST)
        return Race(times, peaks)


@contextmanager
def _process(name: str, task: Task) -> Generator[Connection]:
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, name, task), daemon=True)
    process.start()
    _ask(here, "ready")
    try:
        yield here
    finally:
        here.send("end")
        process.join()


def _ask(line: Connection, word: str) -> float:
    line.send(word)
    return float(line.recv())


def _serve(line: Connection, name: str, task: Task) -> None:
    step = make(name, task)
    for _ in range(3):
        step()
    start = CLOCK()
    step()
    count = max(1, round(TURN / (CLOCK() - start)))
    while (word := line.recv()) != "end":
        if word == "peak":
            line.send(torch_peak(step) if "torch" in name else numpy_peak(step))
        elif word == "turn":
            line.send(_turn(step, count))
        else:
            line.send(0.0)


def _turn(step: Step, count: int) -> float:
    start = CLOCK()
    for _ in range(count):
        step()
    return (CLOCK() - start) / count


def numpy_peak(step: Step) -> int:
    """NumPy tells tracemalloc of every array."""
    tracemalloc.start()
    step()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def torch_peak(step: Callable[[], object]) -> int:
    """The allocator tells the profiler of every tensor."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    told: Any = seen.profiler
    events: list[Any] = [e for e in told.kineto_results.events() if e.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=_start):
        alive += int(event.nbytes())
        peak = max(peak, alive)
    return peak


def _start(event: Any) -> int:  # noqa: ANN401 - torch does not say what its events are
    return int(event.start_ns())
