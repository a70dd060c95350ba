"""The safetensors format as bytes: `pack(arrays)`, `unpack(data)` and `metadata(data)`.

The one place that imports the safetensors package, whose annotations do not name element types.
bfloat16, which NumPy lacks, is read as the float32 that has the same value. `mapped(path)` reads
from the disk only what is looked at, and leaves the bits of bfloat16 as they are.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

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
