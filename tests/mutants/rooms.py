"""Where mutants are planted, and which tests should see them: the table of ``rooms.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = (  # random programs: fifty, and those that were wrong once
    "tests/fuzz/test_generated.py::test_random_programs[50]",
    "tests/fuzz/test_generated.py::test_programs_that_were_wrong_once",
)


@dataclass(frozen=True)
class Room:
    """Patterns of files below the root, and tests."""

    files: tuple[str, ...]
    tests: tuple[str, ...]

    def paths(self) -> Iterator[Path]:
        """The files, but for tables of errors, whose texts have goldens."""
        for pattern in self.files:
            for path in sorted(ROOT.glob(pattern)):
                if not path.stem.endswith("errors"):
                    yield path


def _room(table: Mapping[str, list[str]]) -> Room:
    groups = (PROGRAMS if test == "PROGRAMS" else (test,) for test in table["tests"])
    return Room(tuple(table["files"]), tuple(test for group in groups for test in group))


def rooms() -> dict[str, Room]:
    """Every room by its name."""
    text = Path(__file__).with_name("rooms.toml").read_text(encoding="utf-8")
    return {name: _room(table) for name, table in tomllib.loads(text).items()}


ROOMS = rooms()
