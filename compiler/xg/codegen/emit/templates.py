"""Private functions around the public ones: the same text in every backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ADD: Final = '''def _add(grads: Params, name: str, part: Array) -> None:
    """Add one part of the gradient of a parameter that is used in several places."""
    grads[name] = grads[name] + part if name in grads else part
'''

LATER: Final = '''def _later(later: list[Any] | None, part: Any) -> None:
    """Run a part of a backward pass, or leave it in a list, for who may run it later."""
    if later is None:
        part()
    else:
        later.append(part)
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
            beside = {} if name in given else given
            for key, array in beside.items():
                for read, size in zip(expected, shape, strict=False):
                    if read in _shape(array, key) and read not in shape:
                        wrong = f"{key} {list(array.shape)} does not fit the parameters"
                        held = f"as in {name} {list(shape)}"
                        raise ValueError(f"{wrong}: {read} should be {size}, {held}")
            wrong = f"should have shape {list(expected)}, not {list(shape)}"
            raise ValueError(f"{name} {wrong}")
'''

CHECK_NAMES: Final = '''def _check_names(arrays: Mapping[str, Array], *known: str) -> None:
    """Raise ValueError for an unknown name: its array would have no effect."""
    names = set(known)
    for name in arrays:
        if name not in names:
            more = ", …" if len(known) > 9 else ""
            raise ValueError(f"there is no {name}, but {', '.join(known[:9])}{more}")
'''

CHECK_NAMED: Final = '''def _check_named(**given: Any) -> None:
    """Raise TypeError for an argument that is not arrays by their names."""
    for argument, arrays in given.items():
        if not isinstance(arrays, Mapping):
            raise TypeError(f"{argument} should be a dict: arrays by their names")
'''

CHECK_INPUTS: Final = '''\
def _check_inputs(params: Params, inputs: Mapping[str, Array], *known: str) -> None:
    """Raise TypeError or ValueError for inputs of other names or kinds."""
    _check_named(params=params, inputs=inputs)
    if [name for name in known if name in params]:
        raise ValueError("params and inputs are swapped: params come first")
    _check_names(inputs, *known)
    for name, array in inputs.items():
        if hasattr(array, "dtype") and "complex" in str(array.dtype):
            raise TypeError(f"{name} should have real numbers, not {array.dtype}")
'''

CHECK_SAVED: Final = '''def _check_saved(saved: Any, field: str) -> None:
    """Raise TypeError for what `forward` did not save, which would have the field."""
    if not hasattr(saved, field):
        raise TypeError("saved should be the second result of forward, not its first")
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
    fields = {name: _copy(saved.__dict__[name]) for name in saved._fields}
    return saved.__class__(**fields)
'''

TOWARD: Final = '''def _toward(old: Array, new: Array, share: float) -> Array:
    """A running statistic that has gone a share of its way."""
    return old + share * (new - old)
'''

HELPERS: Final[Mapping[str, str]] = {
    "check": CHECK,
    "shape": SHAPE,
    "check_named": CHECK_NAMED,
    "check_inputs": CHECK_INPUTS,
    "check_names": CHECK_NAMES,
    "check_saved": CHECK_SAVED,
    "check_cotangents": CHECK_COTANGENTS,
    "array": ARRAY,
    "add": ADD,
    "later": LATER,
    "copy": COPY,
    "toward": TOWARD,
}
