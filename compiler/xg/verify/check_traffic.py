"""The traffic that ranks sent, compared with the formulas of the placed program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from xg.cost.communication import traffic
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Program
from xg.ir.mesh_axes import ranks_over
from xg.verify.rank_comparison import Counts, Key, RankRun

BUNDLED: Final = (
    ("forward", "all_gather"),
    ("backward", "all_gather"),
    ("backward", "all_reduce"),
    ("backward", "reduce_scatter"),
)
NOTHING: Final = (0, 0)


@dataclass(frozen=True, slots=True)
class TrafficCheck:
    """Collectives of one kind over one mesh axis in one pass: calls and elements of payload.

    Where gradients and parameters are `bundled`, one call may send several of them.
    """

    direction: str
    kind: str
    over: str
    said: tuple[int, int]
    counted: tuple[int, int]
    bundled: bool = False

    @property
    def agrees(self) -> bool:
        """Whether what was counted is what the formulas say."""
        return self.said == self.counted or self.saves_calls

    @property
    def saves_calls(self) -> bool:
        """Whether the same was sent in fewer calls, as it may be."""
        (calls, elements), (counted_calls, sent) = self.said, self.counted
        return self.bundled and elements == sent and 0 < counted_calls < calls


def expected(placed: Program) -> Counts:
    """The formulas in numbers."""
    numbers = {**placed.main.sizes.bind(placed.numbers), **placed.mesh}
    counts: Counts = {}
    for each in traffic(placed):
        if ranks_over(each.over).evaluate(placed.mesh) > 1:
            times, payload = each.calls.evaluate(numbers), each.counted.evaluate(numbers)
            add(counts, (each.direction, each.kind, each.over), times, payload)
    return counts


def add(counts: Counts, key: Key, calls: int, elements: int) -> None:
    """Count more calls, and the elements that they send."""
    before = counts.get(key, NOTHING)
    counts[key] = before[0] + calls, before[1] + elements


def count(
    placed: Program, together: Sequence[RankRun], *, bundled: bool = False
) -> tuple[TrafficCheck, ...]:
    """Both, one row for each pass, kind and mesh axis; of ranks that differ the first such.

    Code that is `bundled`, as kernels are, sends several gradients or parameters at once.
    """
    return tuple(
        replace(row, bundled=bundled and (row.direction, row.kind) in BUNDLED)
        for row in compared(expected(placed), [run.sent for run in together])
    )


def compared(said: Counts, sent: Sequence[Counts]) -> Iterator[TrafficCheck]:
    """The rows of the formulas and of the ranks; of ranks that differ the first such counts."""
    counted = next((each for each in sent if each != said), sent[0])
    for key in dict.fromkeys([*said, *counted]):
        yield TrafficCheck(*key, said.get(key, NOTHING), counted.get(key, NOTHING))
