"""The programs of the design: every construct of the language as its author would write it."""

from __future__ import annotations

from pathlib import Path

from xg.diagnostics.diagnostic import Source

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.xg"))


def read(path: Path) -> Source:
    """The source of a program."""
    return Source.from_bytes(path.name, path.read_bytes())
