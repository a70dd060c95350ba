"""The shipped diagrams, found by name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

LIBRARY: Final = Path(__file__).parents[1] / "diagrams"
# Together they have every operator and construct of the library: `test_tier` counts.
VARIED: Final = frozenset(
    {
        *("cat_sleeps", "convnet", "legend", "mamba", "moe", "node_i", "ops"),
        *("resnet", "rwkv", "t5", "transformer", "unet", "vae", "vit"),
    }
)


def shipped(name: str) -> Path:
    """The shipped diagram of that name, in whichever folder it is."""
    (path,) = LIBRARY.glob(f"*/{name}.xg")
    return path
