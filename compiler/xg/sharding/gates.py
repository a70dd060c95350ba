"""Typing of gates: of a sum, what each rank adds is 0 where none of its own parts counts.

A derived gradient keeps a condition beside a sum (`xg.ir.cotangent`): it counts where any of its
terms was chosen, and is 0 elsewhere, whatever the slope may be there. Of terms that are cut each
rank has its own condition. Where that is false its term of the sum is 0, so each rank shuts its own
term, and no rank asks the others.

The condition comes from a maximum that only a derivation makes (`any_open`). A program that asks
for the largest of its own values gets the maximum over all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from xg.ir.placement import CONSTANT, GATE, PARTIAL, AxisState
from xg.ir.prim import Expr
from xg.sharding.argument import IllTyped, PlacedArgument
from xg.sharding.primitive_rules import is_zero

# The largest of these is made of the largest of the parts.
_MAXIMA = frozenset({"reshape", "transpose", "broadcast", "max", "maximum"})


def gate_rule(expr: Expr, args: Sequence[PlacedArgument]) -> AxisState:
    """Return the state of what is made with a gate: a gate, or a term that it shuts."""
    gates = [arg.state == GATE for arg in args]
    others = [arg.state for arg, one in zip(args, gates, strict=True) if not one]
    is_monotone = expr.prim in _MAXIMA or (expr.prim == "gt" and gates == [True, False])
    if is_monotone and all(state == CONSTANT for state in others):
        return GATE
    if expr.prim == "where" and gates == [True, False, False] and is_zero(args[2].expr):
        if args[1].state == PARTIAL:
            return PARTIAL
        if args[1].expr.prim == "const":
            return GATE
    raise IllTyped("a condition of one part", expr, [n for n, one in enumerate(gates) if one])
