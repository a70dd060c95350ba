"""Convolutions whose windows do not overlap: patches laid out by R, and a product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.ir.dim import number
from xg_torch.importing.diagram import Weight
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.rules_product import project
from xg_torch.importing.sizes import divides
from xg_torch.importing.views import Axis, View, split

PLACES: Final = "HW"  # names of the axes of a picture


def in_patches(lowering: Lowering, view: View, stored: Weight, kernel: Sequence[int]) -> View:
    """``x -> R : [B, h, w, (c, p, q)] -> •<=W``, where each window begins where the last one ends.

    The kernel [d, c, p, q] becomes a matrix [c p q, d].
    """
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
            if not lowering.sizes.is_part(axis[0].size):  # else it follows from what it is part of
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
