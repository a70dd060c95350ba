"""Calls on one mesh axis: what is asked of a callee, and what became of it.

A placer asks by yielding a `CallRequest` and is sent the `PlacedCall`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TypeVar

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Graph, Value
from xg.ir.placement import CONSTANT, INVARIANT, PARTIAL, REPLICATED, AxisState, PlacementRequest
from xg.passes.shard.divisions import Question


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A graph with the states of its inputs, and of the outputs that are prescribed.

    An input of the program (`is_entry`) must leave whole.
    """

    key: str
    inputs: tuple[AxisState, ...]
    leaving: tuple[AxisState | None, ...]
    is_entry: bool = False


@dataclass(frozen=True, slots=True)
class PlacedCall:
    """The result of a request. `casts` are the inputs that are cast before any use.

    Those in `within` are too, some of them in the calls that take them and nowhere else.
    `moved` maps values to those behind their moves, or in their place; `divided` is all that was
    asked about numbers, with the answers; `core` is the graph's, if it has one.
    """

    request: CallRequest
    graph: Graph
    outputs: tuple[AxisState, ...]
    casts: frozenset[int]
    within: frozenset[int]
    moved: Mapping[Value, tuple[Value, ...]]
    divided: Mapping[Question, tuple[int, ...]]
    core: int | None = None

    @property
    def seen(self) -> tuple[object, ...]:
        """All that a caller heeds."""
        return self.outputs, self.casts, self.within


Requests = TypeVar("Requests")


def behind(
    moved: Mapping[Value, tuple[Value, ...]], requests: Mapping[Value, Requests]
) -> dict[Value, Requests]:
    """The requests that other mesh axes have yet to heed, of a moved value behind its moves."""
    return {now: each for value, each in requests.items() for now in moved.get(value, (value,))}


Placing = Generator[CallRequest, PlacedCall, PlacedCall]


def entering(callee: Graph, axis: str) -> tuple[AxisState | None, ...]:
    """The states in which a callee requests its inputs."""
    placement_requests = [
        callee.placement_requests.get(port, {}).get(axis) for port in callee.inputs
    ]
    return tuple(request.rest if request else None for request in placement_requests)


def arriving(
    state: AxisState, request: PlacementRequest | None, wanted: AxisState | None
) -> AxisState:
    """The state of an operand for a call that asks for `wanted`."""
    if request and request.use is not None and request.rest == state:
        state = REPLICATED if request.use == INVARIANT and state.kind == "S" else request.use
    if wanted is not None and wanted.kind == "S":
        return wanted
    if wanted == INVARIANT and state.kind == "S":
        return REPLICATED
    return INVARIANT if state == PARTIAL else state


def place_once(callee: Graph, states: Sequence[AxisState], shared: frozenset[int]) -> Placing:
    """One call: of the operands that it casts, those that others read too come in cast."""
    leaving: tuple[AxisState | None, ...] = (None,) * len(callee.outputs)
    placed = yield CallRequest(callee.key, tuple(states), leaving)
    if placed.casts & shared:
        placed = yield CallRequest(callee.key, cast_where(states, placed.casts & shared), leaving)
    return placed


def place_row(callee: Graph, states: Sequence[AxisState]) -> Placing:
    """A row of calls: what goes round must come out as it went in.

    It may begin at a number, which has no gradient; later rounds find what the first one left.
    """
    placed = yield CallRequest(callee.key, tuple(states), (None,))
    first, *others = cast_where(states, placed.casts - {0})
    (leaving,) = placed.outputs
    if first == CONSTANT and leaving == PARTIAL:
        first = INVARIANT
    elif leaving.kind == "S" or (leaving == REPLICATED and first == INVARIANT) or first == CONSTANT:
        first = leaving
    inputs = (first, *others)
    if placed.outputs == (first,) and placed.request.inputs == inputs:
        return placed
    return (yield CallRequest(callee.key, inputs, (first,)))


def cast_where(states: Sequence[AxisState], places: frozenset[int]) -> tuple[AxisState, ...]:
    """Inputs that every use casts come in cast: one sum of their gradient serves all calls."""
    return tuple(
        REPLICATED if place in places and state == INVARIANT else state
        for place, state in enumerate(states)
    )
