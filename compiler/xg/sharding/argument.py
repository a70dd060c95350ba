"""The arguments of a typing rule, and how it refuses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE
from xg.ir.placement import CONSTANT, REPLICATED, AxisState
from xg.ir.prim import Expr


class IllTyped(Exception):
    """Arguments that a primitive cannot take in these states.

    `places` are the arguments to blame.
    """

    def __init__(self, reason: str, expr: Expr, places: Sequence[int] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.expr = expr
        self.places = tuple(places)


@dataclass(frozen=True, slots=True)
class PlacedArgument:
    """An argument with its state."""

    expr: Expr
    state: AxisState

    def can_be_cut(self, axis: int) -> bool:
        """Whether it can be combined with an operand sharded along an axis of the result.

        It can at no cost if it lacks the axis, or is a constant that every rank can compute its
        part of.
        """
        lacks = -axis > self.expr.rank or self.expr.shape[axis] == ONE
        if self.state == CONSTANT:
            return True
        return self.state == REPLICATED and lacks


Rule = Callable[[Expr, Sequence[PlacedArgument]], AxisState]
