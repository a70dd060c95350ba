"""From graphs to figures: one module for each view of a program."""

from __future__ import annotations

from typing import Literal

from xg.figures.model.figure import Figure
from xg.figures.views.backward import backward_figure
from xg.figures.views.columns import columns_figure
from xg.figures.views.forward import forward_figure
from xg.figures.views.overview import overview_figure
from xg.ir.graph import IRProgram

View = Literal["forward", "backward", "overview"]


def figure(
    program: IRProgram,
    view: View,
    *,
    legend: bool = False,
    placed: IRProgram | None = None,
    depth: int | None = None,
    compact: bool = False,
) -> Figure:
    """Return one view of a program's entry block; for the backward it is differentiated.

    Of a program that was `placed` on a mesh, `program` is that of one rank. In an overview of one
    device calls are opened to a `depth`; without one, repeated blocks that call others. In a
    `compact` backward pass gradients of parameters are names beside their products.

    Raises KeyError where a gradient is to be drawn and the program has none, ValueError for
    another view.
    """
    match view:
        case "forward":
            return forward_figure(program, program.main, legend=legend)
        case "backward":
            return backward_figure(
                program, program.backwards[program.entry], legend=legend, compact=compact
            )
        case "overview" if placed is not None and placed.mesh:
            return columns_figure(placed, program, legend=legend)
        case "overview":
            return overview_figure(program, legend=legend, depth=depth)
        case _:
            raise ValueError(f"a figure is forward, backward or overview, not {view}")
