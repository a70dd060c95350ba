"""The section of `xg cost` about a pipeline: its stages, and when each of them works."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xg.cli.render.amounts import amount
from xg.cli.render.table import aligned
from xg.cost.communication import total, total_formula
from xg.cost.report import CostReport
from xg.driver import Program
from xg_runtime.cells import SCHEDULES, Order, Orders, bubble, in_flight, timeline

FORMULA = "(N_P - 1)/(M + N_P - 1)"


def lines(program: Program, reports: Sequence[CostReport], parts: int) -> Iterator[str]:
    """The stages side by side, then the order of cells in each schedule."""
    axis, count = next(iter(program.mesh.items()))
    formula = FORMULA.replace("N_P", axis)
    yield f"a pipeline of {count} stages over {axis}; costs are those of one microbatch"
    rows = [("stage", "parameters", "forward FLOPs", "backward FLOPs", "saved bytes", "sent")]
    rows += [_row(place, report) for place, report in enumerate(reports)]
    yield from aligned(rows, frozenset(range(6)), "  ")
    for place, report in enumerate(reports):
        yield f"  stage {place} sends {total_formula(report.sent, 'ring')}"
    for name, orders in _orders(count, parts):
        kept = ", ".join(str(in_flight(order)) for order in orders)
        share = float(bubble(orders))
        yield ""
        yield f"{name}, {parts} microbatches: a stage waits {share:.1%} of the time, {formula}"
        yield f"  kept at once by each stage: {kept} microbatches"
        yield from (f"  {row}" for row in _chart(orders))


def data(program: Program, parts: int) -> Mapping[str, object]:
    """The same about the schedules as data."""
    axis, count = next(iter(program.mesh.items()))
    return {
        "axis": axis,
        "stages": count,
        "microbatches": parts,
        "schedules": {
            name: {"bubble": float(bubble(orders)), "kept": [in_flight(order) for order in orders]}
            for name, orders in _orders(count, parts)
        },
    }


def _orders(count: int, parts: int) -> Iterator[tuple[str, Orders]]:
    for name, schedule in SCHEDULES.items():
        yield name, schedule(count, parts)


def _row(place: int, report: CostReport) -> tuple[str, ...]:
    of = report.total
    dims = (of.parameters, of.forward, of.backward, of.saved, total(report.sent, "ring"))
    return (str(place), *(amount(dim, report.numbers) for dim in dims))


def _chart(orders: Sequence[Order]) -> Iterator[str]:
    """Time to the right, stages down: a forward pass takes one column, a backward pass two."""
    slots = timeline(orders)
    end = max(int(slot.end) for slot in slots)
    width = max(len(str(slot.cell)) for slot in slots) + 1
    for stage in range(len(orders)):
        cells = [".".ljust(width)] * end
        for slot in slots:
            if slot.stage == stage:
                for time in range(int(slot.start), int(slot.end)):
                    cells[time] = str(slot.cell).ljust(width)
        yield f"stage {stage}  {''.join(cells)}".rstrip()
