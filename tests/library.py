"""The shipped diagrams, found by name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

LIBRARY: Final = Path(__file__).parents[1] / "diagrams"


def shipped(name: str) -> Path:
    """The shipped diagram of that name, in whichever folder it is."""
    (path,) = LIBRARY.glob(f"*/{name}.xg")
    return path
