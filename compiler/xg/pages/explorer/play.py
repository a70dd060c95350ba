"""Real numbers for every tensor: the program run once, forward and backward, at small sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from xg.cost.cost import cost
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import DimError
from xg.ir.graph import Program
from xg.pages.explorer.uses import BlockUse
from xg.verify.reference import random_inputs as invented
from xg.verify.reference.interpret import Interpreter, Record, initial

SEED: Final = 0
NOTHING: Final = 1e-9  # what is smaller is the rounding error of a zero
WORK_AT_MOST: Final = 10**9  # operations, and scalars

Array = NDArray[Any]
Corner = tuple[int, int]  # so many rows and columns of a tensor's first matrix are shown


@dataclass(frozen=True, slots=True)
class PlayRun:
    """The results of one device or one rank: by block, its tensors in the order of its values.

    None is a value that is no tensor. `at` are the coordinates of a rank on the mesh. Of a block
    the tensors are those of its first call, of a repeated one those of the first round.
    """

    name: str
    sizes: Mapping[str, int]
    tensors: Mapping[int, Sequence[Array | None]]
    at: Mapping[str, int] = field(default_factory=dict[str, int])


def play(small: Program, uses: Sequence[BlockUse]) -> PlayRun:
    """One run of a program of one device whose sizes all have numbers; `uses` are its blocks.

    Parameters, inputs and cotangents are drawn, and dropout is on.
    """
    interpreter = Interpreter(small, initial(small, SEED), SEED)
    outputs, record = interpreter.forward(invented.inputs(small, SEED))
    interpreter.backward(record, invented.cotangents(outputs, SEED))
    return recorded("one device", record, uses)


def recorded(
    name: str, record: Record, uses: Sequence[BlockUse], at: Mapping[str, int] | None = None
) -> PlayRun:
    """The run that left a record."""
    first = _first_records(record)
    tensors = {use.place: _tensors(use, first[use.graph.key]) for use in uses}
    return PlayRun(name, dict(sorted(record.sizes.items())), tensors, at or {})


def is_small(program: Program) -> bool:
    """Whether all sizes have numbers, and small ones: a file may write large numbers itself."""
    numbers = program.main.sizes.bind(program.numbers)
    total = cost(program).total
    try:
        work = [dim.evaluate(numbers) for dim in (total.forward, total.parameters, total.saved)]
    except (KeyError, DimError):
        return False
    return max(work) <= WORK_AT_MOST


def _first_records(record: Record) -> dict[str, Record]:
    """The first record of every block, callers before callees."""
    records: dict[str, Record] = {}
    waiting = [record]
    while waiting:
        one = waiting.pop(0)
        if one.graph.key not in records:
            records[one.graph.key] = one
            waiting += [runs[0] for runs in one.calls.values() if runs]
    return records


def _tensors(use: BlockUse, record: Record) -> list[Array | None]:
    arrays = record.reverse or record.values
    return [arrays.get(value) for value in use.values()]


# ---- as data ------------------------------------------------------------------------------------


def runs_data(runs: Sequence[PlayRun], corner: Corner) -> list[dict[str, object]]:
    """The data of runs for the page's script, tensors cut to a corner.

    A tensor equal to that of an earlier rank is given as the number of that rank.
    """
    return [
        {
            "name": run.name,
            "at": dict(run.at),
            "sizes": dict(run.sizes),
            "values": {
                place: [
                    _tensor_data(runs[: number + 1], place, v, corner) for v in range(len(tensors))
                ]
                for place, tensors in run.tensors.items()
            },
        }
        for number, run in enumerate(runs)
    ]


def _tensor_data(runs: Sequence[PlayRun], block: int, value: int, corner: Corner) -> object:
    """One tensor of the last of some runs."""
    *before, tensor = (run.tensors[block][value] for run in runs)
    if tensor is None:
        return None
    alike = (n for n, other in enumerate(before) if other is not None and _same(tensor, other))
    earlier = next(alike, None)
    return shown(tensor, corner) if earlier is None else earlier


def _same(one: Array, other: Array) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def shown(array: Array, corner: Corner) -> list[object]:
    """A tensor's shape, and the first rows and columns of its first matrix.

    >>> shown(np.array([[1.23456, -np.inf], [1e-17, 20000.0]]), (5, 6))
    [[2, 2], [[1.23, '-inf'], [0, 20000]]]
    """
    matrix = array
    while matrix.ndim > 2:
        matrix = matrix[0]  # no axis is empty at the sizes of the proof
    rows = np.atleast_2d(matrix)[: corner[0], : corner[1]]
    return [list(array.shape), [[_number(each) for each in row] for row in rows.tolist()]]


def _number(value: float) -> float | int | str:
    """Three digits, which are the same on every machine; JSON has no infinity."""
    if not np.isfinite(value):
        return str(float(value))
    rounded = 0.0 if abs(value) < NOTHING else float(f"{value:.3g}")
    return int(rounded) if rounded == int(rounded) else rounded
