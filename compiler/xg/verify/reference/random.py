"""The one definition of randomness, for every backend and every number of ranks.

A *key* is a hash of seed and place; element i of a stream is a hash of the key and its *global*
index i, so a shard's numbers are the slice of the whole. Integer operations and one exact scaling
only: `log` and `cos` differ in the last bit between libraries.

Mixing is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), places are hashed by FNV-1a.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MASK: Final = (1 << 64) - 1
GOLDEN: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB
FNV_OFFSET: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3
# The standard deviation of a sum of four integers, each uniform on 0 … 65535.
SPREAD: Final = ((65536**2 - 1) / 3) ** 0.5

REMEMBERED: Final = 4_096  # keys: a comparison runs the same program over and over


@lru_cache(REMEMBERED)
def key(seed: int, place: str) -> int:
    """The 64-bit key of a place such as ``layers.3.attn.W_Q`` under a seed."""
    digest = FNV_OFFSET
    for byte in place.encode():
        digest = (digest ^ byte) * FNV_PRIME & MASK
    return _mix(_mix(seed & MASK) ^ digest)


def drawing_key(seed: int | None, place: str) -> int | None:
    """The key of a step that draws; None where nothing is drawn."""
    return None if seed is None else key(seed, place)


def words(key: int, count: int) -> NDArray[np.uint64]:
    """The first `count` 64-bit words of a key's stream."""
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(key)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


def keep_mask(key: int, shape: tuple[int, ...], p: float) -> NDArray[np.bool_]:
    """Booleans, each False with probability `p` (to 24 bits)."""
    drawn = words(key, int(np.prod(shape, dtype=np.int64))) >> np.uint64(40)
    return (drawn >= np.uint64(round(p * 2**24))).reshape(shape)


def bell(key: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Whole numbers around 0: sums of four uniform ones."""
    drawn = words(key, int(np.prod(shape, dtype=np.int64)))
    lanes = sum((drawn >> np.uint64(16 * lane)) & np.uint64(0xFFFF) for lane in range(4))
    return (np.asarray(lanes).astype(np.int64) - 2 * 65535).reshape(shape)


def normal(key: int, shape: tuple[int, ...], deviation: float) -> NDArray[Any]:
    """Numbers of mean 0 and the given deviation: a sum of four uniforms, nearly normal."""
    return bell(key, shape) * (deviation / SPREAD)


def flat(key: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Whole numbers from -2²³ on and below 2²³, all as likely."""
    drawn = words(key, int(np.prod(shape, dtype=np.int64))) >> np.uint64(40)
    return (drawn.astype(np.int64) - 2**23).reshape(shape)


def ones(key: int, shape: tuple[int, ...], p: float) -> NDArray[np.int64]:
    """1 with probability `p` (to 24 bits), else 0."""
    return (~keep_mask(key, shape, p)).astype(np.int64)


def _mix(z: int) -> int:
    z = (z ^ (z >> 30)) * MIX_1 & MASK
    z = (z ^ (z >> 27)) * MIX_2 & MASK
    return z ^ (z >> 31)
