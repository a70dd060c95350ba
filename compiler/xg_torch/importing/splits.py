"""Slices that are all of an axis, one behind the other: one `split`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xg.ir.dim import ZERO
from xg_torch.importing.diagram import ModelStep
from xg_torch.importing.sizes import SizeClasses
from xg_torch.importing.views import ModelValue


def split_up(
    steps: Sequence[ModelStep], kept: Sequence[ModelValue], sizes: SizeClasses
) -> list[ModelStep]:
    """The steps with a split in the place of slices that take their operand apart."""
    readers: dict[ModelValue, list[ModelStep]] = {}
    for step in steps:
        for value in step.operands:
            readers.setdefault(value, []).append(step)
    splits: dict[ModelStep, ModelStep] = {}
    gone: set[ModelStep] = set()
    for value, slices in readers.items():
        if value not in kept and _apart(value, slices, sizes):
            ordered = sorted(slices, key=lambda step: step.attrs["start"].constant)
            outputs = tuple(step.outputs[0] for step in ordered)
            first = slices[0]
            splits[first] = ModelStep("split", (value,), outputs, first.stack, (), {"axis": -1})
            gone |= set(slices)
    return list(_replaced(steps, splits, gone))


def _replaced(
    steps: Sequence[ModelStep], splits: dict[ModelStep, ModelStep], gone: set[ModelStep]
) -> Iterator[ModelStep]:
    for step in steps:
        if step in splits:
            yield splits[step]
        elif step not in gone:
            yield step


def _apart(value: ModelValue, slices: Sequence[ModelStep], sizes: SizeClasses) -> bool:
    """Whether all that reads a value are slices that are all of its last axis, in one module."""
    if len(slices) < 2 or value.axes[-1] is None:
        return False
    if any(step.operator != "slice" or step.attrs["axis"] != -1 for step in slices):
        return False
    if len({step.stack for step in slices}) > 1:
        return False
    cuts = [(step.attrs["start"], step.attrs["stop"]) for step in slices]
    if any(start.constant is None or stop.constant is None for start, stop in cuts):
        return False
    end = ZERO
    for start, stop in sorted(cuts, key=lambda cut: cut[0].constant):
        if start != end:
            return False
        end = stop
    return end == sizes.dim(value.axes[-1])
