"""Count flaws and crossings: `python -m figures.count_flaws` writes the record of what ships.

With a number, it looks at the figures of that many random programs instead, and prints their flaws.
"""

from __future__ import annotations

import json
import sys
from multiprocessing import Pool
from pathlib import Path

from figures.flaws import crossings, flaws
from figures.shipped_figures import CASES, figures
from figures.test_flaws import RECORD, random_flaws

from xg.figures import painted

Counts = dict[str, int]


def of_case(case: tuple[Path, str | None]) -> tuple[Counts, Counts]:
    """The flaws and the crossings of a file's figures under a plan, where there are some."""
    flawed: Counts = {}
    crossed: Counts = {}
    for name, each in figures(*case):
        display, _ = painted(each)
        flawed[name], crossed[name] = len(flaws(display)), crossings(display)
    return _without_zeros(flawed), _without_zeros(crossed)


def _without_zeros(counts: Counts) -> Counts:
    return {name: count for name, count in counts.items() if count}


def of_seed(seed: int) -> list[str]:
    """The flaws of a random program's figures."""
    return [f"{seed}: {flaw.kind}: {flaw.what} {flaw.other}" for flaw in random_flaws(seed)]


def main() -> None:
    """Write the record, or print the flaws of random programs."""
    with Pool() as pool:
        if len(sys.argv) > 1:
            for lines in pool.imap(of_seed, range(int(sys.argv[1])), chunksize=8):
                sys.stdout.writelines(f"{line}\n" for line in lines)
            return
        flawed: Counts = {}
        crossed: Counts = {}
        for some, others in pool.imap(of_case, CASES):
            flawed.update(some)
            crossed.update(others)
    RECORD.write_text(json.dumps(crossed, indent=2) + "\n", encoding="utf-8")
    sys.stdout.writelines(f"{name}: {count} flaws\n" for name, count in flawed.items())
    sys.stdout.write(f"flaws: {sum(flawed.values())}\ncrossings: {sum(crossed.values())}\n")


if __name__ == "__main__":
    main()
