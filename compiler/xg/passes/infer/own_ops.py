"""Help for the result of an operator of the file that has another shape than its label."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xg.ir.dim import Dim
from xg.ir.graph import Apply, Graph, Value
from xg.ir.tensor import Shape
from xg.ir.use import Data
from xg.ops import find
from xg.syntax.spelling import greek_name

REST = ".."
PAIR = 2


def own_op(graph: Graph, value: Value, expected: Shape) -> str:
    """The operand to write otherwise in the signature of the operator that makes a value."""
    made = (step for step in graph.steps if value in step.outputs)
    step = next(made, None)
    if not isinstance(step, Apply) or find(step.op.glyph) is not None or not step.op.data:
        return ""
    shapes = [graph.types[each].shape for each in step.inputs]
    found = graph.types[value].shape
    return _apart(step.op.data, shapes, found, expected) or _named(step, shapes, found, expected)


def _apart(data: Sequence[Data], shapes: Sequence[Shape], found: Shape, expected: Shape) -> str:
    """Two names for an axis that two operands have, and the label each of them."""
    if len(data) != PAIR or expected[:-1] != found:
        return ""
    first, second = data
    shared = _lengths(second, shapes[1])
    names = [axis for axis, dim in shared.items() if axis in first.axes and dim == expected[-1]]
    if len(names) != 1 or not {*second.axes} <= {*first.axes}:
        return ""
    taken = {*first.axes, *second.axes, first.name, second.name}
    other = next(name for name in ("M", "K", "L", f"{names[0]}_2") if name not in taken)
    axes = ", ".join(other if axis == names[0] else axis for axis in second.axes)
    written = f"`{greek_name(second.name)} [{axes}]`"
    return f"one name is one axis of both operands: give it another one in the second, {written}"


def _lengths(slot: Data, shape: Shape) -> dict[str, Dim]:
    """The sizes of the named axes of an operand, which are its last ones."""
    named = [axis for axis in slot.axes if axis != REST]
    return dict(zip(named, shape[len(shape) - len(named) :], strict=True))


def _named(step: Apply, shapes: Sequence[Shape], found: Shape, expected: Shape) -> str:
    """The last axes of an operand `[..]` by the names that another operand has for them."""
    behind = found[len(expected) :]
    whole = [slot for slot in step.op.data if slot.axes == (REST,)]
    if not behind or found[: len(expected)] != expected or expected[-len(behind) :] != behind:
        return ""
    named = re.findall(r"(\w+) \[(\w[^\]]*)\]", step.op.formula.partition(") = ")[0])
    fits = [axes for _, axes in named if axes.count(",") == len(behind) - 1]
    if len(whole) != 1 or len(fits) != 1 or behind not in shapes:
        return ""
    operand = f"`{greek_name(whole[0].name)} [{REST}, {fits[0]}]`"
    return f"`..` is axes apart from those with a name: name the last ones of it, too, {operand}"
