"""Operands that have an axis of a port's name at another place, as [B, C, H, W] for [B, H, W, C].

A port's names are its own, and its axes are bound by their places: such a call is no error. It is
meant where a reordering is written in front of it, as a mixer has; else it may be a slip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.frontend.errors import ExchangedAxes
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Call, Graph, Program, Value
from xg.ir.loop import meant_axis
from xg.ir.tensor import spell_shape

ORDERING: Final = frozenset({"transpose", "reshape"})
REST: Final = ".."


@dataclass(frozen=True, slots=True)
class _NamedPort:
    """A port by its name, those of its axes (None where one has none), and what arrives there."""

    name: str
    axes: tuple[str | None, ...]
    value: Value
    along: int | None = None  # the axis, counted from the end, that a loop takes apart


def exchanged_axes(program: Program) -> Iterator[ExchangedAxes]:
    """A warning for each port of a program whose axes an operand has in another order."""
    for graph in program.graphs.values():
        makers = {out: step for step in graph.steps for out in step.outputs}
        for step in graph.steps:
            taker = step.op.glyph if isinstance(step, Apply) else program.callee(step).block
            for port in _ports(program, step):
                made = makers.get(port.value)
                if isinstance(made, Apply) and made.op.name in ORDERING:
                    continue
                shape, over = _arriving(graph, port), _meant(graph, port)
                if apart := _exchanged(port.axes, shape, over):
                    axes, found = _listed(port.axes), spell_shape(shape)
                    whole = port.along is None and {*port.axes} == {dim.name for dim in shape}
                    told = taker, port.name, axes, found, apart, whole, over
                    yield ExchangedAxes(step.span, *told)


def _ports(program: Program, step: Apply | Call) -> Iterator[_NamedPort]:
    """The ports of a step that name their axes."""
    if isinstance(step, Apply):
        for data, value in zip(step.op.data, step.inputs, strict=False):
            if data.axes:
                yield _NamedPort(data.name, data.axes, value)
        return
    loops = step.loop.inputs if step.loop else (None,) * len(step.inputs)
    ports = program.callee(step).inputs
    given = ports[: len(ports) - (step.loop.states if step.loop else 0)]
    for port, value, along in zip(given, step.inputs, loops, strict=False):
        if port.declared is not None:
            axes = tuple(dim.name for dim in port.declared.shape)
            yield _NamedPort(port.name or "", axes, value, along)


def _arriving(graph: Graph, port: _NamedPort) -> tuple[Dim, ...]:
    """The shape that arrives at a port, in the symbols of the text."""
    shape = [graph.sizes.fold(dim) for dim in graph.types[port.value].shape]
    if port.along is not None:
        del shape[port.along]
    return tuple(shape)


def _meant(graph: Graph, port: _NamedPort) -> str:
    """The axis that a loop was likely meant to go over, where it goes over one of the port's."""
    if port.along is None:
        return ""
    shape = [graph.sizes.fold(dim) for dim in graph.types[port.value].shape]
    return str(meant_axis(port.axes, shape, port.along) or "")


def _exchanged(axes: Sequence[str | None], shape: Sequence[Dim], over: str) -> str:
    """The names of a port that the operand has at another place, and what it has at theirs.

    Of a loop that was likely meant to go `over` another axis all names that differ.
    """
    there = {dim.name for dim in shape}
    named = [axis for axis in axes if axis != REST]
    apart = [
        f"its {axis} is {dim}"
        for axis, dim in zip(named, shape[len(shape) - len(named) :], strict=True)
        if axis is not None and axis != dim.name and (over or axis in there)
    ]
    return ", ".join(apart)


def _listed(axes: Sequence[str | None]) -> str:
    return f"[{', '.join(axis or '_' for axis in axes)}]"
