"""How ranks that are processes work together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Terms"]


@dataclass(frozen=True)
class Terms:
    """Settings that must be the same on all ranks.

    `timeout`: seconds that a rank waits for others. `device`: "cpu" (gloo) or "cuda" (NCCL).
    `checked`: compare every collective with those of the other ranks before it begins: costs a
    small all-gather each time, and reports ranks that disagree instead of computing nonsense.
    `communicators`: the axes, and products of axes, over which ranks call collectives; each rank
    makes their groups at the start, in this order. Without it, ranks make those of every product.
    `store`: the file by which processes on one machine meet; without one they meet as the
    environment says.
    """

    timeout: float = 60.0
    device: Literal["cpu", "cuda"] = "cpu"
    checked: bool = False
    store: Path | None = None
    communicators: tuple[str, ...] | None = None
