"""Which figures a program has."""

from __future__ import annotations

from collections.abc import Iterator

from xg.driver import Program, View
from xg.ir.graph import Call


def views(program: Program) -> Iterator[View]:
    """The figures of a block: an overview too where it calls others, or runs on ranks."""
    yield "forward"
    if program.graphs.backwards[program.graphs.entry].steps:
        yield "backward"
    calls = any(isinstance(step, Call) for step in program.graphs.main.steps)
    if calls or program.distributed is not None:
        yield "overview"
