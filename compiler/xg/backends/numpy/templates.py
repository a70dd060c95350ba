"""The parts of a generated module that are the same in all of them."""

from __future__ import annotations

HEADER = '''"""{title}: forward and backward pass in NumPy.

Compiled by xg from {file}, block {block}. Change the diagram, not this file.

    forward({inputs}) -> {outputs}
"""

from __future__ import annotations

{math}from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Params = dict[str, Array]
DType = Any
'''

TAKE = '''def take(params: Params, at: str, names: str) -> list[Array]:
    """The named parameters of the call at a path."""
    return [params[f"{at}.{name}" if at else name] for name in names.split()]
'''

ADD = '''def add(grads: Params, name: str, part: Array) -> None:
    """One more part of the gradient of a parameter that is used in several places."""
    grads[name] = grads[name] + part if name in grads else part
'''

INIT = '''
    """Parameters by their names in the diagram, drawn from the seed."""
    params: Params = {{}}
    {starts}
    for name, (shape, start) in starts.items():
        if start == "ones":
            params[name] = np.ones(shape, dtype)
        elif start == "zeros":
            params[name] = np.zeros(shape, dtype)
        else:
            params[name] = normal(seed, name, shape, float(start)).astype(dtype)
    return params
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
