"""Parallel plans as data: the placement of a program's tensors on the ranks of a mesh.

A plan gives values, by name, a placement: replicated, or sharded along axes over mesh axes. An
entry belongs to a block and applies to every call of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Dim

# How a file asks for a tensor to be placed: which mesh axes shard which of its axes.


Cuts = Mapping[
    str, int
]  # mesh axis -> the axis that it cuts, counted from the end (-1 is the last)


@dataclass(frozen=True, slots=True)
class Layout:
    """The placement of a tensor as a file writes it: ``[_/N_D, D_ff/N_T, ..]``.

    For each axis its global size (None for ``_``) and the mesh axes that shard it, outermost first;
    the axes behind an `open` layout are not sharded.
    """

    dims: tuple[Dim | None, ...]
    cuts: tuple[tuple[str, ...], ...]
    open: bool = False

    def axes(self, rank: int) -> dict[str, int]:
        """The axis that each mesh axis cuts of a tensor with `rank` axes."""
        places = enumerate(self.cuts, -rank)
        return {mesh_axis: place for place, cuts in places for mesh_axis in cuts}

    def __str__(self) -> str:
        parts = [_spell(dim, cuts) for dim, cuts in zip(self.dims, self.cuts, strict=True)]
        return "[" + ", ".join([*parts, *([".."] if self.open else [])]) + "]"


def _spell(dim: Dim | None, cuts: Sequence[str]) -> str:
    whole = "_" if dim is None else str(dim)
    if not cuts:
        return whole
    if dim is not None and len(dim.terms) > 1:
        whole = f"({whole})"
    return f"{whole}/{cuts[0]}" if len(cuts) == 1 else f"{whole}/({'*'.join(cuts)})"


BlockId = tuple[int, str]  # the number of a file in the program, and the name of a block in it

EVERY: Final = "*"  # a segment of a path: every parameter at its end, any call or round before it
WHOLE: Final = "."  # the end of a path that led into a call: all that the call computes
INSIDE: Final = ".."  # of one that led further in: what is gathered there is kept, for a while
ROUNDS: Final = "/"  # the end of a path to a row of calls, whose rounds ranks share as stages

# The orders that a plan may name; `xg_runtime.cells` has them.
SCHEDULES: Final = ("1F1B", "GPipe", "ZBH1")

# Whether a backward pass computes a value again, or finds it kept; what a parameter is gathered to
# may also be held for all passes of a step, and keys and values may go round a ring instead. Of
# memory `zigzag` says nothing: it is the order in which ranks share the axis that the line cuts.
Memory = Literal["again", "keep", "hold", "ring", "zigzag"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a plan, for one of the values it names.

    `block` is its block, by its file too: two files may have blocks of one name. `path` is the way
    from there, ``("layers", "*", "attn", "W_Q")``; sizes are those of the block at its end. `use`
    is the placement of a parameter while it is used, if it differs from `rest`. The entry covers
    the mesh axes `over`, those that its plan mentions anywhere (an axis that it does not shard over
    is replicated); about others it says nothing. `memory` is about what is used in the backward
    pass: the value, in use, or all that a call computes; an entry without `rest` says only that.
    With `pads` zeros fill a size that ranks cannot share equally.
    """

    block: BlockId
    path: tuple[str, ...]
    rest: Layout | None
    use: Layout | None
    over: frozenset[str]
    plan: str
    span: Span
    memory: Memory | None = None
    pads: bool = False

    def __hash__(self) -> int:
        return hash((self.span, self.path, self.plan))  # of what tells most entries apart


@dataclass(frozen=True, slots=True)
class Schedule:
    """The line of a plan about the order in which ranks of a pipeline compute: ``1F1B(8, 2)``.

    `parts` are the microbatches of a step, None where the plan leaves them open, and `turns` the
    stages of a rank. `block` is the block whose row of calls stages share.
    """

    block: BlockId
    name: str
    parts: int | None
    turns: int
    span: Span

    def fits(self, ranks: int) -> bool:
        """Whether microbatches go round in groups of one for each rank, where they go round."""
        return self.turns == 1 or self.parts is None or self.parts % ranks == 0


@dataclass(frozen=True, slots=True)
class Plan:
    """All that the files say under one name, or of a product of such.

    `mesh` holds the axes that it mentions in the order of the program's mesh, with their sizes
    where they have any.
    """

    name: str
    title: str
    entries: tuple[Entry, ...]
    mesh: Mapping[str, int | None] = field(default_factory=dict[str, "int | None"])
    schedules: tuple[Schedule, ...] = ()

    @property
    def pads(self) -> bool:
        """Whether a line fills sizes with zeros."""
        return any(entry.pads for entry in self.entries)


def zigzag_axes(plan: Plan | None) -> frozenset[str]:
    """The mesh axes along which each rank has two chunks of what is cut, one from each end."""
    said = (each.rest for each in (plan.entries if plan else ()) if each.memory == "zigzag")
    return frozenset(axis for rest in said if rest for cuts in rest.cuts for axis in cuts)
