"""Inputs that a block can take: a logarithm or a root has no value for what is drawn around 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from xg.ir.graph import Apply, Program
from xg.verify.reference.interpret import Interpreter, Record
from xg_runtime.errors import RunError
from xg_runtime.module import Array, Arrays

DOMAINS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "": lambda x: x,  # around 0, positive and negative
    "inputs above 0": lambda x: np.abs(x) + 0.1,
    "inputs between 0 and 1": lambda x: 0.1 + 0.8 / (1.0 + np.exp(-x)),
    "inputs above 10": lambda x: np.abs(x) + 10.1,
}
ADVICE = (
    "parameters are drawn around 0, inputs also above 0, between 0 and 1 and above 10: put what",
    "needs others into a block of its own, or let it begin with what makes them so: x*x + 1",
)


def fitting_inputs(
    program: Program, params: Mapping[str, Array], drawn: Arrays, seed: int
) -> tuple[Arrays, str]:
    """The drawn inputs in the first domain in which every edge is a number, and its name.

    Raises RunError with the first edge that is none as drawn, if there is no such domain.
    """
    refused: RunError | None = None
    for name, moved in DOMAINS.items():
        inputs = {key: moved(x) if x.dtype.kind == "f" else x for key, x in drawn.items()}
        try:
            refuse_nan(program, params, inputs, seed)
        except RunError as error:
            refused = refused or error
        else:
            return inputs, name
    assert refused
    raise refused


def refuse_nan(
    program: Program,
    params: Mapping[str, Array],
    inputs: Mapping[str, Array],
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


def _has_nan(array: Array) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())
