"""Show a pipeline: its stages, when each of them works, and a picture of its schedules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xg.cost.communication import total, total_formula
from xg.cost.report import CostReport
from xg.cost.table import align_columns, amount
from xg.driver import Program
from xg.figures import Format, ThemeName, written
from xg.figures.draw.paint import Timeline, Work, timelines
from xg.figures.model.figure import Figure
from xg.figures.model.richtext import bold, number, plain
from xg_runtime.cells import SCHEDULES, Order, Orders, bubble, in_flight, timeline


def lines(program: Program, reports: Sequence[CostReport], parts: int) -> Iterator[str]:
    """The stages side by side, then the order of cells in each schedule."""
    axis, ranks = next(iter(program.mesh.items()))
    turns = len(reports) // ranks
    several = f", {turns} for each of {ranks} ranks" if turns > 1 else ""
    yield f"a pipeline of {len(reports)} stages over {axis}{several}; costs are per microbatch"
    rows = [("stage", "parameters", "forward FLOPs", "backward FLOPs", "saved bytes", "sent")]
    rows += [_row(place, report) for place, report in enumerate(reports)]
    yield from align_columns(rows, frozenset(range(6)), "  ")
    for place, report in enumerate(reports):
        yield f"  stage {place} sends {total_formula(report.sent, 'ring')}"
    has = "rank" if turns > 1 else "stage"
    which = f", each in 1 of its {turns} stages" if turns > 1 else ""
    for name, orders in orders_of(program, parts):
        kept = ", ".join(str(in_flight(order)) for order in orders)
        share, formula = float(bubble(orders)), formula_of(axis, turns, orders, parts)
        yield ""
        yield f"{name}, {parts} microbatches: a {has} waits {share:.1%} of the time, {formula}"
        yield f"  microbatches in flight per {has}{which}: {kept}"
        yield from (f"  {row}" for row in _chart(orders, has))


def data(program: Program, parts: int) -> Mapping[str, object]:
    """The same about the schedules as data."""
    axis, ranks = next(iter(program.mesh.items()))
    return {
        "axis": axis,
        "stages": len(program.stages),
        "ranks": ranks,
        "microbatches": parts,
        "schedules": {
            name: {"bubble": float(bubble(orders)), "kept": [in_flight(order) for order in orders]}
            for name, orders in orders_of(program, parts)
        },
    }


def orders_of(program: Program, parts: int) -> Iterator[tuple[str, Orders]]:
    """Yield every order of a pipeline, the plan's own order first."""
    ranks = next(iter(program.mesh.values()))
    planned = (program.schedule.name,) if program.schedule else ()
    for name in dict.fromkeys((*planned, *SCHEDULES)):
        yield name, SCHEDULES[name](ranks, parts, len(program.stages) // ranks)


def formula_of(axis: str, turns: int, orders: Orders, parts: int) -> str:
    """The share of the time in which a rank waits: so long for the first, and for the last.

    Backward passes in halves make each time a third; there fewer microbatches than ranks wait more.
    """
    halves = any(cell.half for cell in orders[0])
    if halves and parts < len(orders):
        return f"(2*{axis} - M - 1)/(2*M + 2*{axis} - 1)"
    times = turns * (3 if halves else 1)
    return f"({axis} - 1)/({f'{times}*' if times > 1 else ''}M + {axis} - 1)"


def _row(place: int, report: CostReport) -> tuple[str, ...]:
    of = report.total
    dims = (of.parameters, of.forward, of.backward, of.saved, total(report.sent, "ring"))
    return (str(place), *(amount(dim, report.numbers) for dim in dims))


def _chart(orders: Sequence[Order], has: str) -> Iterator[str]:
    """Time to the right, ranks down: a forward pass takes one column, a backward pass two.

    Where a rank has several stages, a cell begins with the number of its stage.
    """
    slots = timeline(orders)
    end = max(slot.end for slot in slots)
    names = {
        slot: f"{slot.cell.stage(slot.rank, len(orders))}{slot.cell}"
        if has == "rank"
        else str(slot.cell)
        for slot in slots
    }
    width = max(map(len, names.values())) + 1
    rows = [[".".ljust(width)] * end for _ in orders]
    for slot, name in names.items():
        rows[slot.rank][slot.start : slot.end] = [name.ljust(width)] * (slot.end - slot.start)
    for rank, cells in enumerate(rows):
        yield f"{has} {rank}  {''.join(cells)}".rstrip()


def picture(program: Program, parts: int, format: Format, theme: ThemeName = "light") -> bytes:
    """Draw the orders of a pipeline below each other, the plan's own order first."""
    axis, ranks = next(iter(program.mesh.items()))
    turns = len(program.stages) // ranks
    has, charts = "rank" if turns > 1 else "stage", list[Timeline]()
    for name, orders in orders_of(program, parts):
        said = f", {parts} microbatches: a {has} waits {float(bubble(orders)):.1%} of the time, "
        heading = (*bold(name), *plain(said), *number(formula_of(axis, turns, orders, parts)))
        rows = [f"{has} {rank}" for rank in range(ranks)]
        charts.append(Timeline(heading, rows, tuple(_work(orders, turns))))
    description = (
        f"Time runs to the right. Each {has} has a row with a box for the forward pass (F) and a "
        "wider one for the backward pass (B) of each microbatch, or one for each half of it, that "
        "for inputs (B) and that for weights (W); between boxes it waits."
    )
    graph, stages = program.graphs.main, f"{ranks * turns} stages"
    if turns > 1:
        stages += f" on {ranks} ranks"
    subtitle = f"pipeline of {stages}: forward (F), backward (B), weights (W)"
    display = timelines(Figure(graph.title or graph.block, subtitle, description, (), ()), charts)
    return written(display, format, theme)


def _work(orders: Orders, turns: int) -> Iterator[Work]:
    for slot in timeline(orders):
        cell, stage = slot.cell, slot.cell.stage(slot.rank, len(orders))
        label = plain(f"{stage}{cell}" if turns > 1 else str(cell))
        way = "backward" if cell.backward else "forward"
        of = f" for {cell.half}" if cell.half else ""
        title = (
            f"stage {stage}, {way} pass{of} of microbatch {cell.part}, {slot.start} to {slot.end}"
        )
        yield Work(slot.rank, slot.start, slot.end, label, title, cell.backward)
