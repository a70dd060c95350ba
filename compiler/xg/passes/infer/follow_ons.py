"""Errors that only repeat that a call leaves a size open: in steps behind what it makes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from xg.diagnostics.diagnostic import Problem, ProblemAt
from xg.diagnostics.source import Span
from xg.ir.graph import Call, Graph, Program, Value
from xg.passes.infer.errors import OpenSize, OpenTwice


def behind_open_sizes(
    program: Program, opened: Collection[OpenSize | OpenTwice], problems: Iterable[Problem]
) -> Iterator[Problem]:
    """Those of some problems that follow from a size that a call has left open."""
    if opened:
        spans = {s for graph in program.graphs.values() for s in _behind(program, graph, opened)}
        yield from (each for each in problems if isinstance(each, ProblemAt) and each.span in spans)


def _behind(
    program: Program, graph: Graph, opened: Iterable[OpenSize | OpenTwice]
) -> Iterator[Span]:
    """The places of steps and labels behind results that have an open size."""
    names = {(each.span, each.symbol) for each in opened}
    unknown: set[Value] = set()
    for step in graph.steps:
        if unknown.intersection(step.inputs):
            unknown.update(step.outputs)
            yield step.span
        elif isinstance(step, Call):
            types = program.graphs[step.callee].output_types
            unknown.update(
                value
                for value, made in zip(step.outputs, types, strict=False)
                if any((step.span, name) in names for dim in made.shape for name in dim.symbols())
            )
    yield from (span for value, _, span in graph.claims if value in unknown)
