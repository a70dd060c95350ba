"""A safetensors file in pieces, so that no more of it than one piece is in memory.

    files.write(path, pieces(arrays, metadata, "bfloat16"))

Arrays may be views of a file, in any layout: a piece is laid out and converted when it is its turn.
`Later` is an array that is itself put together then, a `Stack` one of which a row is at a time.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

import numpy as np

from xg_runtime.module import Array
from xg_runtime.tensorfile import BFLOAT16, NAMES, widen_bfloat16

PIECE: Final = 2**24  # bytes
FLOATS: Final = ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True)
class Later:
    """Describe an array to write; only its shape and dtype are known before its turn."""

    shape: tuple[int, ...]
    dtype: np.dtype
    array: Callable[[], Array]

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)


@dataclass(frozen=True)
class Stack(Later):
    """An array whose rows are arrays of their own, perhaps views of a file."""

    rows: tuple[Array, ...]

    @classmethod
    def of(cls, rows: Sequence[Array]) -> "Stack":
        """Rows of one shape."""
        kept, dtype = tuple(rows), np.result_type(*(row.dtype for row in rows))
        shape = len(kept), *kept[0].shape

        def together() -> Array:
            whole = np.empty(shape, dtype)
            for place, row in enumerate(kept):
                whole[place] = row
            return whole

        return cls(shape, dtype, together, kept)


def whole(array: Array | Later) -> Array:
    """An array, put together where it is not yet."""
    return array.array() if isinstance(array, Later) else array


Writable: TypeAlias = Mapping[str, Array | Later]


def pieces(
    arrays: Writable, metadata: Mapping[str, str] | None = None, dtype: str | None = None
) -> Iterator[bytes]:
    """Yield the file of `arrays`; floats in another type, if one is given."""
    types = {name: element_type(array, dtype) for name, array in arrays.items()}
    order = sorted(arrays, key=lambda name: (-types[name].itemsize, name))
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    start = 0
    for name in order:
        end = start + arrays[name].size * types[name].itemsize
        shape, kind = list(arrays[name].shape), NAMES[types[name]]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        array = arrays[name]
        for part in array.rows if isinstance(array, Stack) else (array,):
            yield from _pieces_of(whole(part), types[name])


def element_type(array: Array | Later, dtype: str | None) -> np.dtype:
    """The type that an array is written in: the one that is given, if these are floats."""
    is_float = array.dtype.kind == "f" or array.dtype == BFLOAT16
    if not is_float or dtype is None:
        return array.dtype
    return BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)


def convert_dtype(array: Array, to: np.dtype) -> Array:
    """Numbers in another type; bfloat16 takes the nearest, of two equally near the even one."""
    if array.dtype == to:
        return array
    if to != BFLOAT16:
        return widen_bfloat16(array).astype(to)
    bits = array.astype(np.float32).view(np.uint32)
    nearest = (bits + (np.uint32(0x7FFF) + (bits >> 16 & 1))) >> 16
    quiet = bits >> 16 | 0x40  # NaN stays one
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, quiet, nearest).astype("<u2").view(BFLOAT16)


def _pieces_of(array: Array, to: np.dtype) -> Iterator[bytes]:
    row = max(1, prod(array.shape[1:]) * to.itemsize)
    rows = max(1, PIECE // row)
    if array.ndim == 0 or len(array) <= rows:
        yield convert_dtype(array, to).tobytes()
        return
    for first in range(0, len(array), rows):
        yield convert_dtype(array[first : first + rows], to).tobytes()
