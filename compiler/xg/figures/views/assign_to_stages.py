"""Assign each node of a column to the stage between two bars, so that few lines cross bars.

Nodes keep the order of their program. A result moves up to its producer. A chain that begins
outside, or at a bar, moves down to its consumer: no more lines cross bars than before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.figure import EdgeRole, FigureNode, NodeKind
from xg.figures.views.arrange import Arranged

_QUIET = (NodeKind.TENSOR, NodeKind.SAVED)


def assign_to_stages(arranged: Arranged, bars: Sequence[str]) -> tuple[FigureNode, ...]:
    """Return the nodes of a column, grouped by the bars around them; bars keep their order."""
    levels = {bar: number for number, bar in enumerate(bars)}
    near = _Neighbours.of(arranged)
    segments = _segments(arranged.nodes, levels)
    for node in reversed(_loose(arranged.nodes, near, levels)):
        if near.takers[node]:
            segments[node] = min(segments[taker] for taker in near.takers[node])
    for node in arranged.nodes:
        names = near.givers[node.id]
        if names and not near.takers[node.id] and node.id not in levels:
            segments[node.id] = max(segments[giver] + (giver in levels) for giver in names)
    return tuple(sorted(arranged.nodes, key=lambda node: (segments[node.id], node.id in levels)))


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The producers of each node's operands, besides the tensors at its side; its consumers."""

    givers: Mapping[str, set[str]]
    takers: Mapping[str, set[str]]

    @classmethod
    def of(cls, arranged: Arranged) -> _Neighbours:
        tensors = {node.id for node in arranged.nodes if node.kind in _QUIET}
        givers: defaultdict[str, set[str]] = defaultdict(set)
        takers: defaultdict[str, set[str]] = defaultdict(set)
        for edge in arranged.edges:
            takers[edge.tail].add(edge.head)
            if edge.role is not EdgeRole.SIDE or edge.tail not in tensors:
                givers[edge.head].add(edge.tail)
        return cls(givers, takers)


def _segments(nodes: Sequence[FigureNode], levels: Mapping[str, int]) -> dict[str, int]:
    """Return how many bars come before each node."""
    segments: dict[str, int] = {}
    passed = 0
    for node in nodes:
        segments[node.id] = passed
        passed += node.id in levels
    return segments


def _loose(nodes: Sequence[FigureNode], near: _Neighbours, levels: Mapping[str, int]) -> list[str]:
    """Return the nodes of chains that begin outside or at a bar."""
    names: dict[str, None] = {}
    for node in nodes:
        givers = near.givers[node.id]
        if node.id not in levels and len(givers) < 2 and givers <= names.keys() | levels.keys():
            names[node.id] = None
    return list(names)
