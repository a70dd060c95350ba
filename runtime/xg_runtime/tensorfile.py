"""The safetensors format as bytes: `pack(arrays)` and `unpack(data)`.

The one place that imports the safetensors package, whose annotations do not name element types.
"""

import numpy as np
import safetensors
import safetensors.numpy as _format

from xg_runtime.module import Arrays


def pack(arrays: Arrays) -> bytes:
    """Return `arrays` as one safetensors file; the bytes depend on names and values only."""
    # The package writes the memory as it lies, so a transposed view has to be laid out first.
    return _format.save({name: np.asarray(array, order="C") for name, array in arrays.items()})


def unpack(data: bytes) -> Arrays:
    """Return the arrays of a safetensors file, writable; raises ValueError when it is damaged."""
    try:
        return {name: array.copy() for name, array in _format.load(data).items()}
    except KeyError as error:
        raise ValueError(f"element type {error} is unknown to NumPy") from error
    except (safetensors.SafetensorError, TypeError) as error:
        raise ValueError(str(error)) from error
