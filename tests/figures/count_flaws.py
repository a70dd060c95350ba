"""Count flaws and crossings: `python -m figures.count_flaws` writes the record of what ships."""

from __future__ import annotations

import json
import sys
from multiprocessing import Pool
from pathlib import Path

from figures.flaws import crossings, flaws
from figures.shipped_figures import CASES, figures
from figures.test_flaws import RECORD

from xg.figures import paint_figure

Counts = dict[str, int]


def of_case(case: tuple[Path, str | None]) -> tuple[Counts, Counts]:
    """The flaws and the crossings of a file's figures under a plan, where there are some."""
    flawed: Counts = {}
    crossed: Counts = {}
    for name, each in figures(*case):
        display, _ = paint_figure(each)
        flawed[name], crossed[name] = len(flaws(display, each.groups)), crossings(display)
    return _without_zeros(flawed), _without_zeros(crossed)


def _without_zeros(counts: Counts) -> Counts:
    return {name: count for name, count in counts.items() if count}


def main() -> None:
    """Write the record."""
    with Pool() as pool:
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
