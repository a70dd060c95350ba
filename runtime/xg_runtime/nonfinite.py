"""Finding the first tensor that is not finite, to name it in an error."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np

from xg_runtime.module import Array, Arrays, Saved, is_float


def first_nonfinite(arrays: Arrays) -> tuple[int, str]:
    """Return place and name of the first array with a NaN or an infinity; (0, "") for none."""
    for place, (name, array) in enumerate(arrays.items()):
        if is_float(array) and not np.isfinite(array).all():
            return place, name
    return 0, ""


def first_broken(saved: Saved) -> tuple[int, str]:
    """Return place and path of the first array in `saved` with a NaN or +∞; -∞ is a mask's."""
    for place, (name, array) in enumerate(arrays_in(saved)):
        if is_float(array) and bool((np.isnan(array) | np.isposinf(array)).any()):
            return place, name
    return 0, ""


def arrays_in(saved: Saved) -> Iterator[tuple[str, Array]]:
    """Return every array in nested dicts, sequences and records with its path, in order."""
    pending: list[tuple[str, object]] = [("", saved)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, np.ndarray):
            yield path, cast(Array, value)
        else:
            pending.extend(
                (f"{path}.{name}" if path else name, part) for name, part in reversed(_parts(value))
            )


def _parts(value: object) -> list[tuple[str, object]]:
    if is_dataclass(value) and not isinstance(value, type):
        return [(part.name, getattr(value, part.name)) for part in fields(value)]
    if hasattr(value, "_asdict"):  # a named tuple
        value = cast(Any, value)._asdict()
    if isinstance(value, Mapping):
        return [(str(name), part) for name, part in cast("Mapping[object, object]", value).items()]
    if isinstance(value, (tuple, list)):
        return [(str(place), part) for place, part in enumerate(cast("list[object]", value))]
    return []
