"""One run of code that others wrote: the tensors that it showed, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg_runtime.module import Array
from xg_torch.compare.rank_arrays import RankArrays


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

    @property
    def key(self) -> str:
        """Its name among arrays: that of its module, ``@1`` for the second call, or of its edge."""
        return self.edge or key_of(self.module, self.kind, self.call)

    def __str__(self) -> str:
        return f"the {self.kind} of {self.module}" if self.module else f"{self.edge}"


def key_of(module: str, kind: str, call: int) -> str:
    """The name of a tensor of a module among arrays: ``layers.0.up@1.input``."""
    return module + (f"@{call}" if call else "") + (".input" if kind == "input" else "")


def event_of(key: str, array: Array, gradient: Array | None) -> Event:
    """The tensor of a module that has this name among arrays."""
    name = key.removesuffix(".input")
    module, _, call = name.partition("@")
    kind = "output" if name == key else "input"
    return Event(module, kind, array, gradient, int(call) if call.isdecimal() else 0)


@dataclass(slots=True)
class ForeignRun:
    """Everything that one run of their code showed; `outputs` are in the order of its result."""

    events: list[Event] = field(default_factory=list[Event])
    outputs: list[tuple[str, Array]] = field(default_factory=list[tuple[str, Array]])
    gradients: dict[str, Array | None] = field(default_factory=dict[str, "Array | None"])
    direct: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    is_whole: bool = True  # otherwise a gradient that is not there says nothing
    tied: Mapping[str, str] = field(default_factory=dict[str, str])  # names of one tensor
