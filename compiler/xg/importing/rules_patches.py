"""Convolutions whose windows do not overlap: patches laid out by R, and a product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.importing.diagram import Weight
from xg.importing.errors import Unspeakable
from xg.importing.known import Known
from xg.importing.lowering import Lowering
from xg.importing.rules_product import project
from xg.importing.sizes import divides
from xg.importing.views import Axis, View, split
from xg.ir.dim import number

PLACES: Final = "HW"  # names of the axes of a picture


def convolution(lowering: Lowering) -> Known:
    """``x -> R : [B, h, w, (c, p, q)] -> •<=W``, where each window begins where the last one ends.

    The kernel [d, c, p, q] becomes a matrix [c p q, d].
    """
    view = lowering.view_of("input")
    weight = lowering.known_of("weight")
    if not isinstance(weight, View) or not weight.plain:
        raise Unspeakable("its kernel is no parameter")
    stored = lowering.weights.get(weight.value)
    if stored is None or stored.start is not None or stored.transposed:
        raise Unspeakable("its kernel is no parameter as it lies")
    kernel = lowering.exported.arrays[stored.source].shape[2:]
    if len(view.axes) != len(kernel) + 2:
        raise Unspeakable("its input has no axis of examples")
    _refuse_overlap(lowering, kernel)
    view, outer, inner = _windows(lowering, view, kernel)
    channels = view.axes[1]
    if len(channels) == 1 and len(kernel) > 1:
        lowering.sizes.hint(channels[0].size, "C_in", 3)
    patches = view.with_axes(
        (view.axes[0], *outer, (*channels, *(factor for axis in inner for factor in axis)))
    )
    matrix = lowering.weight(Weight(stored.source, transposed=True, flat=True))
    product = project(lowering, patches, matrix, lowering.argument("bias"))
    first, *places, last = product.axes
    return product.with_axes((first, last, *places))


def _refuse_overlap(lowering: Lowering, kernel: Sequence[int]) -> None:
    stride = _numbers(lowering, "stride", 1, len(kernel))
    dilation = _numbers(lowering, "dilation", 1, len(kernel))
    padding = lowering.argument("padding", 0)
    single = all(size == 1 for size in kernel)
    unpadded = padding == "valid" or (padding == "same" and single)
    if not isinstance(padding, str):
        unpadded = not any(_numbers(lowering, "padding", 0, len(kernel)))
    if lowering.integer_of("groups", 1) != 1:
        raise Unspeakable("it is a convolution in groups, which the language has no operator for")
    spread = any(d != 1 and size != 1 for d, size in zip(dilation, kernel, strict=True))
    if list(kernel) != stride or spread or not unpadded:
        raise Unspeakable(
            "it is a convolution with windows that overlap or are padded, which the language has "
            "no operator for"
        )


def _numbers(lowering: Lowering, name: str, default: int, count: int) -> list[int]:
    """An argument for each axis; one number is for all."""
    argument = lowering.argument(name, default)
    listed = list(argument) if isinstance(argument, tuple) else [argument]
    numbers = [each for each in listed if isinstance(each, int)]
    if len(numbers) != len(listed) or not numbers:
        raise Unspeakable(f"its {name} is no list of numbers")
    return numbers * count if len(numbers) == 1 else numbers


def _windows(
    lowering: Lowering, view: View, kernel: Sequence[int]
) -> tuple[View, list[Axis], list[Axis]]:
    """A view whose places are taken apart: which window, and where in it."""
    for place, size in enumerate(kernel, 2):
        axis = view.axes[place]
        if size == 1 or not axis:
            continue
        if len(axis) != 1 or axis[0] in view.repeats:
            view = View.of(lowering.materialize(view).value)
            axis = view.axes[place]
        length = lowering.sizes.dim(axis[0].size)
        if not divides(number(size), length):
            raise Unspeakable(f"its windows of {size} do not cover an axis of {length}")
        if length != number(size):
            lowering.sizes.hint(axis[0].size, PLACES[place - 2 : place - 1] or "S", 4)
            view = split(view, axis[0], length / size, lowering.sizes)
            lowering.sizes.hint(view.axes[place][-1].size, "P", 3)
    outer: list[Axis] = []
    inner: list[Axis] = []
    for axis, size in zip(view.axes[2:], kernel, strict=True):
        whole = size == 1
        outer.append(axis if whole else axis[:-1])
        inner.append(() if whole else axis[-1:])
    return view, outer, inner
