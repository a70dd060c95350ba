"""The costs of a stage as formulas that are quick to evaluate: a search asks for thousands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xg.cost.communication import Sent, summed
from xg.cost.report import CostReport
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg.ir.mesh_axes import axes_over

Numbers = Mapping[str, int]
Formula = tuple[tuple[float, tuple[tuple[str, int], ...]], ...]


@dataclass(frozen=True, slots=True)
class StageSend:
    """Collectives over the same axes: bytes around a ring, and hops that wait for one another.

    `once` says that all microbatches of a step share it.
    """

    over: str
    axes: tuple[str, ...]
    volume: Formula
    hops: Formula
    once: bool


@dataclass(frozen=True, slots=True)
class StageCost:
    """One stage of a pipeline, or a whole program, on one rank.

    `resting` are the bytes of parameters, gradients and moments, `waiting` those of whole gradients
    that wait for the last of several microbatches; `saved` are what a backward pass of one of them
    reads. The largest of `alive` is there beside them, of `rows` in a stage that has rows alone.
    """

    dtype: str
    flops: Formula
    resting: Formula
    waiting: Formula
    saved: Formula
    alive: tuple[Formula, ...]
    rows: tuple[Formula, ...]
    sends: tuple[StageSend, ...]


@dataclass(frozen=True, slots=True)
class StageNumbers:
    """The same at some sizes."""

    flops: float
    resting: float
    waiting: float
    saved: float
    alive: float
    sends: tuple[tuple[StageSend, float, float], ...]


def stages_of(reports: Iterable[CostReport]) -> tuple[StageCost, ...]:
    """The costs of every stage; those of equal stages are one object."""
    known: dict[StageCost, StageCost] = {}
    return tuple(known.setdefault(each, each) for each in map(_stage, reports))


def _stage(report: CostReport) -> StageCost:
    amount, memory = report.total, report.memory
    sends = [
        StageSend(
            part.over,
            tuple(axes_over(part.over)),
            formula(part.bytes("ring")),
            formula(part.hops),
            once,
        )
        for once in (False, True)
        for part in _summed(report, once=once)
    ]
    return StageCost(
        report.dtype,
        formula(amount.forward + amount.backward),
        formula(memory.parameters + memory.gradients + memory.optimizer - amount.held),
        formula(amount.held),
        formula(memory.saved),
        tuple(map(formula, report.alive.whole)),
        tuple(map(formula, report.alive.rows)),
        tuple(sends),
    )


def _summed(report: CostReport, *, once: bool) -> Sequence[Sent]:
    return summed(each for each in report.sent if each.once == once)


def formula(dim: Dim) -> Formula:
    """A size as numbers and powers."""
    return tuple((float(factor), tuple(monomial)) for monomial, factor in dim.terms)


def value(formula: Formula, numbers: Numbers) -> float:
    """A formula as a number."""
    total = 0.0
    for factor, monomial in formula:
        term = factor
        for name, power in monomial:
            term *= float(numbers[name]) ** power
        total += term
    return total


def at(stage: StageCost, numbers: Numbers) -> StageNumbers:
    """A stage at some sizes."""
    sends = tuple(
        (each, value(each.volume, numbers), value(each.hops, numbers))
        for each in stage.sends
        if any(numbers.get(axis, 1) > 1 for axis in each.axes)
    )
    return StageNumbers(
        value(stage.flops, numbers),
        value(stage.resting, numbers),
        value(stage.waiting, numbers),
        value(stage.saved, numbers),
        max((value(each, numbers) for each in stage.alive), default=0.0),
        sends,
    )


def share(stage: StageCost, count: int) -> StageCost:
    """One of so many equal parts of rows, whose own peaks stay whole."""

    def part(formula: Formula) -> Formula:
        return tuple((factor / count, monomial) for factor, monomial in formula)

    sends = tuple(
        replace(each, volume=part(each.volume), hops=part(each.hops)) for each in stage.sends
    )
    return replace(
        stage,
        flops=part(stage.flops),
        resting=part(stage.resting),
        waiting=part(stage.waiting),
        saved=part(stage.saved),
        alive=stage.rows,
        sends=sends,
    )
