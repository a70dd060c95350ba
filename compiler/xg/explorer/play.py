"""Real numbers for every tensor: the program run once, forward and backward, at small sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from xg import invented
from xg.cost import cost
from xg.dim import DimError
from xg.explorer.uses import BlockUse
from xg.graph import Program
from xg.interpret import Interpreter, Record, initial

SEED: Final = 0
ROWS: Final = 5  # of a tensor's first matrix are shown
COLUMNS: Final = 6
NOTHING: Final = 1e-9  # what is smaller is the rounding error of a zero

WORK_AT_MOST: Final = 10**9  # operations, and scalars

Array = NDArray[Any]


def play(small: Program, uses: Sequence[BlockUse]) -> dict[str, object]:
    """One run of a program whose sizes all have numbers: its tensors, by block and value.

    `uses` are its blocks; of a block the numbers are those of its first call, of a repeated one
    those of the first round. Tensors are cut to the first rows and columns of the first matrix.
    """
    record = _run(small)
    records = _first_records(record)
    shown = {use.place: _arrays(use, records[use.graph.key]) for use in uses}
    return {"name": "one device", "sizes": dict(sorted(record.sizes.items())), "values": shown}


def is_small(program: Program) -> bool:
    """Whether all sizes have numbers, and small ones: a file may write large numbers itself."""
    numbers = program.main.sizes.bind(program.numbers)
    total = cost(program).total
    try:
        work = [dim.evaluate(numbers) for dim in (total.forward, total.parameters, total.saved)]
    except (KeyError, DimError, ZeroDivisionError):
        return False
    return max(work) <= WORK_AT_MOST


def _run(program: Program) -> Record:
    """Both passes, with dropout, on drawn parameters, inputs and cotangents."""
    interpreter = Interpreter(program, initial(program, SEED), SEED)
    outputs, record = interpreter.forward(invented.inputs(program, SEED))
    interpreter.backward(record, invented.cotangents(outputs, SEED))
    return record


def _first_records(record: Record) -> dict[str, Record]:
    """The first record of every block, callers before callees."""
    found: dict[str, Record] = {}
    waiting = [record]
    while waiting:
        one = waiting.pop(0)
        if one.graph.key not in found:
            found[one.graph.key] = one
            waiting += [made[0] for made in one.calls.values() if made]
    return found


def _arrays(use: BlockUse, record: Record) -> list[object]:
    """What is shown of every value of a block, in its order; None for what is no tensor."""
    known = record.reverse or record.values
    return [shown(known[value]) if value in known else None for value in use.values()]


def shown(array: Array) -> list[object]:
    """A tensor's shape, and the first rows and columns of its first matrix.

    >>> shown(np.array([[1.23456, -np.inf], [1e-17, 20000.0]]))
    [[2, 2], [[1.23, '-inf'], [0, 20000]]]
    """
    matrix = array
    while matrix.ndim > 2:
        matrix = matrix[0]  # no axis is empty at the sizes of the proof
    rows = np.atleast_2d(matrix)[:ROWS, :COLUMNS]
    return [list(array.shape), [[_number(each) for each in row] for row in rows.tolist()]]


def _number(value: float) -> float | int | str:
    """Three digits, which are the same on every machine; JSON has no infinity."""
    if not np.isfinite(value):
        return str(float(value))
    rounded = 0.0 if abs(value) < NOTHING else float(f"{value:.3g}")
    return int(rounded) if rounded == int(rounded) else rounded
