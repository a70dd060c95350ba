"""The first edge of a run that is not a number, where proofs draw inputs that it cannot take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xg.ir.graph import Apply, Program
from xg.verify.reference.interpret import Interpreter, Record
from xg_runtime.errors import RunError

ADVICE = (
    "parameters are drawn around 0, inputs also above 0, between 0 and 1 and above 10: put what",
    "needs others into a block of its own, or let it begin with what makes them so: x*x + 1",
)


def refuse_nan(
    program: Program,
    params: Mapping[str, NDArray[Any]],
    inputs: Mapping[str, NDArray[Any]],
    seed: int,
) -> None:
    """Raise RunError that names the first edge with a NaN, its operator and its line."""
    with np.errstate(all="ignore"):
        _, record = Interpreter(program, params, seed).forward(inputs)
    where = _first(record)
    if where is None:
        return
    run, step = where
    operands = ", ".join(f"{value.name or value.span.text}" for value in step.inputs)
    path = f" of {run.path}" if run.path else ""
    raise RunError(
        f"{step.outputs[0].name or step.op.glyph}{path} is not a number (NaN): "
        f"{step.op.glyph} of {operands}, line {step.span.line}",
        ADVICE,
    )


def _first(record: Record) -> tuple[Record, Apply] | None:
    """The run and the step that make the first NaN; a call is looked into."""
    run = record
    steps = iter(run.graph.steps)
    while (step := next(steps, None)) is not None:
        if not any(_has_nan(run.values[value]) for value in step.outputs):
            continue
        if isinstance(step, Apply):
            return run, step
        rounds = run.calls[step.saved]
        run = next(inner for inner in rounds if any(map(_has_nan, inner.values.values())))
        steps = iter(run.graph.steps)
    return None


def _has_nan(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())
