"""States of a few positions: what only windows read is kept as far back as they reach.

A causal convolution of k positions needs the k - 1 before the new ones, however long the text is.
Zeros are in front of a text, and so are they in the state that the first step is given: it reads
what windows find beyond the first position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.dim import Dim
from xg.ir.prim import Expr, Windows
from xg_generate.decode_step.operator import step_use
from xg_generate.decode_step.positions import PositionSymbols
from xg_generate.decode_step.step_plan import Kept, StepPart, StepPlan, Token, Used

_VIEWS = frozenset({"reshape", "transpose"})


def keep_recent(plan: StepPlan) -> StepPlan:
    """The plan in which states that only windows read hold as many positions as these need."""
    reaches = {
        (part.value, part.whole): reach
        for part in plan.parts
        if isinstance(part, Kept) and (reach := _reach(plan, (part.value, part.whole)))
    }
    return _with_reaches(plan, reaches)


def keep_all(plan: StepPlan, token: Token) -> StepPlan:
    """The plan in which a state holds all past positions again."""
    return _with_reaches(plan, {token: None})


def _with_reaches(plan: StepPlan, reaches: Mapping[Token, Dim | None]) -> StepPlan:
    if not reaches:
        return plan
    return replace(plan, parts=tuple(_cut(plan, part, reaches) for part in plan.parts))


def _cut(plan: StepPlan, part: StepPart, reaches: Mapping[Token, Dim | None]) -> StepPart:
    """A part with the reach in the place of the number of all past positions."""
    if isinstance(part, Kept):
        return replace(part, past=reaches.get((part.value, part.whole), part.past))
    if not isinstance(part, Used) or not reaches.keys() & set(part.inputs):
        return part
    (reach,) = {reaches[token] for token in part.inputs if token in reaches}
    types = [plan.graph.types[value] for value in part.step.inputs]
    ports = [(part.step.outputs.index(value), whole) for value, whole in part.outputs]
    positions = PositionSymbols(plan.positions.length, reach or plan.positions.past)
    return replace(part, use=step_use(part.step, types, ports, positions))


def _reach(plan: StepPlan, token: Token) -> Dim | None:
    """How far back the windows reach that read a value; None if anything else reads it."""
    outputs = [(plan.graph.outputs[place], whole) for place, whole in plan.request.outputs]
    if token in outputs or token in plan.alias.values():
        return None
    reaches: set[Dim | None] = set()
    for part in plan.parts:
        if not isinstance(part, Kept) and token in part.inputs:
            reaches.add(_reach_of(plan, part, token) if isinstance(part, Used) else None)
    (reach,) = reaches if len(reaches) == 1 else (None,)
    return reach


def _reach_of(plan: StepPlan, part: Used, token: Token) -> Dim | None:
    """The reach of the windows of one use, in which nothing else depends on earlier positions."""
    if any(any(whole) for _, whole in part.outputs):
        return None
    if any(any(whole) for other, whole in part.inputs if other is not token[0]):
        return None
    types = [plan.graph.types[value] for value in part.step.inputs]
    body = part.step.op.body(types, part.step.attrs)
    operands = [e for e, v in zip(body.operands, part.step.inputs, strict=True) if v is token[0]]
    reaches = {*_reaches(body.order(), operands, plan.positions)}
    (reach,) = reaches if len(reaches) == 1 else (None,)
    return reach


def _reaches(
    body: Sequence[Expr], operands: list[Expr], positions: PositionSymbols
) -> Iterator[Dim | None]:
    """The zeros in front of each window of the operands; None where no window reads them."""
    views = {id(operand) for operand in operands}
    for expr in body:
        if expr.prim == "iota" and positions.is_axis(expr.shape[0]):
            yield None
        if not any(id(arg) in views for arg in expr.args):
            continue
        if expr.prim in _VIEWS:
            views.add(id(expr))
        elif expr.prim == "window" and positions.is_axis(Windows.of(expr).length):
            yield Windows.of(expr).before
        else:
            yield None
