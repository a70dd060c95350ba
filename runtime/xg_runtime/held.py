"""Parameters with what was gathered of them, for passes between which they do not change.

Holding is no matter of the program: with M microbatches, gathering again sends M times as much, and
holding needs room for whole parameters. A parameter that rests whole with a gradient in pieces
would have two states at once. A gather in the optimizer would be a second place for collectives,
which no proof reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Held(dict[str, T]):
    """This rank's shards by name; `wholes` fills with those that a plan holds, once gathered.

    It is for passes between which no shard changes; behind an update a new one is made.
    """

    def __init__(self, shards: Mapping[str, T], wholes: dict[str, Any] | None = None) -> None:
        """Start with nothing gathered, unless `wholes` are shared with another instance."""
        super().__init__(shards)
        self.wholes: dict[str, Any] = {} if wholes is None else wholes
