"""The fuzzer on its own: ``python -m generate COUNT SEED``."""

from __future__ import annotations

import sys
from multiprocessing import Pool

from fuzz.hunt import Found, hunt

CHUNK = 25


def main(count: int, seed: int) -> int:
    """Try `count` programs from `seed` on, print what fails; the exit status."""
    starts = range(seed, seed + count, CHUNK)
    failures = tried = 0
    with Pool() as pool:
        for found in pool.imap(_chunk, ((start, seed + count) for start in starts)):
            tried = min(tried + CHUNK, count)
            failures += len(found)
            for failure in found:
                print(failure, flush=True)  # noqa: T201 - this is a command
            print(f"{tried} of {count} programs, {failures} failed", file=sys.stderr)  # noqa: T201
    return 1 if failures else 0


def _chunk(bounds: tuple[int, int]) -> list[Found]:
    start, end = bounds
    return list(hunt(range(start, min(start + CHUNK, end))))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
