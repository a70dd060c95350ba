"""Whether the lines of a plan fit what they reach, and each other."""

from __future__ import annotations

from collections.abc import Iterable

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.ir.tensor import spell_shape
from xg.sharding.apply_plan import PlacedValue, PlannedValue
from xg.sharding.errors import PlacedTwice, PlanMisfit
from xg.sharding.placing import Clash, Misfit


def check_placed(reached: Iterable[PlacedValue]) -> None:
    """Raise DiagnosticError with every line of a plan that does not fit what it reaches."""
    problems: dict[Problem, None] = {}
    for planned in (value.planned for value in reached):
        try:
            _ = planned.placing
        except Misfit as misfit:
            problems[_misfit(planned, misfit)] = None
        except Clash as clash:
            name, plans = str(planned.value.name), (clash.first.plan, clash.second.plan)
            spans = clash.second.span, clash.first.span
            problems[PlacedTwice(spans[0], name, clash.axis, plans, spans[1])] = None
    if problems:
        raise DiagnosticError.of(*problems)


def _misfit(planned: PlannedValue, misfit: Misfit) -> PlanMisfit:
    layout = misfit.layout
    entry = next(e for e in planned.entries if layout is e.rest or layout is e.use)
    graph, value = planned.graph, planned.value
    shape = spell_shape(graph.shape(value))
    return PlanMisfit(entry.span, str(value.name), str(misfit.layout), shape, value.span)
