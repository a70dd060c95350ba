"""Pipelines as data: which stage of a program a graph is, and the meaning of its edges.

Over the axis of a pipeline ranks run different programs. A value that one of them holds is O(p):

    O(p)           the value is on stage p, and nowhere else; its cotangent too
    I -> O(p)      free: stage p uses what all could compute; the transpose is a sum over the stages
    O(p) -> O(q)   a send; the transpose sends the cotangent back

The stream, which goes through all rounds of a row, is sent from stage to stage. A parameter that
several stages use is I over these: its gradient is summed over them, once for a step.
"""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.lazy_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class Stage:
    """The place of a program in a pipeline of `count` stages, on the `ranks` of a mesh axis.

    Rank r has the stages r, r + ranks, r + 2*ranks …; there are more than ranks where a schedule
    is interleaved. `receives` and `sends` are the input that comes from the stage before, and the
    output that goes to the next one. `holders` are the stages that use a parameter where several
    ranks do, of each rank the first.
    """

    axis: str
    place: int
    count: int
    ranks: int
    receives: str | None
    sends: str | None
    holders: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
