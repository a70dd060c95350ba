"""The memory layout of a published tensor and of the diagram's parameters, both ways.

    Layout.of("T")                                          [out, in] -> [in, out]
    Layout.of("R[d, c=C_in, p=P, q=P -> (p, q, c), d]")     a kernel of patches -> a matrix
    Layout.of("T -> split")                                 three matrices side by side -> three

The signs are the language's: T swaps the last two axes, R takes axes apart and together, and an
axis that is not alone gets its size with `=`. `split` cuts the last axis, `rows` the first, and
`stack` makes one parameter of many tensors, each a row of its first axis; one of these comes last.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from xg_runtime.module import Array
from xg_runtime.tensor_pieces import Later, whole

Sizes = Mapping[str, int]
Group = tuple[str, ...]  # the axes that are one axis of a tensor
Map = tuple[tuple[Group, ...], tuple[Group, ...]]

_STEP: Final = re.compile(r"T|split|rows|stack|R\[([^\[\]]*)->([^\[\]]*)\]")
_CUTS: Final = {"split": -1, "rows": 0}  # the axis that is cut
_LAST: Final = (*_CUTS, "stack")
_GROUP: Final = re.compile(r"\(([^()]*)\)|([^(),]+)")
_AXIS: Final = re.compile(r"(?:([A-Za-z]\w*)(?:=(\w+))?|1)")


class Misfit(ValueError):
    """A text that is no layout, or a tensor that a layout does not fit."""


@dataclass(frozen=True)
class TensorLayout:
    """The way from a published tensor to the parameters that it holds; `None` is T."""

    maps: tuple[Map | None, ...] = ()
    given: tuple[tuple[str, str], ...] = ()  # axes and what their size is called
    cut: int | None = None  # the axis that is cut into several parameters
    stacked: bool = False  # the tensor is one row of a parameter

    @property
    def splits(self) -> bool:
        """Whether the tensor holds several parameters."""
        return self.cut is not None

    @classmethod
    def of(cls, text: str) -> "TensorLayout":
        """Read a layout; raises Misfit."""
        steps = [_STEP.fullmatch(step.strip()) for step in _steps(text)]
        maps: list[Map | None] = []
        sizes: dict[str, str] = {}
        for place, step in enumerate(steps):
            if step is None or (step[0] in _LAST and place < len(steps) - 1):
                signs = "T, R[… -> …], split, rows, stack"
                raise Misfit(f"{text!r} is none of {signs}, or these with ->")
            if step[0] not in _LAST:
                maps.append(None if step[0] == "T" else _map(step[1], step[2], sizes))
        last = steps[-1] if steps else None
        sign = last[0] if last else ""
        return cls(tuple(maps), tuple(sizes.items()), _CUTS.get(sign), sign == "stack")

    def params(self, tensor: Array, shapes: Sequence[Sequence[int]], sizes: Sizes) -> list[Array]:
        """The parameters that a tensor holds, which have these shapes if it is cut."""
        for step in self.maps:
            tensor = _transpose(tensor) if step is None else self._rearrange(tensor, *step, sizes)
        if self.cut is None:
            return [tensor]
        widths = [shape[self.cut] for shape in shapes if shape]
        if tensor.ndim == 0 or sum(widths) != tensor.shape[self.cut]:
            parts = " + ".join(map(str, widths))
            raise Misfit(f"its {'first' if self.cut == 0 else 'last'} axis is not {parts} long")
        return np.split(tensor, np.cumsum(widths)[:-1], axis=self.cut)

    def tensor(self, params: Sequence[Array | Later], sizes: Sizes) -> Later:
        """The tensor that holds these parameters, put together when it is asked for."""
        shape, dtype = list(params[0].shape), np.result_type(*(part.dtype for part in params))
        if self.cut is not None:
            shape[self.cut] = sum(part.shape[self.cut] for part in params)
        no_memory = np.broadcast_to(np.zeros((), dtype), shape)
        return Later(self._back(no_memory, sizes).shape, dtype, lambda: self._of(params, sizes))

    def _of(self, params: Sequence[Array | Later], sizes: Sizes) -> Array:
        parts = [whole(param) for param in params]
        together = parts[0] if self.cut is None else np.concatenate(parts, axis=self.cut)
        return self._back(together, sizes)

    def _back(self, tensor: Array, sizes: Sizes) -> Array:
        """A tensor in its published layout, a view where that is possible."""
        for step in reversed(self.maps):
            if step is None:
                tensor = _transpose(tensor)
            else:
                source, target = step
                tensor = self._rearrange(tensor, target, source, sizes)
        return tensor

    def _rearrange(
        self, tensor: Array, source: Sequence[Group], target: Sequence[Group], sizes: Sizes
    ) -> Array:
        """The tensor with its axes taken apart, in another order, and together again."""
        if tensor.ndim != len(source):
            raise Misfit(f"it has {tensor.ndim} axes, not {len(source)}")
        lengths = {axis: self._size(name, sizes) for axis, name in self.given}
        for group, length in zip(source, tensor.shape, strict=True):
            _settle(group, length, lengths)
        order = [axis for group in source for axis in group]
        apart = tensor.reshape([lengths[axis] for axis in order])
        turned = apart.transpose([order.index(axis) for group in target for axis in group])
        return turned.reshape([math.prod(lengths[axis] for axis in group) for group in target])

    def _size(self, name: str, sizes: Sizes) -> int:
        if name.isdigit():
            return int(name)
        if name not in sizes:
            raise Misfit(f"the diagram has no number for {name}")
        return sizes[name]


def _steps(text: str) -> list[str]:
    """The steps between the arrows outside of brackets."""
    ends = [m.span() for m in re.finditer(r"->(?![^\[]*\])", text)]
    edges = [0, *(place for span in ends for place in span), len(text)]
    return [text[a:b] for a, b in list(pairwise(edges))[::2]] if text else []


def _map(source: str, target: str, given: dict[str, str]) -> Map:
    """Parse both sides of an axis map, and add the sizes in it to `given`."""
    sides = _groups(source, given), _groups(target, given)
    names = [sorted(axis for group in side for axis in group) for side in sides]
    if names[0] != names[1] or len(set(names[0])) < len(names[0]):
        raise Misfit(f"[{source}->{target}] does not have each axis once on both sides")
    return sides


def _groups(text: str, given: dict[str, str]) -> tuple[Group, ...]:
    groups: list[Group] = []
    for match in _GROUP.finditer(text):
        inner = match[1] if match[1] is not None else match[2]
        matches = [_AXIS.fullmatch(axis.strip()) for axis in inner.split(",") if axis.strip()]
        if matches and None not in matches:
            axes = [axis for axis in matches if axis is not None]
            given.update((axis[1], axis[2]) for axis in axes if axis[2])
            groups.append(tuple(axis[1] for axis in axes if axis[1]))
        elif inner.strip():
            raise Misfit(f"{inner.strip()!r} is no axis")
    return tuple(groups)


def _settle(group: Group, length: int, known: dict[str, int]) -> None:
    """Check the sizes of a group's axes against `length`, and fill in one that is unknown."""
    unknown = [axis for axis in group if axis not in known]
    if len(unknown) > 1:
        raise Misfit(f"{' and '.join(unknown)} have no size: give them one with =")
    rest = math.prod(known[axis] for axis in group if axis in known)
    if unknown and rest and length % rest == 0:
        known[unknown[0]] = length // rest
    elif unknown or rest != length:
        raise Misfit(f"an axis of {length} is not {' times '.join(group) or '1'}")


def _transpose(tensor: Array) -> Array:
    if tensor.ndim < 2:
        raise Misfit("T needs two axes")
    return tensor.swapaxes(-1, -2)
