"""Measure, print a table, write it as JSON: `python -m bench [--pairs N] [--json FILE]`."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path

from bench import (
    checking,
    compiling,
    convolutions,
    drawing,
    experts,
    generating,
    gpu,
    importing,
    loops,
    memory,
    parallel,
    startup,
    training,
    waiting,
    windows,
)
from bench.pairs import Ratio

PARTS = {
    "startup": startup.measure,
    "compiling": compiling.measure,
    "checking": checking.measure,
    "drawing": drawing.measure,
    "training": training.measure,
    "experts": experts.measure,
    "loops": loops.measure,
    "windows": windows.measure,
    "convolutions": convolutions.measure,
    "importing": importing.measure,
    "generating": generating.measure,
    "parallel": parallel.measure,
    "memory": memory.measure,
    "waiting": waiting.measure,
    "gpu": gpu.measure,
}
# Parts that not every machine can run: whether this one can, and what they need.
NEEDS = {
    "waiting": (waiting, "Chromium and its driver, and this machine has none"),
    "gpu": (gpu, "a GPU, and torch finds none on this machine"),
}


def main() -> int:
    """Measure what is asked for; 1 where a target is missed."""
    parser = ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--pairs", type=int, default=21, help="how often each pair is timed")
    parser.add_argument("--json", type=Path, default=Path("out/bench.json"), metavar="FILE")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    parts, lacking = _that_can_run(options.parts or PARTS)
    if options.parts and lacking:
        parser.error(f"{lacking[0]}; the other parts run without one")
    sys.stdout.writelines(f"{line}: it is left out\n" for line in lacking)
    found: list[Ratio] = []
    sys.stdout.write(_row("", "", "against", "", "ratio", "95 % interval", "target") + "\n")
    for part in parts:
        for ratio in PARTS[part](options.pairs):
            found.append(ratio)
            sys.stdout.write(_line(ratio) + "\n")
            sys.stdout.flush()
    _write(options.json, found)
    return int(any(ratio.misses for ratio in found))


def _that_can_run(parts: Iterable[str]) -> tuple[list[str], list[str]]:
    """The parts that this machine can run, and why it cannot run the others."""
    absent = [part for part in parts if part in NEEDS and not NEEDS[part][0].is_there()]
    lacking = [f"{part} needs {NEEDS[part][1]}" for part in absent]
    return [part for part in parts if part not in absent], lacking


def _line(ratio: Ratio) -> str:
    target = "" if ratio.target is None else f"≤ {ratio.target:g}"
    if ratio.misses:
        target += " missed"
    interval = f"{ratio.low:.2f} … {ratio.high:.2f}"
    seconds, reference = (_amount(n, ratio.unit) for n in (ratio.seconds, ratio.reference))
    return _row(
        ratio.what, seconds, ratio.against, reference, f"{ratio.ratio:.2f}", interval, target
    )


def _row(*cells: str) -> str:
    widths = (46, 10, 16, 10, 8, 16, 0)
    return "".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _amount(number: float, unit: str) -> str:
    if unit == "B":
        return f"{number / 1e6:.1f} MB"
    if unit == "calls":
        return f"{number:g}"
    if unit == "error":
        return f"{number:.1e}"
    return f"{number:.2f} s" if number >= 1 else f"{1000 * number:.1f} ms"


def _write(file: Path, found: Iterable[Ratio]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [ratio.data() for ratio in found]
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.stdout.write(f"written: {file}\n")


if __name__ == "__main__":
    sys.exit(main())
