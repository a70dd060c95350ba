"""Windows of ONNX in torch: convolution, pooling, and repeated positions."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.onnx_call import OnnxCall


def _padding(call: OnnxCall, count: int) -> list[int]:
    """The zeros at both ends of each axis; raises Unspeakable where the ends differ."""
    word = call.attribute("auto_pad", "NOTSET")
    if word == "VALID":
        return [0] * count
    if word != "NOTSET":
        raise Unspeakable(f"its padding follows from its input (auto_pad={word})")
    pads = call.attribute("pads", [0] * 2 * count)
    if pads[:count] != pads[count:]:
        raise Unspeakable("its padding is not the same at both ends of an axis")
    return pads[:count]


def convolution(call: OnnxCall) -> Any:  # noqa: ANN401 - a tensor
    """A convolution along one axis, two or three."""
    x, kernel = call.x(0), call.x(1)
    count = kernel.ndim - 2
    if count not in (1, 2, 3):
        raise Unspeakable(f"it is a convolution along {count} axes")
    call.attribute("kernel_shape")
    return (F.conv1d, F.conv2d, F.conv3d)[count - 1](
        x,
        kernel,
        call.x(2) if call.has(2) else None,
        call.attribute("strides", [1] * count),
        _padding(call, count),
        call.attribute("dilations", [1] * count),
        call.attribute("group", 1),
    )


def max_pool(call: OnnxCall) -> Any:  # noqa: ANN401 - a tensor
    """The largest of each window."""
    call.one_output()
    call.attribute("storage_order")
    k = call.attribute("kernel_shape")
    if len(k) not in (1, 2):
        raise Unspeakable(f"it pools along {len(k)} axes")
    return (F.max_pool1d, F.max_pool2d)[len(k) - 1](
        call.x(0),
        k,
        call.attribute("strides", [1] * len(k)),
        _padding(call, len(k)),
        call.attribute("dilations", [1] * len(k)),
        ceil_mode=bool(call.attribute("ceil_mode", 0)),
    )


def average_pool(call: OnnxCall) -> Any:  # noqa: ANN401 - a tensor
    """The mean of each window."""
    k = call.attribute("kernel_shape")
    if len(k) not in (1, 2):
        raise Unspeakable(f"it pools along {len(k)} axes")
    call.expect("dilations", [1] * len(k))
    return (F.avg_pool1d, F.avg_pool2d)[len(k) - 1](
        call.x(0),
        k,
        call.attribute("strides", [1] * len(k)),
        _padding(call, len(k)),
        ceil_mode=bool(call.attribute("ceil_mode", 0)),
        count_include_pad=bool(call.attribute("count_include_pad", 0)),
    )


def resize(call: OnnxCall) -> Any:  # noqa: ANN401 - a tensor
    """Each position repeated as often as a number says."""
    call.expect("mode", "nearest")
    call.expect("coordinate_transformation_mode", "asymmetric", "half_pixel")
    call.attribute("nearest_mode")
    for name in ("antialias", "axes", "keep_aspect_ratio_policy"):
        if call.attribute(name):
            raise Unspeakable(f"its {name} is {call.attribute(name)}")
    for name in ("cubic_coeff_a", "exclude_outside", "extrapolation_value"):
        call.attribute(name)
    x = call.x(0)
    if not call.has(2) or not call.host(2).size:
        raise Unspeakable("it is resized to a size, not by a number")
    scales = call.host(2)
    times = [int(each) for each in scales]
    if x.ndim not in (3, 4) or not np.array_equal(times, scales) or times[:2] != [1, 1]:
        raise Unspeakable("it does not repeat each position a whole number of times")
    return F.interpolate(x, scale_factor=[float(each) for each in times[2:]], mode="nearest")
