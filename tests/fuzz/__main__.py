"""The fuzzer on its own: ``python -m fuzz programs texts --count 1000 --seed 7``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from fuzz.campaign import run
from fuzz.kinds import KINDS


def main() -> int:
    """Try cases of the kinds; 1 if any failed."""
    parser = argparse.ArgumentParser(
        prog="./dev fuzz",
        description="Make cases from seeds and try them. Each failure is made small and written.",
        epilog="kinds:\n" + "\n".join(f"  {kind.name:9} {kind.says}" for kind in KINDS.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="by default all of them")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=1_000, help="how many cases of each kind")
    parser.add_argument("--minutes", type=float, help="for each kind, at most")
    parser.add_argument("--night", action="store_true", help="as many as `./dev verify-all` tries")
    parser.add_argument("--resume", action="store_true", help="go on where the last one ended")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="for what fails")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    unknown = [name for name in options.kinds if name not in KINDS]
    if unknown:
        parser.error(f"no kind is called {unknown[0]}: there are {', '.join(KINDS)}")
    failures = 0
    for name in options.kinds or KINDS:
        count = KINDS[name].night if options.night else options.count
        seeds = range(options.seed, options.seed + count)
        failures += run(
            name,
            seeds,
            options.minutes,
            options.out,
            resume=options.resume,
            jobs=options.jobs,
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
