"""Name the rooms that mutants are planted in: the folders of the source tree.

There is no list of files or tests here, so that a file that is renamed, merged or added is found
without a change: `seen` records which tests run it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("compiler", "runtime", "grammar")  # each holds packages
CORE = "xg"  # the package whose folders are rooms; any other package is one room


def room_of(path: Path) -> str:
    """Return the room of a source file: `ir`, or `xg_runtime`; `xg` for files beside the rooms."""
    _, package, *inner = path.relative_to(ROOT).parts
    return inner[0] if package == CORE and len(inner) > 1 else package


def sources() -> list[Path]:
    """List every source file, in the order of their paths."""
    return sorted(path for name in SOURCES for path in (ROOT / name).glob("*/**/*.py"))


def rooms() -> dict[str, list[Path]]:
    """Group the source files by room."""
    found: dict[str, list[Path]] = {}
    for path in sources():
        found.setdefault(room_of(path), []).append(path)
    return dict(sorted(found.items()))


def files(name: str) -> Iterator[Path]:
    """Find the files of a room, or of a folder or file such as `passes/shard` or `ir/dim.py`."""
    named = tuple(ROOT / start / name for start in ("", f"compiler/{CORE}", *SOURCES))
    for path in sources():
        if room_of(path) == name or any(path.is_relative_to(each) for each in named):
            yield path
