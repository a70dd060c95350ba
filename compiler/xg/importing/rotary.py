"""Rotary positions, written out: ``x * cos + rotated(x) * sin`` is one RoPE."""

from __future__ import annotations

from xg.importing.errors import Unspeakable
from xg.importing.fixed import Fixed
from xg.importing.known import Known, Operand, Turning
from xg.importing.lowering import Lowering
from xg.importing.recognise import rotary_base
from xg.importing.views import ModelValue, View


def turning(lowering: Lowering, view: View, table: Fixed) -> Turning:
    """A tensor times a table; what it is shows when the other half is added."""
    source = _rotated(lowering, view)
    if source is not None:
        return Turning(View.of(source), table, rotated=True)
    return Turning(view, table, rotated=False)


def rotary(lowering: Lowering, a: Known | float, b: Known | float) -> View | None:
    """The RoPE that a sum is; None for any other sum."""
    if not isinstance(a, Turning) and not isinstance(b, Turning):
        return None
    problem = Unspeakable("it multiplies by a table of constants other than rotary positions")
    if not isinstance(a, Turning) or not isinstance(b, Turning) or a.rotated == b.rotated:
        raise problem
    straight, turned = (b, a) if a.rotated else (a, b)
    value = lowering.materialize(straight.view).value
    base = rotary_base(lowering, straight.table, turned.table)
    if value is not turned.view.value or base is None or len(value.axes) < 2:
        raise problem
    return View.of(lowering.emit("RoPE", (value,), value.axes, base=base))


def _rotated(lowering: Lowering, view: View) -> ModelValue | None:
    """The tensor of which this is ``[-second half, first half]``."""
    joined = lowering.made_by(view, "C")
    if joined is None or len(joined.data) != 2 or joined.attrs["axis"] != -1:
        return None
    negated = lowering.producer.get(joined.data[0])
    if negated is None or negated.operator != "op":
        return None
    parts = negated.attrs["formula"][0]
    if parts != (("neg", (Operand(0),)),):
        return None
    second, first = (lowering.producer.get(each) for each in (negated.data[0], joined.data[1]))
    if first is None or second is None or {first.operator, second.operator} != {"slice"}:
        return None
    half = first.attrs["stop"]
    fits = first.attrs["start"].constant == 0 and second.attrs["start"] == half
    same = first.data == second.data and first.attrs["axis"] == second.attrs["axis"] == -1
    return first.data[0] if fits and same and second.attrs["stop"] == half * 2 else None
