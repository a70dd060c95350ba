"""One use of an operator in a step: the operator itself where it fits, else its body retyped.

Most operators do in a step what they always do, on other sizes: then the node stays what it was.
Those that count positions, or take one operand in two states, become an operator of the same glyph
with the retyped body.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.body import Body, attribute, same
from xg.ir.graph import Apply
from xg.ir.op import Op
from xg.ir.prim import ShapeError
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs, Tensor
from xg_generate.decode_step.positions import PositionSymbols, Whole
from xg_generate.decode_step.retype import Retyped, Wanted, retype


@dataclass(frozen=True, slots=True)
class StepUse:
    """An operator, its attributes, the operands that it takes and which of its outputs it gives.

    `same` is the operand that the only output is, where nothing is left to do (dropout).
    """

    op: Op
    attrs: Attrs
    operands: tuple[Wanted, ...]
    visible: tuple[int, ...]
    same: Wanted | None = None


def step_use(
    step: Apply,
    types: Sequence[TensorType],
    wanted: Sequence[tuple[int, Whole]],
    positions: PositionSymbols,
) -> StepUse:
    """The use of `step` that gives the `wanted` outputs, its operands having had these types."""
    body = step.op.body(types, step.attrs)
    outputs = [(body.outputs[index], whole) for index, whole in wanted]
    retyped = retype(outputs, positions)
    visible = tuple(index for index, _ in wanted)
    (first, *rest) = retyped.outputs
    if not rest and first.prim == "operand":
        ((same, _),) = retyped.operands
        return StepUse(step.op, step.attrs, (same,), visible, same)
    return _itself(step, types, body, retyped, visible, positions) or _other(step, retyped, visible)


def _itself(
    step: Apply,
    types: Sequence[TensorType],
    body: Body,
    retyped: Retyped,
    visible: tuple[int, ...],
    positions: PositionSymbols,
) -> StepUse | None:
    """The operator itself, if it computes the same under some attributes."""
    names = [str(expr.name) for expr in body.operands]
    flags = dict(name for name, _ in retyped.operands)
    if len(flags) != len(retyped.operands):
        return None  # an operand in two states
    wholes = [
        flags.get(name, (False,) * len(t.shape)) for name, t in zip(names, types, strict=True)
    ]
    retyped_types = [positions.type(t, whole) for t, whole in zip(types, wholes, strict=True)]
    grown = {key: attribute(value, positions.grown) for key, value in step.attrs.items()}
    for attrs in (step.attrs, grown):
        with suppress(ShapeError):
            outputs = step.op.body(retyped_types, attrs).outputs
            if same([outputs[index] for index in visible], retyped.outputs):
                return StepUse(step.op, attrs, tuple(zip(names, wholes, strict=True)), visible)
    return None


def _other(step: Apply, retyped: Retyped, visible: tuple[int, ...]) -> StepUse:
    """An operator of the same glyph whose body is the retyped one."""
    own = {own.name for own in step.op.own if isinstance(own, Tensor)}
    ordered = sorted(retyped.operands, key=lambda item: item[0][0] in own)  # data first
    names = _names([name for (name, _), _ in ordered])
    whole = tuple(name for (name, _), _ in ordered)
    body = Body(tuple(expr for _, expr in ordered), tuple(retyped.outputs))
    pairs = list(zip(names, whole, strict=True))
    data, owned = ([n for n, old in pairs if (old in own) is is_own] for is_own in (False, True))
    op = replace(
        step.op.computing(body, data, owned),
        name=f"offset {step.op.name}",
        outputs=step.op.output_names(len(visible)) if len(visible) == len(step.op.outputs) else (),
    )
    attrs = {key: value for key, value in step.attrs.items() if key != "absent"}
    return StepUse(op, attrs, tuple(request for request, _ in ordered), tuple(range(len(visible))))


def _names(names: Sequence[str]) -> list[str]:
    """Distinct names: a name used in two states gets a number."""
    seen: dict[str, int] = {}
    unique: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return unique
