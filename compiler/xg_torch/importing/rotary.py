"""Rotary positions, written out: ``x * cos + rotated(x) * sin`` is one RoPE."""

from __future__ import annotations

from xg_torch.importing.diagram import ModelStep
from xg_torch.importing.errors import OTHER_TABLE, Unspeakable
from xg_torch.importing.fixed import Fixed
from xg_torch.importing.known import Known, Layout, Operand, Turning
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.recognise import along_positions, rotary_turns
from xg_torch.importing.rotary_speeds import Turns
from xg_torch.importing.views import ModelValue, View


def turning(lowering: Lowering, view: View, table: Fixed) -> Turning | None:
    """A tensor with its pairs turned, times a table; None where the tensor is no such one."""
    halves, neighbours = _halves(lowering, view), _neighbours(lowering, view)
    if halves is not None:
        return Turning(View.of(halves), table, "half")
    if neighbours is not None:
        return Turning(View.of(neighbours), table, "interleaved")
    return None


def rotary(lowering: Lowering, a: Known | float, b: Known | float) -> View | None:
    """The RoPE that a sum is; None for any other sum."""
    if not isinstance(a, Turning) and not isinstance(b, Turning):
        return None
    problem = Unspeakable(OTHER_TABLE)
    if not isinstance(a, Turning) or not isinstance(b, Turning):
        raise problem
    straight, turned = (b, a) if a.rotated else (a, b)
    layout = turned.rotated
    value = lowering.materialize(straight.view).value
    fits = value is turned.view.value and len(value.axes) > 1
    if straight.rotated is not None or layout is None or not fits:
        raise problem
    turns = rotary_turns(lowering, straight.table, turned.table, layout)
    if turns is None:
        raise problem
    return rope(lowering, View.of(value), along_positions(lowering, straight.table), turns, layout)


def rope(lowering: Lowering, view: View, place: int, turns: Turns, layout: Layout) -> View:
    """The RoPE of a whole value; the axis at `place` counts positions."""
    # RoPE has positions along the last axis but one.
    order = [i - len(view.axes) for i in range(len(view.axes))]
    order.insert(-1, order.pop(place))
    back = [order.index(i) for i in sorted(order)]
    turned_round = lowering.materialize(view.with_axes(view.axes[i] for i in order)).value
    made = View.of(
        lowering.emit("RoPE", (turned_round,), turned_round.axes, turns=turns, layout=layout)
    )
    if turns.scale != 1.0:
        made = lowering.keep("scale", made, c=turns.scale)
    return made.with_axes(made.axes[i] for i in back)


def _made_by(lowering: Lowering, value: ModelValue, *operators: str) -> ModelStep | None:
    """The step that made a value, behind any R of it."""
    step = lowering.producer.get(value)
    while step is not None and step.operator == "R" and "R" not in operators:
        step = lowering.producer.get(step.data[0])
    return step if step is not None and step.operator in operators else None


def _pair(lowering: Lowering, view: View, operator: str) -> tuple[ModelStep, ModelStep] | None:
    """The steps ``y`` and ``x`` of a joined ``[-y, x]``."""
    joined = _made_by(lowering, view.value, "C")
    if joined is None or len(joined.data) != 2:
        return None
    negated = _made_by(lowering, joined.data[0], "op")
    if joined.attrs["axis"] != -1 or negated is None:
        return None
    if negated.attrs["formula"][0] != (("neg", (Operand(0),)),):
        return None
    second, first = (
        _made_by(lowering, each, operator) for each in (negated.data[0], joined.data[1])
    )
    if second is None or first is None or first.data != second.data:
        return None
    return (second, first) if first.attrs["axis"] == second.attrs["axis"] == -1 else None


def _halves(lowering: Lowering, view: View) -> ModelValue | None:
    """The tensor of which this is ``[-second half, first half]``."""
    pair = _pair(lowering, view, "slice")
    if pair is None:
        return None
    second, first = pair
    half = first.attrs["stop"]
    fits = first.attrs["start"].constant == 0 and second.attrs["start"] == half
    return first.data[0] if fits and second.attrs["stop"] == half * 2 else None


def _neighbours(lowering: Lowering, view: View) -> ModelValue | None:
    """The tensor of which this is ``[-odd columns, even columns]``, one beside the other."""
    pair = _pair(lowering, view, "pick")
    if pair is None:
        return None
    second, first = pair
    if first.attrs["index"].constant != 0 or second.attrs["index"].constant != 1:
        return None
    pairs = lowering.producer.get(first.data[0])
    return pairs.data[0] if pairs is not None and pairs.operator == "R" else None
