"""Warnings of programs that have types, but hardly are as they were meant."""

from __future__ import annotations

from collections.abc import Iterator

from xg.diagnostics.diagnostic import Diagnostic
from xg.frontend.exchanged_axes import exchanged_axes
from xg.frontend.exchanged_names import exchanged_names
from xg.frontend.loss_operands import loss_operands
from xg.frontend.reordered import reordered_axes
from xg.frontend.unnumbered import unnumbered
from xg.ir.graph import Program


def warnings_of(program: Program, *, is_compiled: bool) -> Iterator[Diagnostic]:
    """All warnings; of sizes without numbers only where the program is one to be compiled."""
    for kind in (loss_operands, exchanged_axes, exchanged_names, reordered_axes):
        yield from (each.diagnostic() for each in kind(program))
    if is_compiled:
        yield from unnumbered(program)
