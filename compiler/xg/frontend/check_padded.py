"""A plan that pads, checked in one program alone: numbers decide what it pads."""

from __future__ import annotations

from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.choose_plan import check_parallel
from xg.ir.graph import Program
from xg.passes.pipelines import PLACED
from xg.passes.runner import run
from xg.sharding.apply_plan import with_mesh


def check_padded(typed: Program) -> None:
    """Raise DiagnosticError with something that is wrong with a program under its plan.

    Nothing is known of a mesh without numbers, or of a block that the plan does not reach.
    """
    check_parallel(typed)
    try:
        meshed = with_mesh(typed)
    except DiagnosticError:
        return
    run(PLACED, meshed)
