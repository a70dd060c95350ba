"""The schedules of a pipeline as a picture: time by rank, and what waits."""

from __future__ import annotations

from collections.abc import Iterator

from xg.cli.render.cost_pipeline import formula_of, orders_of
from xg.driver import Program
from xg.figures import Format, ThemeName, written
from xg.figures.draw.paint import Timeline, Work, timelines
from xg.figures.model.figure import Figure
from xg.figures.model.richtext import bold, number, plain
from xg_runtime.cells import Orders, bubble, timeline


def picture(program: Program, parts: int, format: Format, theme: ThemeName = "light") -> bytes:
    """The orders of a pipeline drawn below each other, that of the plan first."""
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
