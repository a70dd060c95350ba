"""Named arrays in files: `.npz`, `.npy` (one array, named as the file) and `.safetensors`.

    read(path) -> Arrays         raises FileError when the file is missing, damaged or unknown
    write(path, arrays)          atomic; the bytes depend on names and values only

No pickle is ever read or written.
"""

import io
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

from xg_runtime import files, tensorfile
from xg_runtime.errors import FileError
from xg_runtime.module import Array, Arrays

ENDINGS: Final = (".npz", ".npy", ".safetensors")

FREE: Final = 2**28  # bytes that any archive may unpack to
TIMES_AT_MOST: Final = 100  # as long as its file, beyond that; arrays of zeros pack even better

# What NumPy and zipfile raise on bytes that are cut, flipped, or claim more than there is.
_DAMAGE: Final = (
    ValueError,
    TypeError,
    SyntaxError,
    KeyError,
    EOFError,
    OSError,
    MemoryError,
    OverflowError,
    RuntimeError,  # also for a compression that there is not
    zipfile.BadZipFile,
    zlib.error,
)


def read(path: Path) -> Arrays:
    """Return the arrays of `path` by name."""
    check_ending(path)
    data = files.read(path)
    try:
        if path.suffix == ".npz":
            return _unpack_npz(data)
        if path.suffix == ".npy":
            return {path.stem: _unpack_npy(data)}
        return tensorfile.unpack(data)
    except TooLarge as bomb:
        raise FileError(f"cannot read {path}: {bomb}") from None
    except _DAMAGE as error:
        raise FileError(
            f"cannot read {path}: the file is damaged, or not of the kind that its name says"
        ) from error


def write(path: Path, arrays: Arrays) -> None:
    """Write `arrays` to `path`, in the format its ending names; `.npy` holds exactly one."""
    files.write(path, pack(path, arrays))


def pack(path: Path, arrays: Arrays) -> bytes:
    """Return what `write` writes."""
    check_ending(path)
    if path.suffix == ".safetensors":
        return tensorfile.pack(arrays)
    if path.suffix == ".npz":
        return _pack_npz(arrays)
    if len(arrays) != 1:
        raise FileError(
            f"cannot write {path}: a .npy file holds one array; found {len(arrays)}, so use .npz"
        )
    return _pack_npy(next(iter(arrays.values())))


def check_ending(path: Path) -> None:
    """Raise FileError for a file that no arrays could be kept in."""
    if path.suffix not in ENDINGS:
        raise FileError(f"{path}: a file of arrays must end in {', '.join(ENDINGS)}")


def _pack_npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _unpack_npy(data: bytes) -> Array:
    return np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)


def _pack_npz(arrays: Arrays) -> bytes:
    """Return what np.savez would, which however cannot hold an array called `file`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), _pack_npy(array))
    return buffer.getvalue()


class TooLarge(ValueError):
    """An archive that packs more than anybody's arrays need, or one name twice."""


def check_members(archive: zipfile.ZipFile, length: int) -> None:
    """Raise TooLarge where members have one name, or claim far more bytes than the archive has."""
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TooLarge(f"it holds {twice[0]} twice")
    claimed = sum(member.file_size for member in archive.infolist())
    if claimed > max(FREE, TIMES_AT_MOST * length):
        raise TooLarge(f"its {length:,} bytes claim to be {claimed:,}")


def _unpack_npz(data: bytes) -> Arrays:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_members(archive, len(data))
        return {
            name.removesuffix(".npy"): _unpack_npy(archive.read(name))
            for name in archive.namelist()
        }
