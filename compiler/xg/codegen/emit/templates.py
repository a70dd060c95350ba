"""Private functions around the public ones: the same text in every backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ADD: Final = '''def _add(grads: Params, name: str, part: Array) -> None:
    """Add one part of the gradient of a parameter that is used in several places."""
    grads[name] = grads[name] + part if name in grads else part
'''

ARRAY: Final = '''def _array(arrays: Mapping[str, Array], name: str, axes: int) -> Array:
    """Get an array by its name; raise ValueError if it has another number of axes."""
    if name not in arrays:
        raise ValueError(f"{name} is missing")
    if arrays[name].ndim != axes:
        shape = list(arrays[name].shape)
        raise ValueError(f"{name} should have {axes} axes, not shape {shape}")
    return arrays[name]
'''

CHECK: Final = '''\
def _check(arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError if an array is missing, or its shape does not fit the others."""
    for name, expected in shapes.items():
        if name not in arrays:
            raise ValueError(f"{name} {list(expected)} is missing")
        if arrays[name].shape != expected:
            shape = list(arrays[name].shape)
            raise ValueError(f"{name} should have shape {list(expected)}, not {shape}")
'''

COPY: Final = '''def _copy(saved: Any) -> Any:
    """Copy the records but not their tensors: a backward pass empties its records."""
    if isinstance(saved, list):
        return [_copy(part) for part in saved]
    if saved is None or isinstance(saved, int | Array):
        return saved
    fields = {name: _copy(part) for name, part in saved.__dict__.items()}
    return saved.__class__(**fields)
'''

HELPERS: Final[Mapping[str, str]] = {
    "check": CHECK,
    "array": ARRAY,
    "add": ADD,
    "copy": COPY,
}
