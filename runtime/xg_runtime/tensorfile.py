"""The safetensors format as bytes: `pack(arrays)`, `unpack(data)` and `metadata(data)`.

The one place that imports the safetensors package, whose annotations do not name element types.
bfloat16, which NumPy lacks, is read as the float32 that has the same value. `mapped(path)` reads
from the disk only what is looked at, and leaves the bits of bfloat16 as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import safetensors
import safetensors.numpy as _format

from xg_runtime.module import Array, Arrays

_package: Any = safetensors  # it says of its functions that they give something
_TYPES: Final = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}
BFLOAT16: Final = np.dtype([("bfloat16", "<u2")])  # bits that `widened` reads
NAMES: Final = {**{np.dtype(kind): name for name, kind in _TYPES.items()}, BFLOAT16: "BF16"}


def pack(arrays: Arrays, metadata: Mapping[str, str] | None = None) -> bytes:
    """Return `arrays` as one safetensors file; the bytes depend on names and values only."""
    # The package writes the memory as it is, so a transposed view has to be laid out first.
    laid_out = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return _format.save(laid_out, dict(metadata) if metadata else None)


def unpack(data: bytes) -> Arrays:
    """Return the arrays of a safetensors file, writable; raises ValueError when it is damaged."""
    try:
        entries: list[tuple[str, dict[str, Any]]] = _package.deserialize(data)
    except (safetensors.SafetensorError, TypeError) as error:
        raise ValueError(str(error)) from error
    return {name: _array(tensor) for name, tensor in entries}


def map_file(path: Path) -> Arrays:
    """Return the arrays of a file as views of it; raises ValueError when it is damaged.

    Their changes stay in memory.
    """
    with path.open("rb") as file:
        try:
            with _package.safe_open(path, framework="np"):
                pass  # it has looked at the whole header
        except (safetensors.SafetensorError, TypeError) as error:
            raise ValueError(str(error)) from error
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, dict[str, Any]] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    whole = np.asarray(np.memmap(path, np.uint8, "c"))[8 + length :]
    return {name: _view(whole, tensor) for name, tensor in header.items()}


def widen_bfloat16(array: Array) -> Array:
    """Return an array in a dtype that NumPy computes with: bfloat16 becomes float32."""
    return from_bfloat16(array["bfloat16"]) if array.dtype == BFLOAT16 else array


def metadata(data: bytes) -> dict[str, str]:
    """Return the metadata of a file beside its arrays; the file is not damaged."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]).get("__metadata__") or {}


def _array(tensor: Mapping[str, Any]) -> Array:
    """One tensor: its type, shape and bytes."""
    kind, shape, data = tensor["dtype"], tensor["shape"], tensor["data"]
    if kind == "BF16":
        return from_bfloat16(np.frombuffer(data, "<u2")).reshape(shape)
    return np.frombuffer(data, _known(kind)).reshape(shape).astype(_TYPES[kind][-2:], copy=True)


def _view(whole: Array, tensor: Mapping[str, Any]) -> Array:
    """Return a view of one tensor in the bytes after a header."""
    first, end = tensor["data_offsets"]
    kind = BFLOAT16 if tensor["dtype"] == "BF16" else np.dtype(_known(tensor["dtype"]))
    return whole[first:end].view(kind).reshape(tensor["shape"])


def _known(kind: str) -> str:
    if kind not in _TYPES:
        raise ValueError(f"element type {kind} is unknown to NumPy")
    return _TYPES[kind]


def from_bfloat16(bits: Array) -> Array:
    """Return 16-bit patterns as float32: bfloat16 is its upper half, so this is exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


# A safetensors file in pieces, so that no more of it than one piece is in memory.
#
#     files.write(path, pieces(arrays, metadata, "bfloat16"))
#
# Arrays may be views of a file, in any layout: a piece is laid out and converted when it is its
# turn. `Later` is an array that is itself put together then, a `Stack` one of which a row is at a
# time.


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
    def of(cls, rows: Sequence[Array]) -> Stack:
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
