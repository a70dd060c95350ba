"""Plant errors and count those that no test sees: ``python -m mutants emission --count 50``."""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

# Imported here once, and not in the process of each mutant.
import lark  # noqa: F401  # pyright: ignore
import numpy  # noqa: F401  # pyright: ignore
import torch  # noqa: F401  # pyright: ignore
import wasmtime  # noqa: F401  # pyright: ignore
from mutants.plant import Mutant, mutants
from mutants.rooms import ROOMS, ROOT
from mutants.trial import judge

EQUIVALENT = Path(__file__).with_name("equivalent.toml")


def main() -> int:
    """Try mutants room by room; 1 if one survived that is not known to be equivalent."""
    parser = argparse.ArgumentParser(
        prog="./dev mutants",
        description="Plant one change at a time and run the tests that should see it.",
    )
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)}")
    parser.add_argument("--count", type=int, default=100, help="mutants in each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="leave out so many of the sample")
    parser.add_argument("--minutes", type=float, help="at most, in all")
    options = parser.parse_args()
    unknown = [room for room in options.rooms if room not in ROOMS]
    if unknown:
        parser.error(f"no room is called {unknown[0]}")
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    known, survivors = _known(), 0
    for room in options.rooms or ROOMS:
        sample = _sampled(room, options.count, options.seed)[options.first :]
        survivors += _try(room, sample, known, end)
    return 1 if survivors else 0


def _sampled(room: str, count: int, seed: int) -> list[Mutant]:
    every = [each for path in dict.fromkeys(ROOMS[room].paths()) for each in mutants(path, ROOT)]
    return Random(f"{room} {seed}").sample(every, min(count, len(every)))


def _try(room: str, sample: Sequence[Mutant], known: set[str], end: float) -> int:
    tests = ROOMS[room].tests
    tried = killed = equivalent = 0
    for mutant in _until(end, sample):
        if str(mutant) in known:
            equivalent += 1
            continue
        tried += 1
        verdict, seconds = judge(mutant, tests)
        killed += verdict != "survived"
        if verdict == "survived":
            _say(f"{mutant.path.relative_to(ROOT)}:{mutant.start[0]}: {mutant}  ({seconds:.0f} s)")
    if tried:
        share = 100 * killed / tried
        _say(f"{room}: {killed} of {tried} killed, {share:.1f} %; {equivalent} equivalent")
    return tried - killed


def _until(end: float, sample: Sequence[Mutant]) -> Iterator[Mutant]:
    for mutant in sample:
        if time.monotonic() > end:
            return
        yield mutant


def _known() -> set[str]:
    """Mutants that change nothing that anyone could see, each with the reason in the file."""
    if not EQUIVALENT.exists():
        return set()
    return {each["mutant"] for each in tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]}


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
