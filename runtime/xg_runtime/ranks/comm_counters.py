"""Counters of a rank's communication, which count as the cost formulas do.

Payload is the V of those formulas: the whole tensor on the group for all-reduce, all-gather and
reduce-scatter, the local tensor for all-to-all. Nothing is counted on an axis of one rank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from xg_runtime.ranks.call import Call


@dataclass(frozen=True, slots=True)
class Count:
    """Calls of one kind over one axis during one pass: how many, and their payload in all."""

    calls: int = 0
    elements: int = 0
    bytes: int = 0

    def plus(self, elements: int, bytes: int) -> Count:
        """This and one more call."""
        return Count(self.calls + 1, self.elements + elements, self.bytes + bytes)


Key = tuple[str, str, str]  # pass, kind, mesh axis


@dataclass(slots=True)
class CommCounters:
    """The counts of one rank, by pass, kind and mesh axis, in the order of first calls."""

    counts: dict[Key, Count] = field(default_factory=dict[Key, Count])
    current: str = ""
    stage: int | None = None  # of a pipeline, that is running

    def add(self, call: Call, ranks: int) -> None:
        """Count a call over a group of `ranks`."""
        key = (self.current, call.kind.name, call.axis)
        elements = call.payload(ranks)
        self.counts[key] = self.counts.get(key, Count()).plus(elements, elements * call.itemsize)

    @contextlib.contextmanager
    def during(self, name: str, stage: int | None = None) -> Generator[None]:
        """Count what is called inside as of the pass `name`, of a stage of a pipeline."""
        before = self.current, self.stage
        self.current, self.stage = name, stage
        try:
            yield
        finally:
            self.current, self.stage = before

    def clear(self) -> None:
        """Set all counts to zero."""
        self.counts.clear()

    def rows(self) -> list[list[str | int]]:
        """The counts as JSON: pass, kind, axis, calls, elements, bytes."""
        return [[*key, c.calls, c.elements, c.bytes] for key, c in self.counts.items()]

    @staticmethod
    def of_rows(rows: list[list[str | int]]) -> Mapping[Key, Count]:
        """The counts of `rows`."""
        return {
            (str(name), str(kind), str(axis)): Count(int(calls), int(elements), int(size))
            for name, kind, axis, calls, elements, size in rows
        }
