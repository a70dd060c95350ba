"""Lanes behind nodes that work on every head, every expert … in the same way.

A run of at least three nodes down one column belongs together where an axis whose size is a count,
N_H, goes in and comes out of each, and no terminal of the block has that axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from xg.figures.model.figure import EdgeRole, FigureGroup
from xg.figures.model.richtext import dimension, plain
from xg.figures.views.arrange import Arranged, DrawnOperation
from xg.figures.views.notation import Notation

_COUNT: Final = "N_"  # the seed's letter for how many there are
_LEAST: Final = 3


def axis_groups(
    arranged: Arranged, operations: Sequence[DrawnOperation], notation: Notation
) -> tuple[FigureGroup, ...]:
    """Return the lanes of a figure, in the order of their first nodes."""
    counts = {one.node.id: _counts(one, notation) for one in operations}
    below = {e.tail: e.head for e in arranged.edges if e.role is EdgeRole.MAIN}
    groups: list[FigureGroup] = []
    taken: set[str] = set()
    for operation in operations:
        for axis in counts[operation.node.id]:
            run = tuple(_run(operation.node.id, axis, counts, below))
            if len(run) >= _LEAST and not taken & set(run):
                taken |= set(run)
                beside = _beside(arranged, run)
                label = (*plain("× "), *dimension(axis))
                groups.append(FigureGroup(f"× {axis} {len(groups) + 1}", label, (*run, *beside)))
    return tuple(groups)


def _counts(operation: DrawnOperation, notation: Notation) -> tuple[str, ...]:
    """Return the counts that go in with every flowing operand and come out."""
    if not operation.flows or not operation.outputs:
        return ()
    values = [*(flow.value for flow in operation.flows), operation.outputs[0]]
    shapes = [notation.dims(value) for value in values]
    return tuple(
        dim
        for dim in dict.fromkeys(shapes[0])
        if dim.startswith(_COUNT) and dim.isidentifier() and all(dim in shape for shape in shapes)
    )


def _run(
    start: str, axis: str, counts: Mapping[str, Sequence[str]], below: Mapping[str, str]
) -> Iterator[str]:
    node: str | None = start
    while node is not None and axis in counts.get(node, ()):
        yield node
        node = below.get(node)


def _beside(arranged: Arranged, run: Sequence[str]) -> list[str]:
    """Return the tensors next to a run's nodes, which are in the lane with them."""
    operations = {edge.head for edge in arranged.edges}
    return [
        edge.tail
        for edge in arranged.edges
        if edge.head in run and edge.role is EdgeRole.SIDE and edge.tail not in operations
    ]
