"""What ranks sent, against what the formulas of the placed program say."""

from __future__ import annotations

from dataclasses import dataclass

from xg.graph import Program
from xg.proof.trial import Counts, Run
from xg.traffic import traffic


@dataclass(frozen=True, slots=True)
class Sent:
    """Collectives of one kind over one mesh axis in one pass: calls and elements of payload."""

    direction: str
    kind: str
    over: str
    said: tuple[int, int]
    counted: tuple[int, int]

    @property
    def agrees(self) -> bool:
        """Whether what was counted is what the formulas say."""
        return self.said == self.counted


def expected(placed: Program) -> Counts:
    """The formulas in numbers."""
    numbers = {**placed.main.sizes.bind(placed.numbers), **placed.mesh}
    found: Counts = {}
    for each in traffic(placed):
        if placed.mesh[each.over] > 1:
            key = (each.direction, each.kind, each.over)
            calls, elements = found.get(key, (0, 0))
            times = each.count.evaluate(numbers)
            found[key] = calls + times, elements + times * each.payload.evaluate(numbers)
    return found


def count(placed: Program, together: list[Run]) -> tuple[Sent, ...]:
    """Both, one row for each pass, kind and mesh axis; of ranks that differ the first such."""
    said = expected(placed)
    counted = next((run.sent for run in together if run.sent != said), together[0].sent)
    keys = [*said, *(key for key in counted if key not in said)]
    return tuple(Sent(*key, said.get(key, (0, 0)), counted.get(key, (0, 0))) for key in keys)
