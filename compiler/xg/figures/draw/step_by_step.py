"""A series of pictures for slides: each shows one operation more, all in one layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw.display import Display, Element
from xg.figures.draw.label_side import beside_own_line
from xg.figures.layout.columns import first_column
from xg.figures.model.figure import BarPlace, EdgeStyle, Figure, NodeKind

_TEXTS: Final = (NodeKind.TENSOR, NodeKind.SAVED, NodeKind.NOTE)
_OF_RANK: Final = re.compile(r" [@#]\d+$")  # behind the id of a node of one of several columns


def step_by_step(figure: Figure, display: Display) -> tuple[Display, ...]:
    """Return pictures of the first operation, of the first two and so on.

    A tensor comes with the first operation that takes it, or with the one that gives it. Gradients
    of an overview come after all operations, from the last of these to the first. The last picture
    is the whole one. A label is beside its own line until the way back comes between them.
    """
    order = _StepOrder.of(figure)
    steps = [order.step(element) for element in display.elements]
    numbers = sorted({step for step in steps if step > 0})
    pairs = list(zip(steps, display.elements, strict=True))
    ways = {e.wire.ends: (step, e) for step, e in pairs if e.wire is not None}
    backs = [ways.get(e.wire.back) if e.wire else None for e in display.elements]
    return tuple(
        replace(
            display,
            title=f"{display.title}, step {count} of {len(numbers)}",
            elements=tuple(
                element if back is None or back[0] <= number else beside_own_line(element, back[1])
                for (step, element), back in zip(pairs, backs, strict=True)
                if step <= number
            ),
        )
        for count, number in enumerate(numbers, 1)
    )


@dataclass(frozen=True, slots=True)
class _StepOrder:
    """The number of the step with which each node and each frame comes; `dashed` are edges back."""

    nodes: Mapping[str, int]
    frames: Mapping[str, int]
    dashed: frozenset[tuple[str, str]]
    has_columns: bool

    @classmethod
    def of(cls, figure: Figure) -> _StepOrder:
        """Number the operations of a figure, of ranks side by side those of a column."""
        column = first_column(figure)
        operations = [node.id for node in column.nodes if node.kind not in _TEXTS]
        nodes = {node: number for number, node in enumerate(operations, 1)}
        solid = [edge for edge in column.edges if edge.style is not EdgeStyle.DASHED]
        dashed = (edge for edge in column.edges if edge.style is EdgeStyle.DASHED)
        for one in column.nodes:
            if one.kind in _TEXTS:
                makers = (nodes[e.tail] for e in solid if e.head == one.id and e.tail in nodes)
                takers = (nodes[e.head] for e in solid if e.tail == one.id and e.head in nodes)
                nodes[one.id] = max(makers, default=0) or min(takers, default=1)
        nodes |= {b.node.id: 1 for b in figure.bars if b.where is BarPlace.ABOVE}
        nodes |= {b.node.id: len(operations) for b in figure.bars if b.where is BarPlace.BELOW}
        has_columns = bool(figure.columns)
        framed = {group.id: group.nodes for group in figure.groups}
        framed |= {f"brace {number}": one.nodes for number, one in enumerate(figure.braces)}
        frames = {
            frame: min(nodes[_OF_RANK.sub("", node) if has_columns else node] for node in inside)
            for frame, inside in framed.items()
        }
        return cls(nodes, frames, frozenset((e.tail, e.head) for e in dashed), has_columns)

    def step(self, element: Element) -> int:
        """Return the step with which an element comes, 0 for what is in every picture."""
        if element.kind == "group":
            return self.frames[element.op]
        if element.wire is None:
            return self.nodes[self._own(element.op)] if element.kind.startswith("node ") else 0
        tail, head = self._own(element.wire.tail), self._own(element.wire.head)
        if (tail, head) in self.dashed:
            return 2 * max(self.nodes.values()) + 1 - self.nodes[tail]
        return max(self.nodes[tail], self.nodes[head])

    def _own(self, node: str) -> str:
        return _OF_RANK.sub("", node) if self.has_columns else node
