"""A table of answers that forgets those that were not asked for in the last rounds."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from xg.diagnostics.lazy_dataclass import dataclass, field

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")

ROUNDS = 8  # of work in which an answer may go unasked until it is forgotten


@dataclass(slots=True)
class Recent(Generic[Key, Answer]):
    """Answers by key. `entries` holds with each the round in which it was asked for last.

    A key that is the `id` of an object needs an answer that keeps the object alive.
    """

    entries: dict[Key, list[object]] = field(default_factory=dict[Key, "list[object]"])
    now: int = 0

    def get(self, key: Key) -> Answer | None:
        """The answer for a key, if there is one."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        entry[0] = self.now
        return entry[1]  # pyright: ignore[reportReturnType]

    def put(self, key: Key, answer: Answer) -> Answer:
        """Keep an answer, and return it."""
        self.entries[key] = [self.now, answer]
        return answer

    def next_round(self) -> None:
        """Begin a round of work; what was not asked for in the last ones is forgotten."""
        self.now += 1
        oldest = self.now - ROUNDS
        stale = [key for key, (round_, _) in self.entries.items() if round_ < oldest]  # pyright: ignore[reportOperatorIssue]
        for key in stale:
            del self.entries[key]

    def __len__(self) -> int:
        """How many answers there are."""
        return len(self.entries)
