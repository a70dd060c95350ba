"""Errors in the placement of tensors on a mesh (XG08xx)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, ProblemAt, Span
from xg.diagnostics.limits import spell_count
from xg.ir.collectives import MOVES
from xg.ir.dim import Dim, product
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg.ir.moves import inputs_again, steps_again
from xg.ir.placement import (
    CONSTANT,
    FAMILY,
    INVARIANT,
    PARTIAL,
    REPLICATED,
    AxisState,
    Collective,
    axes_over,
    axis_of,
    local_shape,
    shard,
)
from xg.ir.tensor import spell_shape
from xg.ir.walk import gathered_params, moving
from xg.passes.shard.resharding import TRIED_AT_MOST, RefusedOperator, free_ways, repeated
from xg.sharding.primitive_rules import IllTyped, type_body

_SUM: Final = MOVES["P", "I"]

# The consequences of taking the labels of a block at their word.


def first_sum(value: Value, state: AxisState, graph: Graph, axis: str) -> Value | None:
    """The first value made of `value` that would be a partial sum over `axis`, if that is `state`.

    A labeled value has the placement of its label, later ones follow from their operators, and the
    rest is replicated. None where no sum follows.
    """
    states, behind = {value: state}, {value}

    def operand_state(operand: Value) -> AxisState:
        request = graph.placement_requests.get(operand, {}).get(axis)
        if request and request.rest.kind == "S":
            return request.rest
        whole = REPLICATED if graph.types[operand].is_float else CONSTANT
        return states.get(operand, whole)

    for step in graph.steps:
        if not isinstance(step, Apply) or step.op.family == FAMILY:
            continue
        body = step.body(graph.types)
        try:
            typing = type_body(body, [operand_state(operand) for operand in step.inputs], axis)
        except IllTyped:
            continue
        states.update(zip(step.outputs, map(typing.of, body.outputs), strict=True))
        if behind.intersection(step.inputs):
            behind.update(step.outputs)
            if states[step.outputs[0]] == PARTIAL:
                return step.outputs[0]
    return None


class AgainOfInput(ProblemAt):
    """An input that no caller can make again for the backward pass of its block."""

    code = "XG0814"
    title = "{name}, an input of {block}, cannot be recomputed"
    label = "{why}"
    fix = "write `again` for an edge inside the block, or for a call: layers again"
    name: str
    block: str
    why: str


def refuse_again(program: IRProgram, *, is_compiled: bool) -> Iterator[AgainOfInput]:
    """Yield the inputs that a plan recomputes although no call can.

    For an input of the program itself, the line has no effect. A line may have an effect with other
    options or in another product, so it is only refused if the program `is_compiled` as it is.
    """
    calls: dict[str, list[tuple[Call, Graph]]] = {}
    for graph in program.graphs.values():
        for call in graph.calls:
            calls.setdefault(call.callee, []).append((call, graph))
    found: dict[str, list[tuple[str, str | None]]] = {}
    for key, graph in program.graphs.items():
        for value in inputs_again(graph) if key in calls else ():
            if any(call.rounds for call, _ in calls[key]):
                why = "its block runs in rounds, which keep their inputs"
                yield from _again_of_input(program, str(value.name), graph.block, why)
            elif is_compiled:
                why = _why_not_again(graph.inputs.index(value), calls[key])
                found.setdefault(str(value.name), []).append((graph.block, why))
    for name, reasons in found.items():
        block, why = reasons[0]
        if why and all(other for _, other in reasons):
            yield from _again_of_input(program, name, block, why)


def _again_of_input(program: IRProgram, name: str, block: str, why: str) -> Iterator[AgainOfInput]:
    entries = program.plan.entries if program.plan else ()
    lines = [each.span for each in entries if each.memory and each.path[-1] == name]
    yield from [AgainOfInput(lines[0], name, block, why)] if lines else []


def _why_not_again(place: int, calls: Sequence[tuple[Call, Graph]]) -> str | None:
    """Say why no call can recompute an operand; None if one can."""
    for call, caller in calls:
        makers = {made: step for step in caller.steps for made in step.outputs}
        if steps_again(call.inputs[place], makers):
            return None
    return "every caller keeps it, as an input, a call's result or a sum over ranks"


class PartialSum(ProblemAt):
    """A partial sum where the whole sum is needed."""

    code = "XG0801"
    title = "{name} is a partial sum over {axis}: {what}"
    label = "needs the whole sum"
    fix = "put AR({axis}) before it (ring cost {cost} elements per rank)"
    name: str
    axis: str
    what: str
    cost: str


class NothingAround(ProblemAt):
    """Ring attention with keys that are not sharded along the sequence."""

    code = "XG0808"
    title = "{name} cannot go round {axis}: every rank has all of it"
    label = "not cut over {axis}"
    fix = "divide the sequence, for example `ids, t [B, S/{axis}]`, or remove `ring`"
    name: str
    axis: str


class ParameterInZigzag(ProblemAt):
    """A parameter that is cut over a mesh axis whose ranks have two chunks each."""

    code = "XG0810"
    title = "{axis} cannot cut the parameter {name}: in zigzag, each rank has two chunks"
    label = "cut over {axis}"
    fix = "cut it over another mesh axis: a checkpoint has one piece of a parameter for each rank"
    name: str
    axis: str


class RowsOfTwo(ProblemAt):
    """Queries that two mesh axes cut along the sequence, where keys go round one of them."""

    code = "XG0811"
    title = "{name} is cut along the sequence over {axis}, but keys go round {around}"
    label = "cut over {axis}"
    fix = "cut another axis over {axis}: only {around} can cut the sequence"
    name: str
    axis: str
    around: str


def refuse_ring(
    around: str, queries: tuple[Value, AxisState], keys: tuple[Value, AxisState], axis: str
) -> list[Problem]:
    """The problem of keys that go round and are not cut along the sequence on this mesh axis.

    And of queries that are cut so over another one.
    """
    (query, rows), (key, state) = queries, keys
    if axis not in axes_over(around):
        named = str(query.name), axis, axis_of(around)
        return [RowsOfTwo(query.span, *named)] if rows == shard(-2) else []
    return [] if state == shard(-2) else [NothingAround(key.span, str(key.name), axis)]


class CutApart(ProblemAt):
    """Operands whose shards do not fit together."""

    code = "XG0802"
    glyph: str
    axis: str
    reason: str
    operands: tuple[tuple[Span, str], ...]
    help: tuple[str, ...]
    combinations: int = 1  # of placements of its operands

    def diagnostic(self) -> Diagnostic:
        others = (Label(span, text, primary=False) for span, text in self.operands)
        return self.report(
            f"{self.glyph} cannot be computed in parts over {self.axis}: {self.reason}",
            Label(self.span, "here"),
            *others,
            notes=self._notes(),
            help=self.help,
        )

    def _notes(self) -> tuple[str, ...]:
        if self.combinations <= TRIED_AT_MOST:
            return ()
        return (
            f"of {spell_count(self.combinations)} ways to place its operands, xg tried the "
            f"{TRIED_AT_MOST:,} cheapest, and those that place all operands the same way",
        )


class NothingToMove(ProblemAt):
    """A collective on a tensor that is not placed as it expects."""

    code = "XG0803"
    title = "{collective} takes {wanted}"
    label = "this is {found}"
    collective: str
    wanted: str
    found: str
    help: str


class NotSettled(ProblemAt):
    """An output of the program that differs between ranks."""

    code = "XG0804"
    title = "{name} leaves the program as {found}"
    label = "over {axis}"
    name: str
    axis: str
    found: str
    help: str


class LoopOnRanks(ProblemAt):
    """A call over an axis that a plan cuts."""

    code = "XG0806"
    title = "{block} loops over {length}, which {axis} cuts: rounds must run in order"
    label = "one round after the other"
    fix = "divide another axis, such as the batch"
    block: str
    length: str
    axis: str


class RoundSends(ProblemAt):
    """Communication in each round of a loop."""

    code = "XG0812"
    title = "each round of {block} would send over {axis}: {names}"
    label = "sent here, or its gradient"
    block: str
    names: str
    axis: str
    is_made: bool  # something that rounds make, or are given, is sent, and not parameters alone
    is_divided: bool  # rounds are given parts of the batch

    def helps(self) -> tuple[str, ...]:
        if not self.is_made:
            return (
                "pass the parameter to the loop by an arrow: it is then sent once for all rounds",
            )
        if self.is_divided:
            return (f"do not cut the inputs of the loop over {self.axis}: then nothing is sent",)
        alone = "if each round only needs its rank's part, nothing is sent"
        return (f"divide the batch: {alone}",)


class CutElsewhere(ProblemAt):
    """A label with another placement than the edge has."""

    code = "XG0805"
    title = "{name} is cut along {found} by {axis}, but its label says {written}"
    label = "expected {shape}"
    name: str
    axis: str
    found: str
    written: str
    shape: str
    price: str  # of the sum that the label's cut would need, where there is one

    def helps(self) -> tuple[str, ...]:
        taken = f"with {self.written} cut, a sum over it would be partial and need an AR"
        return (f"write {self.shape}: that sends nothing", taken + self.price)


class CutFromOutside(ProblemAt):
    """A move over one mesh axis along an axis that another has cut inside of it."""

    code = "XG0807"
    title = "{name} is cut along {dim} by {inner}: {outer} cannot {verb} it too"
    label = "needs other parts of it"
    notes = (
        "{outer} is before {inner} in the mesh: if both cut an axis, {inner} cuts parts of {outer}"
    )
    name: str
    dim: str
    outer: str
    inner: str
    verb: str
    help: tuple[str, ...]


# ---- from what was found ------------------------------------------------------------------------


def refuse(error: IllTyped, refused: RefusedOperator, graph: Graph, axis: str) -> Problem:
    """Why an operator cannot be placed, in the words of the file."""
    step, inputs, states = refused.step, refused.inputs, refused.states
    if refused.summed:
        value = inputs[refused.summed[0]]
        what = _of_partial(step, value, inputs, graph, axis)
        cost = ring_cost(_SUM, product(graph.shape(value)), axis)
        return PartialSum(step.span, _name(value), axis, what, cost)
    places = tuple(
        (value.span, f"{_name(value)} {describe(state, value, graph, axis)}")
        for value, state in zip(inputs, states, strict=True)
        if value.span != step.span
    )
    ways = free_ways(error, refused, graph.sizes)
    free = tuple(f"{way}: that sends nothing" for way in ways)
    advice = tuple(_settle(inputs[place], graph, axis) for place in refused.settled)
    advice = advice or tuple(_gather(refused, place, graph, axis) for place in refused.gathered)
    help, count = (*free, *advice)[:2], refused.combinations
    return CutApart(step.span, step.op.glyph, axis, error.reason, places, help, count)


def refuse_move(
    value: Value,
    state: AxisState,
    target: AxisState | None,
    graph: Graph,
    axis: str,
    span: Span,
    record: Collective | None = None,
) -> Problem:
    """Why a collective, or a label that would need one, is wrong here."""
    state_text = describe(state, value, graph, axis)
    if record is None and state.kind == "S" and target and target.kind == "S":
        shape = graph.shape(value)
        names = [str(shape[cut.axis]) for cut in (state, target)]
        cut = spell_shape(graph.sizes.fold_shape(local_shape(shape, state, axis)))
        price = _price_at_its_word(value, target, graph, axis)
        return CutElsewhere(span, _name(value), axis, names[0], names[1], cut, price)
    if record is None:
        expected = "a collective in a block that names its collectives"
        needed = MOVES[state.kind, (target or INVARIANT).kind]
        advice = f"write {needed.glyph}({axis}) where it belongs"
        return NothingToMove(span, "this label", expected, state_text, advice)
    why = "would count it once more" if record.sums else "has all of it"
    costs = _costs(record, value, graph, axis)
    advice = f"remove {record.glyph} {costs}: every rank {why}"
    if state.kind in "SP":
        other = MOVES[state.kind, "I"]
        costs = _costs(other, value, graph, axis)
        advice = f"{other.glyph}({axis}) makes it whole {costs}"
    return NothingToMove(span, f"{record.glyph}({axis})", record.needs, state_text, advice)


def refuse_crossing(
    step: Apply, value: Value, state: AxisState, graph: Graph, axis: str
) -> Problem:
    """Why a move over an outer mesh axis cannot pass a cut by this one."""
    outer, shape = step.attrs["over"], graph.shape(value)
    source, target = step.attrs["source"], step.attrs["target"]

    def line(*cuts: tuple[AxisState, str]) -> str:
        own = shape
        for cut, over in cuts:
            own = local_shape(own, cut, over)
        return f"{_name(value)} {spell_shape(graph.sizes.fold_shape(own))}"

    as_made = f"keep it as computed: {line((source, outer), (state, axis))}"
    by_both = f"cut it by both: {line((target, outer), (state, axis))}"
    by_one = f"do not cut it by {axis}: {line((source, outer))}"
    ways = (as_made,) if source.kind == "S" else (by_both, by_one)
    if not value.name:
        ways = ("cut another axis of it, or cut it by one of the two",)
    verb = "join" if target != state else "cut"
    return CutFromOutside(step.span, _name(value), str(shape[state.axis]), outer, axis, verb, ways)


def refuse_output(value: Value, state: AxisState, graph: Graph, axis: str) -> Problem:
    """Why an output cannot leave."""
    cause = "a partial sum"
    advice = f"{_SUM.glyph}({axis}) makes it whole {_costs(_SUM, value, graph, axis)}"
    if state.kind == "R":
        cause = "a gathered value that each rank uses for itself"
        advice = f"cut an input by {axis} too, such as its rows, or do not cut what is gathered"
    return NotSettled(value.span, _name(value), axis, cause, advice)


def describe(state: AxisState, value: Value, graph: Graph, axis: str) -> str:
    """``is cut along S``; the words of a diagnosis."""
    if state.kind == "S":
        return f"cut along {graph.shape(value)[state.axis]} by {axis}"
    if state.kind == "P":
        return f"a partial sum over {axis}"
    return f"the same on every rank of {axis}"


def ring_cost(record: Collective, size: Dim, axis: str) -> str:
    """Spell the elements that a rank sends as the file would: ``2(N_T-1)/N_T · B·S·D``."""
    rounds = str(record.price.times) if record.price and record.price.times > 1 else ""
    elements = str(size).replace("*", "·")
    whole = elements if len(size.terms) < 2 else f"({elements})"
    return f"{rounds}({axis}-1)/{axis} · {whole}"


def _costs(record: Collective, value: Value, graph: Graph, axis: str) -> str:
    cost = ring_cost(record, product(graph.shape(value)), axis)
    return f"(ring cost {cost} elements per rank)"


def _name(value: Value) -> str:
    return value.name or "its operand"


def _of_partial(step: Apply, value: Value, inputs: Sequence[Value], graph: Graph, axis: str) -> str:
    others = [other for other in inputs if other is not value]
    if step.op.family == "add" and others:
        other = _laid_out(others[0], graph).name or "the other operand"
        return f"adding {other} here would add it {axis} times"
    return f"{step.op.glyph} needs the sum, not one rank's term"


def _laid_out(value: Value, graph: Graph) -> Value:
    """Return the value that an unnamed one only repeats or transposes: the bias before its BC."""
    makers = {step.outputs[0]: step for step in graph.steps if isinstance(step, Apply)}
    while value.name is None and value in makers and makers[value].op.family == "layout":
        value = makers[value].inputs[0]
    return value


def _settle(value: Value, graph: Graph, axis: str) -> str:
    """How a file says that a partial sum is to be summed: in a line of its plan."""
    summed = repeated(value, graph)
    whole = spell_shape(graph.sizes.fold_shape(graph.shape(summed)))
    costs = _costs(_SUM, summed, graph, axis)
    if summed.name:
        return f"sum {summed.name} by a line of the plan: {summed.name} {whole} {costs}"
    steps = (step for step in graph.steps if isinstance(step, Apply) and summed in step.inputs)
    place = "its operand" if summed == value else f"the edge before {next(steps).op.glyph}"
    return f"name {place} by a label, and sum it by a line of the plan: {whole} {costs}"


def _gather(refused: RefusedOperator, place: int, graph: Graph, axis: str) -> str:
    """How a file says that an operand is to be gathered: in the block, or in a line of its plan."""
    value, state = refused.inputs[place], refused.states[place]
    name, costs = _name(value), _costs(MOVES["S", "I"], value, graph, axis)
    if refused.in_block:
        return f"gather {name} with AG({axis}) {costs}"
    shape = graph.shape(value)
    whole = spell_shape(graph.sizes.fold_shape(shape))
    if value.role == "param":
        cut = spell_shape(graph.sizes.fold_shape(local_shape(shape, state, axis)))
        return f"gather {name} where it is used: {name} {cut} -> {whole} {costs}"
    if any(carry.past == value for carry in graph.carries):
        given = "it is cut like the inputs of its rounds, so do not cut these"
        return f"no line of a plan places the state {name}: {given}"
    line = "in its line" if graph.placement_requests.get(value, {}).get(axis) else "by a line"
    if value.role == "input":
        return f"take {name} whole, {line} of the plan: {name} {whole} {costs}"
    if value.name:
        return f"gather {name} {line} of the plan: {name} {whole} {costs}"
    return f"name its operand by a label, and gather it by a line of the plan: {whole} {costs}"


def _price_at_its_word(value: Value, target: AxisState, graph: Graph, axis: str) -> str:
    """The cost of the first sum that a label's cut would leave in parts, if there is one."""
    total = first_sum(value, target, graph, axis)
    if total is None:
        return ""
    size, own = product(graph.shape(total)), product(graph.shape(value))
    times = str(size / own).replace("*", "·")
    whole = spell_shape(graph.sizes.fold_shape(graph.shape(total)))
    cost = ring_cost(_SUM, size, axis)
    return (
        f" of {whole} (ring cost {cost} elements per rank: {times} times an AR of {_name(value)})"
    )


def refuse_chunks(graph: Graph, zigzag: Collection[str]) -> list[Problem]:
    """The parameters of a graph that a mesh axis cuts whose ranks are in zigzag."""
    return [
        ParameterInZigzag(param.value.span, str(param.value.name), axis)
        for param in graph.params
        for axis, state in graph.placements.get(param.value, {}).items()
        if state.kind == "S" and axis in zigzag
    ]


# Running statistics that ranks would not move as one device does (XG08xx).


class GatheredStatistic(ProblemAt):
    """A running statistic that ranks keep in parts and gather for its use."""

    code = "XG0809"
    title = "the running statistic {name} is gathered, but each rank would update only its part"
    label = "read here"
    fix = "leave it whole on every rank: a line `{name} {shape}` of a plan of {block}"
    name: str
    shape: str
    block: str


class StatisticApart(ProblemAt):
    """A running statistic that is not placed as the mean or variance that updates it."""

    code = "XG0813"
    title = "the running statistic {name} is {held}, but its update is {found}"
    label = "updated here"
    fix = "place it like the channels: a line `{name} {found}` of a plan of {block}"
    name: str
    held: str
    found: str
    block: str


def refuse_statistics(graph: Graph) -> Iterator[Problem]:
    """The running statistics of a graph that are gathered, or placed otherwise than their goal."""
    for param, step in gathered_params(graph):
        whole = spell_shape(graph.sizes.fold_shape(graph.shape(param)))
        yield GatheredStatistic(step.span, str(param.name), whole, graph.block)
    for each in moving(graph):
        held, found = _part(each.param, graph), _part(each.target, graph)
        if held != found:
            yield StatisticApart(each.target.span, str(each.param.name), held, found, graph.block)


def _part(value: Value, graph: Graph) -> str:
    """The shape of what a rank has of a value."""
    shape = graph.shape(value)
    for axis, state in graph.placements.get(value, {}).items():
        shape = local_shape(shape, state, axis)
    return spell_shape(graph.sizes.fold_shape(shape))
