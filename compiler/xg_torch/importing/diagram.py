"""The model in the operators of the legend: steps in order, each in its module."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg_torch.importing.exported import ModuleScope
from xg_torch.importing.views import ModelValue, Size, SizeClasses


@dataclass(frozen=True, slots=True, eq=False)
class ModelStep:
    """One node: an operator on values. `data` arrive by arrows, `own` are in its box.

    `attrs` are the other entries of the box, by the writer's names; sizes in it are `Size`s.
    """

    operator: str
    data: tuple[ModelValue, ...]
    outputs: tuple[ModelValue, ...]
    stack: tuple[ModuleScope, ...]
    own: tuple[ModelValue, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def operands(self) -> tuple[ModelValue, ...]:
        """Everything that it reads."""
        return (*self.data, *self.own)


@dataclass(frozen=True, slots=True)
class WrittenOperator:
    """An operator that a file defines: its name, ``(a [.., S, T]; w)``, and its expression."""

    name: str
    signature: str
    body: str


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The axes of R, T and BC: `source` and `target` as groups of factors by number.

    `sizes` says how long each factor is; those that only `target` has are new.
    """

    source: tuple[tuple[int, ...], ...]
    target: tuple[tuple[int, ...], ...]
    sizes: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """Where the numbers of a parameter come from: a tensor of the model, cut and turned.

    A kernel of patches is `flat`: all axes but the first are one, before it is turned. Of a
    `kernel` of windows, [D, C, k, ..] becomes [k, .., C, D]. A `frozen` one has no gradient.
    """

    source: str
    transposed: bool = False
    axis: int = 0
    start: int | None = None
    stop: int | None = None
    flat: bool = False
    kernel: bool = False
    frozen: bool = False

    def laid_out(self, shape: Sequence[int]) -> list[int]:
        """The shape of what was cut, with its axes merged or moved, before it is turned."""
        if self.flat:
            return [shape[0], math.prod(shape[1:])]
        return [*shape[2:], shape[1], shape[0]] if self.kernel else [*shape]

    @staticmethod
    def turned(axes: Sequence[Size | None]) -> list[Size | None]:
        """Axes with the last two exchanged, as `transposed` does."""
        return [*axes[:-2], *axes[:-3:-1]]


@dataclass(frozen=True)
class Model:
    """A whole model: what comes in by name, its steps, what goes out, where weights come from."""

    inputs: Mapping[str, ModelValue]
    steps: Sequence[ModelStep]
    outputs: Sequence[ModelValue]
    weights: Mapping[ModelValue, Weight]
    ranges: Mapping[ModelValue, Size]  # what integers index
    sizes: SizeClasses
    notes: Sequence[str] = ()  # differences of the diagram from the model
    rounded: bool = False  # whether a table of float32 means exact positions
