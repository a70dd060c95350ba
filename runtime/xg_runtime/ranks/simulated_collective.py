"""One collective of one group of simulated ranks: operands and results of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from xg_runtime.ranks.array_ops import Tensor
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
            self.results = call.kind.simulate(parts)
            self.is_done = True

    def take(self, place: int) -> Tensor:
        """Return a member's result, which is its own, and keep nothing of it."""
        result, self.results[place] = self.results[place], None
        return result
