"""One collective of one group of simulated ranks: operands and results of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from xg_runtime.ranks.array_ops import Tensor, array_ops
from xg_runtime.ranks.call import Call


@dataclass(slots=True)
class SimulatedCollective:
    """One collective of one group: the operand of each member, and then its result."""

    members: int
    given: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    results: list[Tensor] = field(default_factory=list[Tensor])
    is_done: bool = False

    def give(self, call: Call, place: int, x: Tensor) -> None:
        """Add a member's part; the last one's makes the results."""
        self.given[place] = x
        if len(self.given) == self.members:
            parts = [self.given.pop(place) for place in range(self.members)]
            self.results = _results(call, parts)
            self.is_done = True

    def take(self, place: int) -> Tensor:
        """Return a member's result, which is its own, and keep nothing of it."""
        result, self.results[place] = self.results[place], None
        return result


def _results(call: Call, parts: list[Tensor]) -> list[Tensor]:
    """The results of each member of a group for their operands, in their order."""
    ours = array_ops(parts[0])
    match call.kind:
        case "all_reduce":
            return _each(_total(parts), parts)
        case "all_reduce_max":
            largest = parts[0]
            for part in parts[1:]:
                largest = ours.maximum(largest, part)
            return _each(largest, parts)
        case "all_gather":
            return _each(ours.stack(parts), parts)
        case "reduce_scatter":
            return [_total([part[place] for part in parts]) for place in range(len(parts))]
        case "all_to_all":
            return [ours.stack([part[place] for part in parts]) for place in range(len(parts))]
        case "shift":
            return [parts[place - 1] for place in range(len(parts))]
        case "send":
            raise AssertionError("a send is no collective")


def _total(parts: list[Tensor]) -> Tensor:
    """The sum in the order of ranks, in the parts' own type."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _each(whole: Tensor, parts: list[Tensor]) -> list[Tensor]:
    """A copy for everybody: what one changes must not reach the others."""
    return [array_ops(whole).owned(whole) for _ in parts]
