"""Axes that two reshapes in a row exchange: merged as [S*D] and split as [D, S].

A reshape keeps the order of elements, so that what is split off is no axis that was there before.
One reshape alone moves axes where their names tell which is which; behind a merged axis they no
longer do.
"""

from __future__ import annotations

from collections.abc import Iterator

from xg.frontend.errors import ReorderedAxes
from xg.ir.dim import ONE
from xg.ir.graph import Apply, Program
from xg.ir.tensor import spell_shape


def reordered_axes(program: Program) -> Iterator[ReorderedAxes]:
    """A warning for each reshape that has the axes of the one before, in another order."""
    for graph in program.graphs.values():
        makers = {out: step for step in graph.steps for out in step.outputs}
        for step in graph.steps:
            before = makers.get(step.inputs[0]) if step.inputs else None
            if not (_is_reshape(step) and _is_reshape(before)) or before is None:
                continue
            values = before.inputs[0], step.inputs[0], step.outputs[0]
            shapes = [graph.types[value].shape for value in values]
            first, merged, last = ([dim for dim in shape if dim != ONE] for shape in shapes)
            same = sorted(map(str, first)) == sorted(map(str, last))
            if same and first != last and len(merged) < len(last):
                spelled = (spell_shape(tuple(map(graph.sizes.fold, each))) for each in shapes)
                yield ReorderedAxes(step.span, *spelled)


def _is_reshape(step: object) -> bool:
    """Whether a step is a reshape without a map, which would name its axes."""
    return isinstance(step, Apply) and step.op.name == "reshape" and "->" not in step.span.text
