"""Count flaws and crossings: `python -m figures.count_flaws` writes the record of what ships.

With a number, it looks at the figures of that many random programs instead.
"""

from __future__ import annotations

import json
import sys
from multiprocessing import Pool
from pathlib import Path

from figures.flaws import crossings, flaws
from figures.shipped_figures import CASES, figures
from figures.test_flaws import CHUNK, PROGRAMS, RECORD, random_flaws

from xg.figures import painted

Counts = dict[str, dict[str, int]]


def of_case(case: tuple[Path, str | None]) -> Counts:
    """The flaws and crossings of a file's figures under a plan."""
    found: Counts = {}
    for name, each in figures(*case):
        display, _ = painted(each)
        counts = {"flaws": len(flaws(display)), "crossings": crossings(display)}
        found[name] = {what: count for what, count in counts.items() if count}
    return {name: counts for name, counts in found.items() if counts}


def of_seed(seed: int) -> list[str]:
    """The flaws of a random program's figures."""
    return [f"{seed}: {flaw.kind}: {flaw.what} {flaw.other}" for flaw in random_flaws(seed)]


def of_chunk(start: int) -> int:
    """The number of flaws of a chunk of random programs."""
    return sum(len(random_flaws(seed)) for seed in range(start, start + CHUNK))


def main() -> None:
    """Write the record, or print the flaws of random programs."""
    with Pool() as pool:
        if len(sys.argv) > 1:
            for lines in pool.imap(of_seed, range(int(sys.argv[1])), chunksize=8):
                sys.stdout.writelines(f"{line}\n" for line in lines)
            return
        record: Counts = {}
        for counts in pool.imap(of_case, CASES):
            record.update(counts)
        starts = range(0, PROGRAMS, CHUNK)
        for start, count in zip(starts, pool.imap(of_chunk, starts), strict=True):
            record |= {f"random {start}": {"flaws": count}} if count else {}
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for what in ("flaws", "crossings"):
        sys.stdout.write(f"{what}: {sum(counts.get(what, 0) for counts in record.values())}\n")


if __name__ == "__main__":
    main()
