"""A loop over a linear recurrence as text: one call of the kernel for all of its rounds."""

from __future__ import annotations

from collections.abc import Sequence

from xg.codegen.emit.line_breaks import chosen, commented
from xg.codegen.emit.module_plan import ModulePlan
from xg.ir.loop import Loop

FIELDS = ("factors", "states", "start")


def recurrence(
    plan: ModulePlan,
    loop: Loop,
    operands: Sequence[str],
    results: Sequence[str],
    saved: tuple[str, str] | None,
    comment: str,
) -> list[str]:
    """All states and the last one; `saved` is a name for what is saved, and its class."""
    plan.operators.support["recurrence"] = None
    states, last = results
    turn = f"reverse={loop.reverse}"
    end = "0" if loop.reverse else "-1"
    lines = commented(f"{states} = _recurrence({', '.join([*operands, turn])})", comment)
    if loop.length.constant is None:  # over an axis of length 0 the state ends as it began
        lines += chosen(last, f"{states}[{end}]", f"len({states})", operands[2])
    else:
        lines.append(f"{last} = {states}[{end}]")
    if saved:
        lines.append(f"{saved[0]} = {saved[1]}({operands[0]}, {states}, {operands[2]})")
    return lines


def d_recurrence(
    plan: ModulePlan,
    loop: Loop,
    cotangents: Sequence[str],
    results: Sequence[str],
    saved: str,
    comment: str,
) -> list[str]:
    """The gradients of factors, summands and the first state."""
    plan.operators.support["d_recurrence"] = None
    arguments = [*cotangents, *(f"{saved}.{field}" for field in FIELDS), f"reverse={loop.reverse}"]
    code = f"{', '.join(results)} = _d_recurrence({', '.join(arguments)})"
    return commented(code, comment)
