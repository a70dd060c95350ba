"""One graph on one mesh axis: a state for every value, and the moves that they need.

Operators are typed in order. Where the available states do not fit, operands are resharded, by the
cheapest combination that fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError, Problem, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.collectives import MOVES
from xg.ir.content import needed_steps
from xg.ir.graph import Apply, Call, Graph, Value
from xg.ir.moves import collective
from xg.ir.placement import (
    FAMILY,
    INVARIANT,
    PARTIAL,
    REPLICATED,
    AxisState,
    PlacementRequest,
    shard,
)
from xg.passes.shard.calls import (
    CallRequest,
    PlacedCall,
    Placing,
    arriving,
    behind,
    in_all_rounds,
    place_call,
    requested_states,
    stacked_along,
    taken_along,
)
from xg.passes.shard.errors import refuse, refuse_crossing, refuse_move, refuse_output, refuse_ring
from xg.passes.shard.resharding import (
    FREE,
    Bodies,
    Divisions,
    Moves,
    ReshardOption,
    cheapest_first,
    refusal,
    reshard_options,
)
from xg.sharding.primitive_rules import IllTyped

# The placement that later steps ask of a value: it makes a sum scatter instead of gather.
#
# A request for a sharded edge propagates backwards through elementwise operators as long as every
# use of a value agrees: the sum in front of a bias is then scattered before the bias is added.


ELEMENTWISE: Final = frozenset({"add", "multiply", "nonlinear", FAMILY})


def demands(
    graph: Graph,
    axis: str,
    leaving: Mapping[Value, AxisState],
    entering: Callable[[Call], Sequence[AxisState | None]],
) -> dict[Value, AxisState]:
    """The sharding that all uses of a value ask for; `leaving` is what callers ask of outputs."""
    requests: dict[Value, set[AxisState | None]] = {
        value: {state} for value, state in leaving.items() if state.kind == "S"
    }
    for step in reversed(graph.steps):
        if isinstance(step, Call):
            for value, state in zip(step.inputs, entering(step), strict=True):
                requests.setdefault(value, set()).add(state)
            continue
        output_request = _requested_state(graph, axis, step.outputs[0], requests)
        for value in step.inputs:
            requests.setdefault(value, set()).add(_through(graph, step, value, output_request))
    return {
        value: state
        for value, states in requests.items()
        for state in states
        if len(states) == 1 and state is not None and state.kind == "S"
    }


def _requested_state(
    graph: Graph, axis: str, value: Value, found: Mapping[Value, set[AxisState | None]]
) -> AxisState | None:
    request = graph.placement_requests.get(value, {}).get(axis)
    if request:
        return request.rest
    states = found.get(value, set())
    return next(iter(states)) if len(states) == 1 else None


def _through(graph: Graph, step: Apply, value: Value, wanted: AxisState | None) -> AxisState | None:
    if step.op.family == FAMILY and step.attrs.get("target") == wanted:
        return None  # another mesh axis cuts there: it comes first, being the outer one
    alike = graph.types[value].shape == graph.types[step.outputs[0]].shape
    return wanted if alike and step.op.family in ELEMENTWISE else None


class TornApart(Exception):
    """Raised for a fused step that hides a value that ranks need, such as a sum inside."""

    def __init__(self, parts: tuple[Apply, ...]) -> None:
        super().__init__(parts)
        self.parts = parts


@dataclass(slots=True)
class BlockPlacer:
    """Places one request. Callees are asked for by yielding their request.

    `current` maps a value of the file to its value after moves; `promised` are values that a node
    in the file gathers, created when their use is known; `within` are the operands that called
    graphs cast.
    """

    graph: Graph
    graphs: Mapping[str, Graph]
    request: CallRequest
    axis: str
    divisions: Divisions
    bodies: Bodies
    explicit: bool = field(init=False)
    moves: Moves = field(init=False)
    reads: Counter[Value] = field(init=False)
    requests: dict[Value, PlacementRequest] = field(init=False)
    demand: dict[Value, AxisState] = field(init=False)
    current: dict[Value, Value] = field(default_factory=dict[Value, Value])
    promised: dict[Value, Value] = field(default_factory=dict[Value, Value])
    problems: list[Problem] = field(default_factory=list[Problem])
    within: dict[str, frozenset[int]] = field(default_factory=dict[str, "frozenset[int]"])

    def run(self) -> Placing:
        """The graph with its moves; raises DiagnosticError with what cannot be placed."""
        self._start()
        for step in self.graph.steps:
            if self.problems and any(v not in self.moves.states for v in self._inputs(step)):
                continue  # what it needs was refused
            if isinstance(step, Call):
                yield from self._call(step)
            elif step.op.family == FAMILY and step.attrs["over"] == self.axis:
                self._move(step)
            elif step.op.family == FAMILY:
                self._pass_by(step)
            else:
                self._apply(step)
        outputs = tuple(filter(None, map(self._leave, range(len(self.graph.outputs)))))
        named = [self.current.get(value, value) for _, value in self.graph.aliases]
        # A call may lend its parameters, so it stays.
        _, steps = needed_steps(self.moves.steps, (*outputs, *named), _is_call)
        self.problems += _crossings(self.moves, steps, self.graph)
        if self.problems:
            raise DiagnosticError.of(*dict.fromkeys(self.problems))
        return self._finish(outputs, named, steps)

    def _inputs(self, step: Apply | Call) -> list[Value]:
        return [self.current.get(value, value) for value in step.inputs]

    @property
    def _typed_graph(self) -> Graph:
        """The graph with the types of values that moves have created too, for messages."""
        return replace(self.graph, types=self.moves.types)

    # ---- what comes in, what goes out -----------------------------------------------------------

    def _start(self) -> None:
        graph = self.graph
        self.explicit = _is_explicit(graph)
        self.moves = Moves(
            axis=self.axis,
            divisions=self.divisions,
            types=dict(graph.types),
            elsewhere=dict(graph.placements),
            bodies=self.bodies,
        )
        self.reads = Counter(value for step in graph.steps for value in step.inputs)
        self.requests = {
            value: requests[self.axis]
            for value, requests in graph.placement_requests.items()
            if self.axis in requests
        }
        states = self.moves.states
        states.update(zip(graph.inputs, self.request.inputs, strict=True))
        for value in graph.param_values():
            request = self.requests.get(value)
            states[value] = request.rest if request else self.moves.at_hand(value)
        leaving = {
            value: state
            for value, state in zip(graph.outputs, self.request.leaving, strict=True)
            if state is not None
        }
        self.demand = demands(
            graph,
            self.axis,
            leaving,
            lambda c: requested_states(c, self.graphs[c.callee], self.axis),
        )

    def _leave(self, place: int) -> Value | None:
        """An output in the state in which it may leave."""
        named = self.graph.outputs[place]
        value = self.current.get(named, named)
        if value not in self.moves.states:
            return None
        state, target = self.moves.states[value], self.request.leaving[place]
        request = self.requests.get(value)
        if target is None and request and request.use and request.rest == state:
            target = request.use
        if target is None and self.request.is_entry and state == PARTIAL and not self.explicit:
            target = INVARIANT
        if target is not None:
            return self.moves.reshard(value, target, named.span, self.promised.get(value))
        if self.request.is_entry and state.kind in "PR":
            self.problems.append(refuse_output(named, state, self._typed_graph, self.axis))
        return value

    def _finish(
        self, outputs: tuple[Value, ...], named: Sequence[Value], steps: Sequence[Apply | Call]
    ) -> PlacedCall:
        moves = self.moves
        live = {*self.graph.inputs, *self.graph.param_values()}
        live.update(value for step in steps for value in step.outputs)
        moved: dict[Value, tuple[Value, ...]]
        moved = {value: (now,) for value, now in self.current.items() if now in live}
        for value in self.graph.types.keys() - moved.keys() - live:
            moved[value] = self.moves.made_again(self.current.get(value, value), live)
        graph = replace(
            self.graph,
            steps=tuple(steps),
            outputs=outputs,
            aliases=tuple(zip((name for name, _ in self.graph.aliases), named, strict=True)),
            types={value: type_ for value, type_ in moves.types.items() if value in live},
            placement_requests=behind(moved, self.graph.placement_requests),
            placements={
                value: {**moves.elsewhere.get(value, {}), self.axis: state}
                for value, state in moves.states.items()
                if value in live
            },
        )
        kept = [(p, value) for p, value in enumerate(self.graph.inputs) if value not in outputs]
        casts = frozenset(p for p, value in kept if _is_cast(value, steps, self.axis, {}))
        within = frozenset(p for p, value in kept if _is_cast(value, steps, self.axis, self.within))
        states = tuple(moves.states[value] for value in outputs)
        return PlacedCall(self.request, graph, states, casts, within, moved, moves.divided)

    # ---- operators ------------------------------------------------------------------------------

    def _apply(self, step: Apply) -> None:
        inputs = self._inputs(step)
        first: IllTyped | None = None
        now = [(self.moves.states[value], self.requests.get(value)) for value in inputs]
        for states in cheapest_first(now, lambda: map(self._reshard_options, inputs)):
            try:
                outputs = self.moves.output_states(step, inputs, states)
                break
            except IllTyped as refused:
                first = first or refused.with_traceback(None)
        else:
            assert first
            if step.parts:
                raise TornApart(step.parts)
            options = [self._reshard_options(value) for value in inputs]
            how = refusal(self.moves, step, inputs, options, self.graph, explicit=self.explicit)
            self.problems.append(refuse(first, how, self._typed_graph, self.axis))
            return
        states, outputs = self._own_experts(step, inputs, states, outputs)
        operands = tuple(
            self.moves.reshard(value, state, step.span, self.promised.get(value))
            for value, state in zip(inputs, states, strict=True)
        )
        moved = step if operands == step.inputs else replace(step, inputs=operands)
        self.moves.add(moved, outputs)
        for value in step.outputs:
            self._heed(value, step.span)

    def _own_experts(
        self,
        step: Apply,
        inputs: Sequence[Value],
        states: tuple[AxisState, ...],
        outputs: list[AxisState],
    ) -> tuple[tuple[AxisState, ...], list[AxisState]]:
        """Let each rank send tokens to its own experts, where all ranks have all tokens.

        The gradient of the tokens is then one sum over ranks. The ranks would gather those of all
        places if each took its part of what is sent to all experts.
        """
        request = self.requests.get(step.outputs[0])
        if step.op.glyph != "dispatch" or request is None or request.rest != shard(-3):
            return states, outputs
        if outputs[0] not in (INVARIANT, REPLICATED):
            return states, outputs
        used = tuple(REPLICATED if state == INVARIANT else state for state in states)
        _, *rest = self.moves.output_states(step, inputs, used)
        return used, [request.rest, *rest]

    def _reshard_options(self, value: Value) -> Sequence[ReshardOption]:
        state, cuts = self.moves.states[value], self.moves.cuts(value)
        sends = not self.explicit or value in self.promised
        keeps = not self.explicit and value.role != "param"
        request, demand = self.requests.get(value), self.demand.get(value)
        options = reshard_options(state, cuts, request, demand, sends=sends, keeps=keeps)
        resharded = self.moves.resharded.get(value)
        if not resharded:
            return options
        return [
            ReshardOption(FREE, way.state) if way.state in resharded else way for way in options
        ]

    def _heed(self, value: Value, span: Span) -> None:
        """Bring a value to where a label requests it."""
        request, state = self.requests.get(value), self.moves.states[value]
        if request is None or request.rest == state:
            return
        if state.kind in "RC" and request.rest == INVARIANT:
            return
        if request.rest == INVARIANT and state.kind == "S":
            self.requests[value] = PlacementRequest(state, INVARIANT)  # gathered where it is used
        elif self.explicit and state.kind in "PS":
            graph, rest = self._typed_graph, request.rest
            self.problems.append(refuse_move(value, state, rest, graph, self.axis, span))
        else:
            self.current[value] = self.moves.reshard(value, request.rest, span)

    # ---- moves in the file ----------------------------------------------------------------------

    def _move(self, step: Apply) -> None:
        """Check a collective that the file writes, and give it its source and target."""
        (value,), (result,) = self._inputs(step), step.outputs
        state, request = self.moves.states[value], self.requests.get(result)
        cut = request.rest if request and request.rest.kind == "S" else None
        target, record = cut or INVARIANT, collective(step.op)
        if record is None or MOVES.get((state.kind, target.kind)) != record:
            refused = refuse_move(
                result, state, cut, self._typed_graph, self.axis, step.span, record
            )
            self.problems.append(refused)
        elif record.gathers:
            self.current[result] = alias = self.moves.alias(value)
            self.promised[alias] = result
            self.requests[alias] = PlacementRequest(state, INVARIANT)
        else:
            self.current[result] = self.moves.reshard(value, target, step.span, result)

    def _pass_by(self, step: Apply) -> None:
        """A move on another mesh axis changes nothing on this one."""
        (value,), (result,) = self._inputs(step), step.outputs
        state, request = self.moves.states[value], self.requests.get(value)
        gathered = request and request.use and request.rest == state
        is_cut = MOVES["I", "S"] == collective(step.op) and step.attrs["target"] == state
        if gathered and is_cut:  # not contiguous
            value, state = self.moves.reshard(value, REPLICATED, step.span), REPLICATED
        elif request and gathered:
            self.requests[result] = request  # gathered behind it, where it is used
        self.moves.add(replace(step, inputs=(value,)), [state])
        self._heed(result, step.span)

    # ---- calls ----------------------------------------------------------------------------------

    def _call(self, call: Call) -> Generator[CallRequest, PlacedCall, None]:
        """A call with its operands where the callee requests them."""
        callee, values = self.graphs[call.callee], self._inputs(call)
        asked = map(self.requests.get, values), requested_states(call, callee, self.axis)
        states = list(map(arriving, map(self.moves.states.__getitem__, values), *asked))
        shared = self._shared(call)
        placed = yield from place_call(call, callee, self.graph, states, shared, self.axis)
        found = map(in_all_rounds, placed.request.inputs, taken_along(call, callee))
        inputs = tuple(
            self.moves.reshard(value, state, call.span, self.promised.get(value))
            for value, state in zip(values, found, strict=True)
        )
        self.within[placed.graph.key] = placed.within
        self.moves.steps.append(replace(call, callee=placed.graph.key, inputs=inputs))
        left = map(in_all_rounds, placed.outputs, stacked_along(call, callee))
        for value, state in zip(call.outputs, left, strict=True):
            self.moves.states[value] = state
            self._heed(value, call.span)

    def _shared(self, call: Call) -> frozenset[int]:
        """Return the operands that are read more than once: one cast serves all readers."""
        # Others are cast inside, and their gradients are summed beside what is computed there.
        return frozenset(p for p, value in enumerate(call.inputs) if self.reads[value] > 1)


def _is_explicit(graph: Graph) -> bool:
    """Whether a block names a collective: into such nothing is inserted that sends."""
    moves = [step for step in graph.steps if isinstance(step, Apply) and step.op.family == FAMILY]
    return any(not step.op.derived and "source" not in step.attrs for step in moves)


def _crossings(moves: Moves, steps: Sequence[Apply | Call], graph: Graph) -> Iterator[Problem]:
    """Yield moves over outer mesh axes along an axis that this one cuts: no part is whole.

    And yield attention whose keys are to go round this one, and are not cut by it, or are to go
    round another one, where this one cuts its queries.
    """
    for step in steps:
        if isinstance(step, Apply) and "around" in step.attrs:
            each = [(_before_moves(v, moves), moves.states[v]) for v in step.inputs[:2]]
            yield from refuse_ring(step.attrs["around"], each[0], each[1], moves.axis)
        if isinstance(step, Apply) and _is_move(step) and step.attrs["over"] != moves.axis:
            value = step.inputs[0]
            state = moves.states[value]
            if value.name is None:
                value = _before_moves(value, moves)
            if state.kind == "S" and state in (step.attrs["source"], step.attrs["target"]):
                typed = replace(graph, types=moves.types)
                yield refuse_crossing(step, value, state, typed, moves.axis)


def _before_moves(value: Value, moves: Moves) -> Value:
    """The value that moves made this one from: what the author wrote."""
    while (made := moves.made.get(value)) and _is_move(made):
        value = made.inputs[0]
    return value


def _is_free(step: Apply) -> bool:
    record = collective(step.op)
    return record is not None and record.is_free


def _is_call(step: Apply | Call) -> bool:
    return isinstance(step, Call)


def _is_move(step: Apply) -> bool:
    return step.op.family == FAMILY


def _is_cast(
    value: Value,
    steps: Sequence[Apply | Call],
    axis: str,
    within: Mapping[str, frozenset[int]],
) -> bool:
    """Whether something reads a value, and only a cast over this axis does, or calls that cast."""
    readers = [step for step in steps if value in step.inputs]
    return bool(readers) and all(
        {p for p, each in enumerate(step.inputs) if each == value}
        <= within.get(step.callee, frozenset())
        if isinstance(step, Call)
        else _is_free(step) and step.attrs["over"] == axis
        for step in readers
    )
