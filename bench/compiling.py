"""Measure whether compile time is linear in the length of a program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import xg
from bench.pairs import Action, Ratio, compare
from bench.programs import deep, flat

SMALL, LARGE = 1_000, 10_000


def measure(pairs: int) -> Iterator[Ratio]:
    """A flat file ten times as long, and a block repeated a thousand times as often."""
    with TemporaryDirectory() as folder:
        small, large = (_compile(folder, f"flat_{count}", flat(count)) for count in (SMALL, LARGE))
        many, few = f"compile {LARGE:,} operators", f"{SMALL:,} operators"
        yield compare(many, large, few, small, min(pairs, 3), 1.25 * LARGE / SMALL)
        one, thousand = (_compile(folder, f"deep_{count}", deep(count)) for count in (1, 1_000))
        yield compare("compile 1,000 × Layer", thousand, "1 × Layer", one, pairs, 1.5)


def _compile(folder: str, name: str, text: str) -> Action:
    file = Path(folder) / f"{name}.xg"
    file.write_text(text, encoding="utf-8")
    return lambda: xg.compile(file).source("numpy")
