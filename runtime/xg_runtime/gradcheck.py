"""Proof of a backward pass by central finite differences in float64.

    report = check_module(module, params, inputs, zeros={"b_K": "softmax is shift-invariant"})
    report.passed, gradtable.table(report)

With random cotangents c, the number f = Σ c · outputs has the gradient backward(c). It is compared
with differences of f, tensor by tensor (`agreement`): every element as long as the program has
few, otherwise 64 coordinates and 8 directions of each tensor. A gradient that is zero, or too
small for the comparison to mean anything, or that consists of rounding errors, fails, unless it is
declared to be zero with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from xg_runtime.errors import InputError
from xg_runtime.module import Arrays, Module, in_type, is_float
from xg_runtime.optim import global_norm
from xg_runtime.probe import (
    DIFFERENCES,
    FLOOR,
    Comparison,
    Coordinate,
    Direction,
    Function,
    Gradient,
    Objective,
    Point,
    Points,
    Probe,
    compare,
)
from xg_runtime.random import fold

Verdict: TypeAlias = Literal["ok", "zero", "failed"]

EVERY_ELEMENT_UP_TO: Final = 5000  # scalars in the program
COORDINATES: Final = 64
DIRECTIONS: Final = 8

UNEXPLAINED: Final = "zero or nearly so, without a reason"


@dataclass(frozen=True)
class Row:
    """The result for one gradient; `error` is to be at most `tolerance`."""

    name: str
    shape: tuple[int, ...]
    coordinates: int
    directions: int
    error: float
    tolerance: float
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """One row for each gradient."""

    rows: tuple[Row, ...]
    seed: int

    @property
    def passed(self) -> bool:
        """Whether no row failed; a report without rows proves nothing and has not passed."""
        return bool(self.rows) and all(row.verdict != "failed" for row in self.rows)


def check_module(
    module: Module,
    params: Arrays,
    inputs: Arrays,
    *,
    zeros: Mapping[str, str] | None = None,
    frozen: Collection[str] = (),
    dropout: int | None = None,
    seed: int = 0,
    tolerance: float = DIFFERENCES,
) -> Report:
    """Check the backward of a module at `params` and `inputs`, float64; ids stay as they are.

    `dropout` is the seed of the forward pass, None for dropout off; `seed` draws cotangents and
    coordinates. `zeros` says of which gradients it is known, and why, that they are zero. Of what
    is `frozen` a gradient must not be there; it may have another type.
    """
    held = {name: array for name, array in (params | inputs).items() if name in frozen}
    held = in_type(held, np.float64)

    def split(values: Arrays) -> tuple[Arrays, Arrays]:
        every = values | held
        return {name: every[name] for name in params}, {name: every[name] for name in inputs}

    def forward(values: Arrays) -> Arrays:
        return module.forward(*split(values), seed=dropout)[0]

    def backward(values: Arrays, d_outputs: Arrays) -> Arrays:
        own, arrays = split(values)
        _, saved = module.forward(own, arrays, seed=dropout)
        return module.backward(own, saved, d_outputs)

    values = {name: array for name, array in (params | inputs).items() if name not in held}
    return check(forward, backward, values, zeros=zeros, seed=seed, tolerance=tolerance)


def check(
    function: Function,
    gradient: Gradient,
    values: Arrays,
    *,
    zeros: Mapping[str, str] | None = None,
    seed: int = 0,
    tolerance: float = DIFFERENCES,
) -> Report:
    """Check that `gradient(values, d_outputs)` is the gradient of Σ d_outputs · function(values).

    All floats among `values` are checked and must be float64. Raises RunError when an output is
    NaN, InputError for values of another type.
    """
    floats = {name: value for name, value in values.items() if is_float(value)}
    for name, value in floats.items():
        if value.dtype != np.float64:
            raise InputError(f"{name} is {value.dtype}, gradients are checked in float64")
    objective = Objective.random(function, values, seed)
    points = Points(objective, gradient, Point.at(values, objective, gradient), seed)
    whole = sum(value.size for value in floats.values()) <= EVERY_ELEMENT_UP_TO
    checker = _Checker(points, zeros or {}, whole, tolerance)
    return Report(tuple(checker.rows(floats)), seed)


@dataclass(frozen=True)
class _Checker:
    """One check: what all its rows have in common."""

    points: Points
    zeros: Mapping[str, str]
    whole: bool  # every element of every tensor
    tolerance: float

    def rows(self, floats: Arrays) -> Iterator[Row]:
        """Return a row for each float, and one for each gradient of something else."""
        for name, value in floats.items():
            wrong = self._wrong(name, value.shape)
            yield self._failure_row(name, value.shape, wrong) if wrong else self._gradient_row(name)
        for name, gradient in self.points.first.gradients.items():
            if name not in floats:
                yield self._failure_row(
                    name, gradient.shape, "there is nothing of this name to derive"
                )

    def _wrong(self, name: str, shape: tuple[int, ...]) -> str:
        """Return what is wrong with a gradient before its numbers are compared, or nothing."""
        gradient = self.points.first.gradients.get(name)
        if gradient is None:
            return "backward does not return it"
        if gradient.shape != shape:
            return f"backward returns it in shape {list(gradient.shape)}"
        if not np.isfinite(gradient).all():
            return "backward returns values that are not finite"
        return ""

    def _failure_row(self, name: str, shape: tuple[int, ...], reason: str) -> Row:
        return Row(name, shape, 0, 0, math.inf, self.tolerance, "failed", reason)

    def _gradient_row(self, name: str) -> Row:
        gradient = self.points.first.gradients[name]
        coordinates, directions = self._probes(name, gradient.size)
        comparisons: list[Comparison] = []
        if coordinates:
            share = math.sqrt(len(coordinates) / gradient.size)
            comparisons.append(self._compare(name, coordinates, share))
        if directions:
            comparisons.append(self._compare(name, directions, math.sqrt(len(directions))))
        verdict, reason = self._judge(name, comparisons)
        errors = [one.error for one in comparisons]
        return Row(
            name=name,
            shape=gradient.shape,
            coordinates=len(coordinates),
            directions=len(directions),
            error=math.nan if any(map(math.isnan, errors)) else max(errors),
            tolerance=self.tolerance,
            verdict=verdict,
            reason=reason,
        )

    def _probes(self, name: str, size: int) -> tuple[list[Probe], list[Probe]]:
        """Return the coordinates and directions to compare along."""
        if self.whole or size <= COORDINATES:
            return [Coordinate(name, place) for place in range(size)], []
        seed = self.points.seed
        draw = np.random.default_rng(fold(seed, "coordinates", name))
        places = np.sort(draw.choice(size, COORDINATES, replace=False))
        return (
            [Coordinate(name, int(place)) for place in places],
            [Direction(name, number, seed) for number in range(DIRECTIONS)],
        )

    def _compare(self, name: str, probes: Sequence[Probe], share: float) -> Comparison:
        """Compare along `probes`, on which about `share` of a gradient's norm falls."""
        return compare(self.points, probes, share * self._total(name), self.tolerance)

    def _total(self, name: str) -> float:
        """Return the norm that even a zero gradient is measured by.

        Where all gradients are zero, as declared or up to rounding, it is that of the terms of f:
        rounding leaves something of them in every difference.
        """
        total = self.points.first.norm
        if name in self.zeros or self.points.is_rounding(name):
            return max(total, float(np.linalg.norm(self.points.first.terms)))
        return total

    def _judge(self, name: str, found: Sequence[Comparison]) -> tuple[Verdict, str]:
        for one in found:
            if not one.settled:
                return "failed", f"{self._at(one)}: a kink or rounding hides the slope"
            if not one.error <= self.tolerance:
                return "failed", f"{self._at(one)}: {one.derived:.9g}, measured {one.measured:.9g}"
        norm = global_norm({name: self.points.first.gradients[name]})
        least = self.tolerance * FLOOR * self._total(name)
        if norm <= least or self.points.is_rounding(name):
            return ("zero", self.zeros[name]) if name in self.zeros else ("failed", UNEXPLAINED)
        if name in self.zeros:
            return "failed", f"declared to be zero ({self.zeros[name]}), but it is not"
        return "ok", ""

    def _at(self, one: Comparison) -> str:
        """Return where the worst of a comparison is."""
        if isinstance(one.worst, Direction):
            return f"along direction {one.worst.number}"
        shape = self.points.first.gradients[one.worst.name].shape
        return f"at {[int(place) for place in np.unravel_index(one.worst.place, shape)]}"


# A gradient report as a text table, and as JSON.
#
# gradient  shape     compared          error    tolerance  verdict
# dW_Q      [64, 64]  64 + 8 directions 2.1e-10  1e-06      ok


_OF_ZEROS = """
note: differences are zero there, too, so they prove nothing: either no result depends on it,
or what it chooses among is equal, such as rows of a state that all start as one number,
or it shifts alike what is compared, such as a bias of two towers in front of a matrix of both"""
_HEAD = ("gradient of", "shape", "compared", "error", "tolerance", "verdict")


def table(report: Report) -> str:
    """Return the rows under a head, and a line that counts them; ends in a newline."""
    lines = [_HEAD, *map(_cells, report.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([*text, _summary(report)]) + "\n"


def as_json(report: Report) -> dict[str, object]:
    """Return the report as JSON has it; an error that is not a number is null."""
    rows = [asdict(row) for row in report.rows]
    for row in rows:
        row["error"] = row["error"] if math.isfinite(row["error"]) else None
    return {"passed": report.passed, "seed": report.seed, "gradients": rows}


def _cells(row: Row) -> tuple[str, ...]:
    reason = f": {row.reason}" if row.reason else ""
    return (
        row.name,
        f"[{', '.join(map(str, row.shape))}]",
        f"{row.coordinates}" + (f" + {row.directions} directions" if row.directions else ""),
        f"{row.error:.1e}",
        f"{row.tolerance:.0e}",
        f"{row.verdict}{reason}",
    )


def _summary(report: Report) -> str:
    failed = sum(row.verdict == "failed" for row in report.rows)
    proven = f"{len(report.rows) - failed} of {len(report.rows)} gradients agree"
    zeros = any(row.reason == UNEXPLAINED for row in report.rows)
    return f"{proven}, seed {report.seed}" + (_OF_ZEROS if zeros else "")
