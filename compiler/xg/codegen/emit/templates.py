"""Small functions around the public ones: the same text in every backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TAKE = '''def take(params: Params, at: str, names: str) -> list[Array]:
    """The named parameters of the call at a path."""
    return [params[f"{at}.{name}" if at else name] for name in names.split()]
'''

ADD = '''def add(grads: Params, name: str, part: Array) -> None:
    """One more part of the gradient of a parameter that is used in several places."""
    grads[name] = grads[name] + part if name in grads else part
'''

ARRAY = '''def array(arrays: Mapping[str, Array], name: str, axes: int) -> Array:
    """An array by its name, refused if it is missing or has another number of axes."""
    if name not in arrays:
        raise ValueError(f"{name} is missing")
    if arrays[name].ndim != axes:
        found = list(arrays[name].shape)
        raise ValueError(f"{name} should have {axes} axes, not shape {found}")
    return arrays[name]
'''

CHECK = '''def check(arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse arrays that are missing or that do not agree on the sizes."""
    for name, shape in shapes.items():
        if name not in arrays:
            raise ValueError(f"{name} {list(shape)} is missing")
        if arrays[name].shape != shape:
            found = list(arrays[name].shape)
            raise ValueError(f"{name} should have shape {list(shape)}, not {found}")
'''

ANEW = '''def anew(saved: Any) -> Any:
    """The same records of the same tensors, for a backward pass that takes them apart."""
    if isinstance(saved, list):
        return [anew(part) for part in saved]
    if saved is None or isinstance(saved, int | Array):
        return saved
    return saved.__class__(**{name: anew(part) for name, part in saved.__dict__.items()})
'''

HELPERS: Final[Mapping[str, str]] = {
    "check": CHECK,
    "array": ARRAY,
    "take": TAKE,
    "add": ADD,
    "anew": ANEW,
}
