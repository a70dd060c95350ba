"""Calls on one mesh axis: what is asked of a callee, and what became of it.

A placer asks by yielding a `CallRequest` and is sent the `PlacedCall`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TypeVar

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Apply, Call, Graph, IRProgram, Loop, Value
from xg.ir.placement import (
    CONSTANT,
    FAMILY,
    INVARIANT,
    PARTIAL,
    REPLICATED,
    AxisState,
    PlacementRequest,
    serves,
    shard,
)
from xg.ir.walk import reachable_keys
from xg.passes.shard.errors import LoopOnRanks, RoundSends
from xg.passes.shard.resharding import Question


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
    def caller_view(self) -> tuple[object, ...]:
        """All that a caller heeds."""
        return self.outputs, self.casts, self.within


Requests = TypeVar("Requests")


def behind(
    moved: Mapping[Value, tuple[Value, ...]], requests: Mapping[Value, Requests]
) -> dict[Value, Requests]:
    """Carry placement requests over from moved values to the values that replace them."""
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


# Calls over an axis on one mesh axis: rounds take and leave parts, and send nothing.


def in_round(state: AxisState, axis: int | None) -> AxisState:
    """The state of a position along an axis, of what is cut along another one."""
    if axis is None or state.kind != "S":
        return state
    assert state.axis != axis
    return shard(state.axis + 1) if state.axis < axis else state


def in_all_rounds(state: AxisState, axis: int | None) -> AxisState:
    """The state of what rounds stack along an axis, from the state in which each leaves it."""
    if axis is None or state.kind != "S":
        return state
    return shard(state.axis - 1) if state.axis <= axis else state


def taken_along(call: Call, callee: Graph) -> tuple[int | None, ...]:
    """The axis by which each operand of a call is taken apart."""
    return call.loop.inputs if call.loop else (None,) * len(callee.inputs)


def stacked_along(call: Call, callee: Graph) -> tuple[int | None, ...]:
    """The axis along which each result of a call is stacked."""
    return call.loop.outputs if call.loop else (None,) * len(callee.outputs)


def requested_states(call: Call, callee: Graph, axis: str) -> list[AxisState | None]:
    """The states in which a callee requests the operands of a call."""
    asked = zip(entering(callee, axis), taken_along(call, callee), strict=True)
    return [state and in_all_rounds(state, along) for state, along in asked]


def place_call(
    call: Call,
    callee: Graph,
    graph: Graph,
    states: Sequence[AxisState],
    shared: frozenset[int],
    axis: str,
) -> Placing:
    """A call with its operands in these states; `shared` are those that others read too."""
    if call.loop:
        _refuse_cut(call, call.loop, callee, graph, states, axis)
        return (yield from _place_loop(call.loop, callee, states))
    if call.count is None:
        return (yield from place_once(callee, states, shared))
    return (yield from place_row(callee, states))


def _refuse_cut(
    call: Call, loop: Loop, callee: Graph, graph: Graph, states: Sequence[AxisState], axis: str
) -> None:
    """Refuse operands whose rounds are on several ranks; raises DiagnosticError."""
    for state, along in zip(states, loop.inputs, strict=True):
        if state.kind == "S" and state.axis == along:
            length = str(graph.sizes.fold(loop.length))
            raise DiagnosticError.of(LoopOnRanks(call.span, callee.block, length, axis))


def _place_loop(loop: Loop, callee: Graph, states: Sequence[AxisState]) -> Placing:
    """A call over an axis: what goes round must come out as it went in.

    Operands that every round casts, also in what it calls, come in cast, so that one sum of their
    gradients serves all.
    """
    inputs = tuple(map(in_round, states, loop.inputs))
    fixed, kept = len(inputs) - loop.states, len(callee.outputs) - loop.states
    leaving: tuple[AxisState | None, ...] = (None,) * len(callee.outputs)
    while True:
        placed = yield CallRequest(callee.key, inputs, leaving)
        pairs = zip(inputs[fixed:], placed.outputs[kept:], strict=True)
        states = tuple(_going_round(found, left) for found, left in pairs)
        now = (*cast_where(inputs, placed.within & {*range(fixed)})[:fixed], *states)
        settled = now == inputs
        if settled and all(map(serves, placed.outputs[kept:], states)):
            return placed
        # Every state can become S or R. An I or C may still become R when other states change,
        # and nothing brings R back, so it is prescribed only after all have settled.
        asked = (state if settled or state.kind in "SR" else None for state in states)
        before = inputs, leaving
        inputs, leaving = now, (*leaving[:kept], *asked)
        assert (inputs, leaving) != before, f"no states of {callee.block} settle over {loop.length}"


def _going_round(found: AxisState, left: AxisState) -> AxisState:
    """Choose the state of what goes round, from those in which a round found it and left it.

    One that begins at a number has no gradient there, and one in each later round, unless no
    operand changes it, as a count of rounds. One that is computed once in meaning is cast before
    the first round if a round leaves what each rank uses.
    """
    if found == CONSTANT and left == PARTIAL:
        return INVARIANT
    if left.kind == "S" or serves(found, left) or (found == INVARIANT and left == REPLICATED):
        return left
    return found


def refuse_sends(program: IRProgram) -> Iterator[Problem]:
    """Yield what blocks send in rounds of loops, in one of both passes: an error for each block."""
    calls = (call for graph in program.graphs.values() for call in graph.calls if call.loop)
    keys = dict.fromkeys(
        key for call in calls for key in reachable_keys(program.graphs, call.callee)
    )
    for callee in map(program.graphs.__getitem__, keys):
        sent: dict[str, list[Apply]] = {}
        for step in callee.steps:
            if isinstance(step, Apply) and _sends(step):
                sent.setdefault(str(step.attrs["over"]), []).append(step)
        for axis, steps in sent.items():
            values = dict.fromkeys(_sent(step.inputs[0], callee) for step in steps)
            names = dict.fromkeys(value.name or "a value" for value in values)
            told = steps[0].span, callee.block, ", ".join(names), axis
            is_made = any(value.role != "param" for value in values)
            yield RoundSends(*told, is_made, _has_parts(callee, axis))


def _sends(step: Apply) -> bool:
    """Whether a move or its transpose sends something: of what all hold each takes a part."""
    return step.op.family == FAMILY and step.attrs.get("source") not in (CONSTANT, REPLICATED)


def _has_parts(callee: Graph, axis: str) -> bool:
    """Whether ranks of a mesh axis have parts of what a round is given, along its first axis."""
    shapes = [(callee.shape(port), callee.placements.get(port, {})) for port in callee.inputs]
    return any(placed.get(axis) == shard(-len(shape)) for shape, placed in shapes if len(shape) > 1)


def _sent(value: Value, graph: Graph) -> Value:
    """The value that a file has a name for: that, or the first that an unnamed one is of."""
    makers = {out: step for step in graph.steps for out in step.outputs}
    while value.name is None and isinstance(made := makers.get(value), Apply) and made.inputs:
        value = made.inputs[0]
    return value
