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
    shape = _shape(arrays[name], name)
    if len(shape) != axes:
        raise ValueError(f"{name} should have {axes} axes, not shape {list(shape)}")
    return arrays[name]
'''

SHAPE: Final = '''def _shape(array: Any, name: str) -> tuple[int, ...]:
    """The shape of an array; raise TypeError if it is none."""
    if not hasattr(array, "shape"):
        raise TypeError(f"{name} should be an array: lists and numbers have no shape")
    return tuple(array.shape)
'''

CHECK: Final = '''\
def _check(
    given: Mapping[str, Array],
    others: Mapping[str, Array],
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Raise ValueError if an array is missing, or does not fit those that are given."""
    arrays = {**given, **others}
    for name, expected in shapes.items():
        if name not in arrays:
            raise ValueError(f"{name} {list(expected)} is missing")
        shape = _shape(arrays[name], name)
        if shape != expected:
            beside = [
                f"{key} {list(value.shape)}"
                for key, value in given.items()
                if name not in given
                and [n for n in expected if n in value.shape and n not in shape]
            ]
            why = f"{', '.join(beside)} does not fit the parameters: " if beside else ""
            wrong = f"should have shape {list(expected)}, not {list(shape)}"
            raise ValueError(f"{why}{name} {wrong}")
'''

CHECK_NAMES: Final = '''def _check_names(arrays: Mapping[str, Array], *known: str) -> None:
    """Raise ValueError for an unknown name: its array would have no effect."""
    names = set(known)
    for name in arrays:
        if name not in names:
            more = ", …" if len(known) > 9 else ""
            raise ValueError(f"there is no {name}, but {', '.join(known[:9])}{more}")
'''

CHECK_COTANGENTS: Final = '''\
def _check_cotangents(
    d_outputs: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise ValueError for a cotangent of no output, or of another shape than that."""
    _check_names(d_outputs, *shapes)
    for name, array in d_outputs.items():
        shape = _shape(array, f"d{name}")
        if shape != shapes[name]:
            wrong = f"should have shape {list(shapes[name])}, not {list(shape)}"
            raise ValueError(f"d{name} {wrong}")
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
    "shape": SHAPE,
    "check_names": CHECK_NAMES,
    "check_cotangents": CHECK_COTANGENTS,
    "array": ARRAY,
    "add": ADD,
    "copy": COPY,
}
