"""Define randomness once, for every backend and number of ranks, and draw inputs.

A *key* is a hash of seed and place; element i of a stream is a hash of the key and its *global*
index i, so a shard's numbers are the slice of the whole. Integer operations and one exact scaling
only: `log` and `cos` differ in the last bit between libraries.

Mixing is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), places are hashed by FNV-1a.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import IRProgram
from xg.ir.walk import param_specs
from xg_runtime.module import Array

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


# Inputs, parameters and cotangents for a program without any, the same on every machine.


@dataclass(frozen=True, slots=True)
class Draw:
    """An array to be drawn under a place: nearly normal floats, or integers `below` a number."""

    place: str
    shape: tuple[int, ...]
    deviation: float = 1.0
    offset: float = 0.0
    below: int | None = None

    def array(self, seed: int) -> Array:
        """The array that a seed gives."""
        if self.below is None:
            return normal(key(seed, self.place), self.shape, self.deviation) + self.offset
        count = int(np.prod(self.shape, dtype=np.int64))
        drawn = words(key(seed, self.place), count) >> np.uint64(33)
        return (drawn.astype(np.int64) % self.below).reshape(self.shape)


def parameter_draws(program: IRProgram) -> dict[str, Draw]:
    """Parameters by path: nothing zero, nothing one, unlike the file's initial values."""
    draws: dict[str, Draw] = {}
    numbers = program.main.sizes.bind(program.numbers)
    for path, param, graph, symbols in param_specs(program):
        shape = tuple(
            graph.sizes.expand(dim).substitute(symbols).evaluate(numbers)
            for dim in param.type.shape
        )
        fan = max(shape[-2], 1) if len(shape) > 1 else 4
        draws[path] = Draw(path, shape, fan**-0.5, 1.0 if param.start == "ones" else 0.0)
    return draws


def input_draws(program: IRProgram) -> dict[str, Draw]:
    """Floats, and integers within their ranges; all sizes have numbers."""
    main = program.main
    numbers = main.sizes.bind(program.numbers)
    draws: dict[str, Draw] = {}
    for value in main.inputs:
        name, type_ = str(value.name), main.types[value]
        shape = tuple(dim.evaluate(numbers) for dim in type_.shape)
        below = None if type_.range is None else type_.range.evaluate(numbers)
        draws[name] = Draw(name, shape, below=below)
    return draws


def cotangent_draws(program: IRProgram) -> dict[str, Draw]:
    """One for each float output: 1 of a single number, drawn for others."""
    main = program.main
    numbers = main.sizes.bind(program.numbers)
    outputs = zip(main.output_names, main.outputs, strict=True)
    types = {name: main.types[value] for name, value in outputs if main.types[value].is_float}
    return {
        name: _cotangent(name, tuple(dim.evaluate(numbers) for dim in type_.shape))
        for name, type_ in types.items()
    }


def _cotangent(name: str, shape: tuple[int, ...]) -> Draw:
    return Draw(f"d{name}", shape) if shape else Draw(f"d{name}", shape, 0.0, 1.0)


def inputs(program: IRProgram, seed: int) -> dict[str, Array]:
    """Drawn arrays of the inputs."""
    return {name: draw.array(seed) for name, draw in input_draws(program).items()}


def cotangents(
    outputs: Mapping[str, Array], seed: int, names: Iterable[str] | None = None
) -> dict[str, Array]:
    """Draw cotangents for all float outputs, or for the named ones."""
    differentiated = outputs if names is None else names
    return {
        name: _cotangent(name, outputs[name].shape).array(seed)
        for name in differentiated
        if np.issubdtype(outputs[name].dtype, np.floating)
    }
