"""A parallel program and that of one device, run on the same arrays by the same code.

Every rank gets its parts of parameters, inputs and cotangents; what it gives is put together and
held against the outputs and gradients of one device. What ranks hold alike has to be the same to
the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import xg_runtime.ranks as ranks
from xg.graph import Program
from xg.parts import Cuts, cuts
from xg_runtime import agreement
from xg_runtime.module import Module
from xg_runtime.norm import global_norm
from xg_runtime.ranks.grid import Grid

Array = NDArray[Any]
Arrays = Mapping[str, Array]
Counts = dict[tuple[str, str, str], tuple[int, int]]

TOLERANCE: Final = 1e-10


@dataclass(frozen=True, slots=True)
class Run:
    """Outputs and gradients by name; of a rank its parts, and what it sent in each pass.

    Calls and elements are counted by pass, kind and mesh axis.
    """

    outputs: Arrays
    gradients: Arrays
    sent: Counts


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far ranks are from one device; `first` is the first array that differs, and why."""

    outputs: int
    gradients: int
    error: float
    first: str | None


@dataclass(frozen=True)
class Trial:
    """What both programs are given."""

    ranks: Program
    params: Arrays
    inputs: Arrays
    cotangents: Arrays
    seed: int

    def each(self, change: Callable[[Arrays], Arrays]) -> Trial:
        """The same with arrays changed by name, as into one rank's parts of them."""
        params, inputs = change(self.params), change(self.inputs)
        return replace(self, params=params, inputs=inputs, cotangents=change(self.cotangents))

    @cached_property
    def cuts(self) -> Mapping[str, Cuts]:
        """Which axes of its arrays are cut."""
        return cuts(self.ranks)

    def alone(self, module: Module) -> Run:
        """The run of one device."""
        params = dict(self.params)
        outputs, saved = module.forward(params, dict(self.inputs), seed=self.seed)
        return Run(outputs, module.backward(params, saved, dict(self.cotangents)), {})

    def together(self, module: Module) -> list[Run]:
        """The runs of all ranks; raises RankError where they do not fit together."""
        where = self.cuts

        def rank() -> Run:
            tally = ranks.current().tally
            params, inputs = ranks.parts(self.params, where), ranks.parts(self.inputs, where)
            with tally.during("forward"):
                outputs, saved = module.forward(params, inputs, seed=self.seed)
            cotangents = ranks.parts(self.cotangents, where)
            with tally.during("backward"):
                gradients = module.backward(params, saved, cotangents)
            counts = {key: (one.calls, one.elements) for key, one in tally.counts.items()}
            return Run(outputs, gradients, counts)

        return ranks.simulate(self.ranks.mesh, rank)

    def compare(self, alone: Run, together: Sequence[Run]) -> Agreement:
        """Every output and gradient against one device, in the contract's measure."""
        worst, first = 0.0, None
        for name, error, like in self.errors(alone, together):
            worst = max(worst, error)
            if first is None and not error <= TOLERANCE:
                first = name
            if first is None and not like:
                first = f"{name}, in bits between ranks"
        return Agreement(len(alone.outputs), len(alone.gradients), worst, first)

    def differs(self, alone: Run, together: Sequence[Run]) -> bool:
        """Whether anything is not as it should be."""
        found = self.errors(alone, together)
        return any(not (error <= TOLERANCE and like) for _, error, like in found)

    def errors(self, alone: Run, together: Sequence[Run]) -> Iterator[tuple[str, float, bool]]:
        """Of each array its error, and whether ranks that hold the same of it agree in bits."""
        outputs = [run.outputs for run in together]
        yield from self._errors("", alone.outputs, outputs)
        gradients = [run.gradients for run in together]
        yield from self._errors("d", alone.gradients, gradients)

    def _errors(
        self, prefix: str, wanted: Arrays, found: Sequence[Arrays]
    ) -> Iterator[tuple[str, float, bool]]:
        total = global_norm({name: _finite(each) for name, each in wanted.items()})
        for name in dict.fromkeys([*wanted, *(name for each in found for name in each)]):
            if name not in wanted or any(name not in each for each in found):
                yield prefix + name, float("inf"), True
                continue
            parts = [each[name] for each in found]
            whole, like = joined(parts, self.cuts.get(name, ()), self.ranks.mesh)
            yield prefix + name, _error(whole, wanted[name], total), like


def joined(parts: Sequence[Array], where: Cuts, mesh: Mapping[str, int]) -> tuple[Array, bool]:
    """The whole of all ranks' parts, and whether those of one part agree in bits."""
    first = parts[0].shape
    shape = list(first)
    for axis, over in where:
        shape[axis] *= mesh[over]
    whole, filled = np.zeros(shape, parts[0].dtype), set[tuple[int, ...]]()
    grid, like = Grid(dict(mesh)), True
    for number, part in enumerate(parts):
        at = grid.coordinates(number)
        place = _place(first, where, at, mesh)
        if part.shape != first:
            return part, False
        window = tuple(slice(p * n, p * n + n) for p, n in zip(place, first, strict=True))
        if place in filled:
            like &= np.array_equal(whole[window], part, equal_nan=part.dtype.kind == "f")
        filled.add(place)
        whole[window] = part
    return whole, like


def _place(
    shape: Sequence[int], where: Cuts, at: Mapping[str, int], mesh: Mapping[str, int]
) -> tuple[int, ...]:
    """Which part a rank has, along each axis."""
    place = [0] * len(shape)
    for axis, over in where:
        place[axis] = place[axis] * mesh[over] + at[over]
    return tuple(place)


def _error(found: Array, wanted: Array, total: float) -> float:
    if found.shape != wanted.shape:
        return float("inf")
    if not np.array_equal(np.isfinite(found), np.isfinite(wanted)):
        return float("inf")
    return agreement.error(_finite(found), _finite(wanted), total)


def _finite(array: Array) -> Array:
    return np.where(np.isfinite(array), array, 0.0)
