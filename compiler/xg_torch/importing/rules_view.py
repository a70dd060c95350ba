"""Layout calls on a tensor in any form: of a mask, every part is laid out."""

from __future__ import annotations

from collections.abc import Sequence

from xg.ir.dim import Dim
from xg_torch.importing import rules_layout as layout
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Argument, Ref
from xg_torch.importing.fixed import Fixed
from xg_torch.importing.known import Condition, Known, Mask
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.recognise import positions
from xg_torch.importing.views import Axis, View

ALL_POSITIONS = "it indexes a tensor with other than all positions"


def laid_out(lowering: Lowering, name: str) -> Known:
    """`view`, `transpose`, `expand` … of a tensor or a mask."""
    rule, formula = layout.RULES[name], lowering.known_of("self")
    if not isinstance(formula, Mask):
        return rule(lowering, lowering.view(formula))
    parts: list[Condition | Fixed] = []
    for place, part in enumerate(formula.parts):
        if isinstance(part, Condition):
            parts.append(Condition(rule(lowering, part.view), part.positive))
        else:
            part_name = f"{lowering.call.outputs[0]}.{place}"
            lowering.fixed.call(part_name, name, {**lowering.call.args, "self": Ref(part.name)})
            parts.append(Fixed(part_name, lowering.shape_of_output()))
    return Mask(tuple(parts), formula.negated, formula.form)


def indexed(lowering: Lowering) -> Known:
    """Indexing a mask or integers along every axis with all positions, which is a layout."""
    formula, indices = lowering.known_of("self"), lowering.argument("indices")
    assert isinstance(indices, tuple)
    shape = lowering.shape_of_output()
    if not isinstance(formula, Mask):
        return _spread(lowering, lowering.view(formula), indices, shape)
    parts: list[Condition | Fixed] = []
    for part in formula.parts:
        if isinstance(part, Fixed):
            raise Unspeakable("it indexes a mask of constants")
        parts.append(Condition(_spread(lowering, part.view, indices, shape), part.positive))
    return Mask(tuple(parts), formula.negated, formula.form)


def _spread(
    lowering: Lowering, view: View, indices: Sequence[Argument], shape: Sequence[Dim]
) -> View:
    """Every axis where the positions that index it run."""
    if len(indices) != len(view.axes):
        raise Unspeakable(ALL_POSITIONS)
    axes: list[Axis] = [() for _ in shape]
    for axis, index in zip(view.axes, indices, strict=True):
        spread = None if index is None else positions(lowering, lowering.look(index))
        if spread is None:
            raise Unspeakable(ALL_POSITIONS)
        own = [place for place, each in enumerate(spread.axes) if each == spread.base[0]]
        counted = lowering.sizes.dim(spread.base[0][0].size)
        same = counted == view.with_axes([axis]).shape(lowering.sizes)[0]
        if not own or not same or lowering.producer[spread.value].attrs["start"]:
            raise Unspeakable(ALL_POSITIONS)
        axes[own[0] + len(shape) - len(spread.axes)] = axis
    return view.with_axes(axes)
