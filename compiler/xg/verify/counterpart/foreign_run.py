"""One run of code that others wrote: the tensors that it showed, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.verify.counterpart.rank_arrays import RankArrays
from xg_runtime.module import Array


@dataclass(slots=True, eq=False)
class Event:
    """One tensor that a module was given, or gave, and its gradient once that is known.

    `edge` is set where the edge of the diagram is known, instead of a module. Where several ranks
    ran, `ranks` and `rank_gradients` are what all of them have, and `array` is that of one.
    """

    module: str
    kind: Literal["input", "output"]
    array: Array
    gradient: Array | None = None
    call: int = 0
    edge: str | None = None
    ranks: RankArrays | None = None
    rank_gradients: RankArrays | None = None

    def __str__(self) -> str:
        return f"the {self.kind} of {self.module}" if self.module else f"{self.edge}"


@dataclass(slots=True)
class ForeignRun:
    """Everything that one run of their code showed; `outputs` are in the order of its result."""

    events: list[Event] = field(default_factory=list[Event])
    outputs: list[tuple[str, Array]] = field(default_factory=list[tuple[str, Array]])
    gradients: dict[str, Array | None] = field(default_factory=dict[str, "Array | None"])
    direct: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    is_whole: bool = True  # otherwise a gradient that is not there says nothing
    tied: Mapping[str, str] = field(default_factory=dict[str, str])  # names of one tensor
