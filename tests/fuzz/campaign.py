"""A campaign: many seeds of one kind, over all cores, for a number of cases or of minutes.

A campaign that was ended continues where it was: the next seed of each kind is in ``next.json``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from fuzz.kinds import KINDS, Failed

CHUNK = 25
ROUND = 4  # chunks for each process between two looks at the clock
Chunk = tuple[str, range]


def run(
    name: str, seeds: range, minutes: float | None, folder: Path, *, resume: bool, jobs: int
) -> int:
    """Try the seeds until the time is over; the number of failures, each a file in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "next.json"
    if resume:
        seeds = range(max(seeds.start, _read(state).get(name, seeds.start)), seeds.stop)
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    tried = failures = 0
    began = time.monotonic()
    # Workers that may have children: faults happen to processes of their own.
    with ProcessPoolExecutor(jobs, initializer=_start) as pool:
        for start in range(0, len(seeds), CHUNK * jobs * ROUND):
            if time.monotonic() > end:
                break
            group = seeds[start : start + CHUNK * jobs * ROUND]
            chunks = ((name, group[n : n + CHUNK]) for n in range(0, len(group), CHUNK))
            for found in pool.map(_try, chunks):
                for seed, failed in found:
                    failures += 1
                    _write(folder, name, seed, failed)
            tried += len(group)
            _say(f"{tried} {name}, {failures} failed", end="\r")
            if resume:
                _put(state, name, group.stop)
    seconds = time.monotonic() - began
    _say(f"{tried} {name} from seed {seeds.start}: {failures} failed, {seconds:.0f} s")
    return failures


def _start() -> None:
    os.environ["XG_VERIFY"] = "1"
    gc.freeze()
    gc.set_threshold(200_000, 50, 10)


def _try(chunk: Chunk) -> list[tuple[int, Failed]]:
    name, seeds = chunk
    pairs = ((seed, KINDS[name].check(seed)) for seed in seeds)
    return [(seed, failed) for seed, failed in pairs if failed]


def _write(folder: Path, name: str, seed: int, failed: Failed) -> None:
    path = folder / f"{name}_{seed}{KINDS[name].suffix}"
    path.write_bytes(failed.file)
    path.with_suffix(".txt").write_text(failed.message, encoding="utf-8")
    first = failed.message.strip().splitlines()[-1]
    _say(f"{name} {seed}: {first}\n  {path}")


def _read(state: Path) -> dict[str, int]:
    return json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}


def _put(state: Path, name: str, seed: int) -> None:
    text = json.dumps({**_read(state), name: seed})
    new = state.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(state)


def _say(text: str, end: str = "\n") -> None:
    if end == "\n" or sys.stderr.isatty():
        sys.stderr.write(text + end)
        sys.stderr.flush()
