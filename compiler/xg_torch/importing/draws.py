"""Inputs and parameters that are drawn to compare a model with its diagram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from xg_runtime.module import Arrays
from xg_torch.importing.archive import Array
from xg_torch.importing.diagram import Model
from xg_torch.importing.exported import BOOL, INTEGERS, Exported, within
from xg_torch.importing.lowering import LAYOUT
from xg_torch.importing.views import ModelValue

VECTOR: Final = 0.1  # how far the entries of vectors are moved, which often start as 0 or 1
PART: Final = 2**18  # numbers that are moved at once
MATRIX: Final = 0.5  # how far those of others are, in their own measure
Span = tuple[float, float] | None  # of inputs with a point; None is around 0
SPANS: Final[tuple[Span, ...]] = (None, (0.0, 1.0), (1.0, 2.0))  # in turn, for log and sqrt


def trials(exported: Exported) -> list[dict[str, int]]:
    """Sizes to compare at: those of the trace, and others within the limits."""
    symbols = sorted(exported.limits)
    traced = {name: exported.traced.get(name, 5 + place) for place, name in enumerate(symbols)}
    others = {name: within(exported.limits[name], traced[name] + 1) for name in symbols}
    return [traced, others] if symbols and others != traced else [traced]


def parameters(exported: Exported, rng: np.random.Generator, *, moved: bool) -> Arrays:
    """Every parameter in float64, by its name in the model; `moved` away from 0 and from others."""
    arrays: Arrays = {}
    for entry in exported.entries:
        if entry.kind == "parameter" and entry.target not in arrays:
            array = exported.arrays[entry.target].astype(np.float64, order="C")
            if moved:
                flat = array.reshape(-1)
                own = float(np.sqrt(np.dot(flat, flat) / flat.size)) if flat.size else 0.0
                _move(flat, VECTOR if array.ndim < 2 else MATRIX * (own or VECTOR), rng)
            arrays[entry.target] = array
    return arrays


def _move(numbers: Array, measure: float, rng: np.random.Generator) -> None:
    """Add evenly drawn numbers of a measure in place; drawing normal ones takes four times as long.

    Of large arrays part by part, since memory takes longer to get than to fill.
    """
    for first in range(0, len(numbers), PART):
        part = numbers[first : first + PART]
        moves = rng.random(len(part), np.float32) - np.float32(0.5)
        part += moves * np.float32(measure * 12**0.5)


def inputs(
    exported: Exported,
    model: Model,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    span: Span = None,
) -> Arrays:
    """The inputs, by their names in the graph; padding is at the end of rows, never all of one."""
    polarity = _masks(model)
    reaches = [step.attrs.get("reach") for step in model.steps]
    hidden = min((reach for reach in reaches if reach is not None), default=None)
    arrays: Arrays = {}
    for entry in exported.entries:
        if entry.kind != "user" or not entry.name:
            continue
        meta = exported.metas[entry.name]
        assert meta.shape is not None
        shape = [int(dim.evaluate(sizes)) for dim in meta.shape]
        value = model.inputs.get(entry.name)
        if meta.dtype not in INTEGERS and meta.dtype != BOOL:
            drawn = rng.standard_normal(shape) if span is None else rng.uniform(*span, shape)
            arrays[entry.name] = drawn
        elif value in polarity:
            arrays[entry.name] = _padding(shape, rng, hidden) ^ (not polarity[value])
        else:
            size = model.ranges.get(value) if value is not None else None
            below = 2 if size is None else int(model.sizes.dim(size).evaluate(sizes))
            arrays[entry.name] = rng.integers(0, below, shape)
    return arrays


def _padding(shape: list[int], rng: np.random.Generator, hidden: int | None) -> Array:
    """1 at the beginning of every row, 0 behind: at most `hidden`, so that a window sees some."""
    if not shape:
        return np.ones((), np.int64)
    least = 1 if hidden is None else max(1, shape[-1] - hidden)
    lengths = rng.integers(least, shape[-1] + 1, [*shape[:-1], 1])
    return (np.arange(shape[-1]) < lengths).astype(np.int64)


def _masks(model: Model) -> dict[ModelValue | None, bool]:
    """The inputs that hide scores, and whether 1 shows."""
    masks: dict[ModelValue | None, bool] = {}
    producer = {value: step for step in model.steps for value in step.outputs}
    for step in model.steps:
        if step.operator == "SM" and len(step.data) > 1:
            value, shows = step.data[1], True
            while value in producer and producer[value].operator in (*LAYOUT, "not"):
                shows ^= producer[value].operator == "not"
                value = producer[value].data[0]
            masks[value] = shows
    return masks
