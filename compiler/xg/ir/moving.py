"""Parameters that training moves without a gradient: running statistics."""

from __future__ import annotations

from collections.abc import Iterator

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Graph, Program, Value
from xg.ir.scalar import Scalar
from xg.ir.walk import having


@dataclass(frozen=True, slots=True)
class Moving:
    """A parameter, the cached value that it approaches in each step, and by which share."""

    param: Value
    target: Value
    share: Scalar


def moving(graph: Graph) -> Iterator[Moving]:
    """The parameters that steps of a graph itself move, in order."""
    for step, operands, params in _statistics(graph):
        caches = {value.name: value for value in step.outputs if value.role == "cache"}
        for own, cache in step.op.moves.items():
            if own in operands and operands[own] in params:
                param = params[operands[own]]
                yield Moving(param, caches[cache], step.attrs["momentum"])


def gathered(graph: Graph) -> Iterator[tuple[Value, Apply]]:
    """Parameters that a step would move, if what it reads were not gathered or sent before."""
    makers = {step.outputs[0]: step for step in graph.steps if isinstance(step, Apply)}
    params = set(graph.param_values())
    for step, operands, same in _statistics(graph):
        for value in (operands[own] for own in step.op.moves if own in operands):
            made = value
            while made in makers and makers[made].op.family == FAMILY:
                made = makers[made].inputs[0]
            if made in params and value not in same:
                yield made, step


def moves(program: Program) -> frozenset[str]:
    """The graphs that move parameters, or call one that does."""
    return having(program, lambda graph: any(moving(graph)))


def _statistics(graph: Graph) -> Iterator[tuple[Apply, dict[str, Value], dict[Value, Value]]]:
    """Steps with running statistics, their operands by name, and the parameters of values.

    A cast gives the same numbers on every rank.
    """
    params = {value: value for value in graph.param_values()}
    for step in graph.steps:
        if not isinstance(step, Apply):
            continue
        if step.op.glyph == "cast" and step.inputs[0] in params:
            params[step.outputs[0]] = params[step.inputs[0]]
        if step.op.moves:
            names = step.op.operand_names(step.attrs)
            yield step, dict(zip(names, step.inputs, strict=True)), params
