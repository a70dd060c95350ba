"""How long a figure takes, against compiling the program it shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import xg
from bench.pairs import Ratio, compare

FILE: Final = Path(__file__).parents[1] / "diagrams" / "models" / "transformer.xg"


def measure(pairs: int) -> Iterator[Ratio]:
    """The forward and the backward figure of a transformer layer, as SVG."""
    program = xg.compile(FILE, block="Layer")
    yield compare(
        "draw the backward figure of a layer",
        lambda: program.render("backward", "svg"),
        "its forward figure",
        lambda: program.render("forward", "svg"),
        pairs,
        None,
    )
    yield compare(
        "draw the forward figure of a layer",
        lambda: program.render("forward", "svg"),
        "compiling it",
        lambda: xg.compile(FILE, block="Layer").source("numpy"),
        pairs,
        None,
    )
