"""`xg cost --plan '*'`: one device and every plan of a file, side by side."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence

from xg.cli.arguments import settings_of
from xg.cli.console import Console
from xg.cli.exits import FINE, PROBLEM
from xg.cli.opening import open_project
from xg.cli.render.amounts import amount, seconds
from xg.cli.render.cost_data import as_data
from xg.cli.render.cost_sections import ESTIMATE
from xg.cli.render.cost_text import sizes
from xg.cli.render.json_text import json_text
from xg.cli.render.table import aligned
from xg.cost.communication import total_bytes, total_formula
from xg.cost.report import CostReport, Machine
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import compile_project
from xg.frontend.choose_plan import plans_of

_HEAD = ("plan", "mesh", "parameters", "held bytes", "FLOPs", "naive", "ring", "ring bytes")


@dataclass(frozen=True, slots=True)
class PlanCost:
    """A plan with its costs, or why it has none; no name means one device."""

    name: str | None
    report: CostReport | None
    refused: str = ""


def run_all(options: Namespace, machines: Sequence[Machine], console: Console) -> int:
    """Compare them; a plan that cannot be compiled says why."""
    project, settings = open_project(options.file), settings_of(options)
    names = [*plans_of(project, settings)]
    if not names:
        console.note(f"xg cost: {options.file} has no plan, so there is none to compare")
        return PROBLEM
    costs: list[PlanCost] = []
    for name in (None, *names):
        try:
            program = compile_project(project, options.block, settings, name)
        except DiagnosticError as error:
            if name is None:
                raise
            costs.append(PlanCost(name, None, error.diagnostics[0].message))
            continue
        for place, counted in enumerate(program.costs(options.dtype, machines)):
            stage = f"{name}, stage {place}" if program.stages else name
            costs.append(PlanCost(stage, counted))
    if options.json:
        _write(costs, console)
    else:
        console.say_all(_lines(costs, options.dtype))
    return FINE


def _write(found: Sequence[PlanCost], console: Console) -> None:
    plans = [
        as_data(each.report) if each.report else {"plan": each.name, "refused": each.refused}
        for each in found
    ]
    console.write(json_text({"plans": plans}))


def _lines(found: Sequence[PlanCost], dtype: str) -> Iterator[str]:
    compiled = [each for each in found if each.report]
    first = compiled[0].report
    assert first
    yield f"{first.cost.program.main.block}, one step of one rank, {dtype}: {_all_sizes(compiled)}"
    names = [each.machine.name for each in first.estimates]
    rows = [(*_HEAD, *names), *(_row(each.name or "one device", each.report) for each in compiled)]
    yield from aligned(rows, frozenset(range(2, len(_HEAD) + len(names))), "  ")
    yield from (f"  {each.name} is refused: {each.refused}" for each in found if not each.report)
    yield ""
    yield "elements that a rank sends around a ring"
    yield from aligned([*_formulas(compiled)], indent="  ")
    yield ""
    yield "held: parameters, gradients, both moments of Adam, saved activations; naive and ring:"
    yield "elements that a rank sends"
    if names:
        yield ESTIMATE


def _all_sizes(compiled: Sequence[PlanCost]) -> str:
    """The sizes of all of them, where one plan mentions more than another."""
    mentioned = [sizes(each.report) for each in compiled if each.report]
    return max(mentioned, key=len)


def _formulas(compiled: Sequence[PlanCost]) -> Iterator[tuple[str, str]]:
    for each in compiled:
        if each.name and each.report:
            yield each.name, total_formula(each.report.sent, "ring")


def _row(name: str, found: CostReport | None) -> tuple[str, ...]:
    assert found
    numbers = found.numbers
    mesh = " × ".join(f"{axis} = {size}" for axis, size in found.mesh.items())
    amounts = (*found.compared, total_bytes(found.sent))
    times = (seconds(each.total) for each in found.estimates)
    return (name, mesh, *(amount(dim, numbers) for dim in amounts), *times)
