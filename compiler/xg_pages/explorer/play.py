"""Real numbers for every tensor: the program written down at small sizes, for pages to compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from xg.cost.cost import cost
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.driver import Program as Compiled
from xg.ir.dim import DimError
from xg.ir.graph import Program
from xg.ir.walk import level_by_level
from xg.sharding.local import cuts
from xg.verify.reference import random as invented
from xg.verify.reference.interpret import Interpreter, Record
from xg_pages.explorer.tape import Tape, TapeSlot
from xg_pages.explorer.uses import BlockUse
from xg_pages.html.document import packed_data
from xg_runtime.ranks.grid import Grid

SEED: Final = 0
WORK_AT_MOST: Final = 10**8  # operations, and scalars


@dataclass(frozen=True, slots=True)
class Played:
    """A run of one device, or of every rank, which all do the same.

    `at` are the coordinates of each rank on the mesh. Of a block the `slots`, in the order of its
    values, are those of its first call, of a repeated one those of the first round; None is a value
    that is no tensor.
    """

    tape: Tape = field(default_factory=Tape)
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    at: Sequence[Mapping[str, int]] = ()
    slots: Mapping[int, Sequence[int | None]] = field(default_factory=dict[int, list[int | None]])

    def data(self) -> dict[str, object]:
        """The runs for the page's script, and how it computes their numbers."""
        if not self.at:
            return {"runs": []}
        many = len(self.at) > 1
        runs = [
            {
                "name": f"rank {number}" if many or at else "one device",
                "at": dict(at),
                "sizes": dict(self.sizes),
            }
            for number, at in enumerate(self.at)
        ]
        slots = {str(place): list(slots) for place, slots in self.slots.items()}
        tape = {"seed": SEED, "slots": slots, **self.tape.data()}
        return {"runs": runs, "tape": packed_data(tape)}


def play(small: Compiled, uses: Sequence[BlockUse]) -> Played:
    """One run of a program whose sizes all have numbers; `uses` are its blocks.

    Parameters, inputs and cotangents are drawn, and dropout is on. A rank has its parts of what is
    drawn for one device.
    """
    graphs, alone, tape = small.graphs, small.on_one_device.graphs, Tape()
    if graphs.lengths:
        return Played()  # pages draw whole arrays, and padded ones have zeros in them
    mesh = graphs.mesh
    where = cuts(graphs)
    params = tape.draw(invented.parameter_draws(alone), where, mesh)
    inputs = tape.draw(invented.input_draws(alone), where, mesh)
    cotangents = tape.draw(invented.cotangent_draws(alone), where, mesh)
    interpreter = Interpreter(graphs, params, SEED, arithmetic=tape.arithmetic())
    _, record = interpreter.forward(inputs)
    interpreter.backward(record, cotangents)
    first = first_records(record)
    slots = {use.place: _slots(use, first[use.graph.key]) for use in uses}
    grid = Grid(mesh)
    at = [grid.coordinates(number) for number in range(grid.count)]
    return Played(tape, dict(sorted(record.sizes.items())), at, slots)


def is_small(program: Program) -> bool:
    """Whether all sizes have numbers, and small ones: a file may write large numbers itself."""
    numbers = program.main.sizes.bind(program.numbers)
    total = cost(program).total
    try:
        work = [dim.evaluate(numbers) for dim in (total.forward, total.parameters, total.saved)]
    except (KeyError, DimError):
        return False
    return max(work) <= WORK_AT_MOST


def first_records(record: Record) -> dict[str, Record]:
    """The record of the first call of every block, callers before callees."""

    def below(run: Record) -> Iterator[Record]:
        return (runs[0] for runs in run.calls.values() if runs)

    runs = level_by_level([record], below, lambda run: run.graph.key)
    return {run.graph.key: run for run in runs}


def _slots(use: BlockUse, record: Record) -> list[int | None]:
    arrays = cast("Mapping[Any, TapeSlot]", record.reverse or record.values)
    return [arrays[value].place if value in arrays else None for value in use.values()]
