"""Layouts, sizes and positions of ONNX in torch; what depends on sizes alone is computed here."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.onnx_call import ENDLESS, OnnxCall

Result = Any  # a tensor, an array of what is known, or a tuple of them


def _constant_of_shape(call: OnnxCall) -> Result:
    value = call.attribute("value")
    from onnx import numpy_helper

    filled = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    shape = call.ints(0)
    if all(isinstance(each, int) for each in shape) and filled.dtype.kind in "iu":
        return np.full(shape, filled.reshape(-1)[0])
    return torch.full(shape, filled.reshape(-1)[0].item(), dtype=torch.tensor(filled).dtype)


def _shape(call: OnnxCall) -> Result:
    given = call.args[0]
    assert given is not None
    sizes = list(given.shape)[call.attribute("start", 0) : call.attribute("end")]
    return _objects(sizes)


def _objects(items: list[Any]) -> Any:  # noqa: ANN401 - an array of sizes
    array = np.empty(len(items), object)
    array[:] = items
    return array if any(not isinstance(each, int) for each in items) else array.astype(np.int64)


def _gather(call: OnnxCall) -> Result:
    axis = call.attribute("axis", 0)
    if call.known(0, 1):
        return np.asarray(np.take(call.host(0), call.host(1).astype(np.int64), axis))
    data = call.x(0)
    axis %= data.ndim
    if call.known(1):
        indices = call.host(1).astype(np.int64)
        if indices.ndim == 0:
            return data.select(axis, int(indices))
        length = data.shape[axis]
        first = int(indices.reshape(-1)[0]) if indices.size else 0
        if indices.ndim == 1 and np.array_equal(indices, first + np.arange(len(indices))):
            if first < 0:
                first += length
            return data.narrow(axis, first, len(indices))
    if data.ndim == 2 and axis == 0 and not call.known(0):
        return F.embedding(call.x(1), data)
    raise Unspeakable("it gathers other than rows of a matrix, or positions in a row")


def _reshape(call: OnnxCall) -> Result:
    shape, zero = call.ints(1), call.attribute("allowzero", 0)
    if call.known(0):
        return call.host(0).reshape([int(each) for each in shape])
    x = call.x(0)
    if not zero:
        shape = [x.shape[i] if _is(each, 0) else each for i, each in enumerate(shape)]
    return x.reshape(shape)


def _is(size: object, number: int) -> bool:
    return isinstance(size, int) and size == number


def _squeeze(call: OnnxCall) -> Result:
    axes = call.axes(1)
    if call.known(0):
        return np.squeeze(call.host(0), None if axes is None else tuple(axes))
    x = call.x(0)
    axes = [i for i, n in enumerate(x.shape) if _is(n, 1)] if axes is None else axes
    for axis in sorted((each % x.ndim for each in axes), reverse=True):
        x = x.squeeze(axis)
    return x


def _unsqueeze(call: OnnxCall) -> Result:
    axes = call.axes(1) or []
    if call.known(0):
        return np.expand_dims(call.host(0), tuple(axes))
    x = call.x(0)
    for axis in sorted(each % (x.ndim + len(axes)) for each in axes):
        x = x.unsqueeze(axis)
    return x


def _transpose(call: OnnxCall) -> Result:
    perm = call.attribute("perm")
    if call.known(0):
        return np.transpose(call.host(0), perm)
    x = call.x(0)
    return x.permute(list(range(x.ndim))[::-1] if perm is None else perm)


def _concat(call: OnnxCall) -> Result:
    axis = call.attribute("axis")
    if call.known(*range(len(call.args))):
        return np.concatenate([call.host(i) for i in range(len(call.args))], axis)
    return torch.cat([call.x(i) for i in range(len(call.args))], axis)


def _slice(call: OnnxCall) -> Result:
    starts, ends = call.ints(1), call.ints(2)
    rank = np.ndim(call.host(0)) if call.known(0) else call.x(0).ndim
    axes = call.ints(3) if call.has(3) else list(range(len(starts)))
    steps = call.ints(4) if call.has(4) else [1] * len(starts)
    if any(not isinstance(step, int) or step < 1 for step in steps):
        raise Unspeakable("it takes positions from behind")
    cut: list[slice] = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        stop = None if isinstance(end, int) and end >= ENDLESS else end
        cut[axis] = slice(start, stop, step)
    return call.host(0)[tuple(cut)] if call.known(0) else call.x(0)[tuple(cut)]


def _split(call: OnnxCall) -> Result:
    x, axis = call.x(0), call.attribute("axis", 0)
    lengths = call.ints(1) if call.has(1) else None
    if lengths is None:
        count = call.attribute("num_outputs", len(call.node.outputs))
        each = -(-x.shape[axis] // count)
        return tuple(torch.split(x, each, axis))
    return tuple(torch.split(x, lengths, axis))


def _expand(call: OnnxCall) -> Result:
    shape = call.ints(1)
    x = call.x(0)
    own = [1] * (len(shape) - x.ndim) + list(x.shape)
    shape = [1] * (len(own) - len(shape)) + shape
    return x.expand([mine if _is(its, 1) else its for mine, its in zip(own, shape, strict=True)])


def _range(call: OnnxCall) -> Result:
    start, stop, step = (call.host(i).reshape(-1)[0] for i in range(3))
    ends = [each.item() if isinstance(each, np.generic) else each for each in (start, stop, step)]
    return torch.arange(*ends)


def _trilu(call: OnnxCall) -> Result:
    diagonal = call.ints(1)[0] if call.has(1) else 0
    upper = call.attribute("upper", 1)
    return (torch.triu if upper else torch.tril)(call.x(0), diagonal)


def _flatten(call: OnnxCall) -> Result:
    x = call.x(0)
    axis = call.attribute("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _size(call: OnnxCall) -> Result:
    given = call.args[0]
    assert given is not None
    return np.asarray(math.prod(given.shape), dtype=object)


RULES: Final[Mapping[str, Callable[[OnnxCall], Result]]] = {
    "Gather": _gather,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Shape": _shape,
    "Size": _size,
    "Range": _range,
    "ConstantOfShape": _constant_of_shape,
    "Trilu": _trilu,
}
