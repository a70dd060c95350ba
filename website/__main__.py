"""Build the site: `python -m website [--out FOLDER] [--only NAME …] [--processes N]`."""

from __future__ import annotations

import gc
import os
import sys
from argparse import ArgumentParser
from pathlib import Path

from website.building import build_site
from website.playground.build import FOLDER, playground_files
from website.playground.runtime import RuntimeMissing, runtime
from website.playground.snapshot import snapshot

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Build, check, and say what is wrong; 1 where something is."""
    parser = ArgumentParser(prog="python -m website", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", metavar="FOLDER")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these diagrams only")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), metavar="N")
    options = parser.parse_args()
    gc.set_threshold(200_000, 50, 10)  # pages are millions of objects, and little garbage
    out = options.out.resolve()  # Sphinx reads paths from its own folder
    wrong = build_site(ROOT, out, options.only, options.processes)
    if options.only is None:
        _add_runtime(out)
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    if not wrong:
        sys.stdout.write(f"{out / 'index.html'}\n")
    return int(bool(wrong))


def _add_runtime(site: Path) -> None:
    """Give the playground its Python; without it, its page says that it has none."""
    try:
        found = runtime()
    except RuntimeMissing as missing:
        sys.stderr.write(f"the playground has no Python runtime: {missing}\n")
        return
    folder = site / FOLDER / "pyodide"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in found.items():
        (folder / name).write_bytes(content)
    try:
        made = snapshot({name: (site / name).read_bytes() for name in playground_files()})
    except RuntimeMissing as missing:
        sys.stderr.write(f"the playground starts slowly: {missing}\n")
        return
    for name, content in made.items():
        (site / name).write_bytes(content)


if __name__ == "__main__":
    raise SystemExit(main())
