"""Recompute policies: what a backward pass need not find saved, and what it computes again.

    save all    everything that a gradient mentions is kept
    selective   the scores of attention, their softmax and its dropout are computed again
    per block   of every call in the block only the inputs are kept; each is run again, one by one

Selective is that of Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
Models", 2022. The policies are numbers of a report; code follows a plan,
which says of values and calls what is computed `again`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xg.cost.communication import Sent, inside_of
from xg.cost.cost import BYTES, Amount, BlockCost, Cost, booleans, bytes_of
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import ONE, ZERO, Dim, DimError, product
from xg.ir.graph import Apply, Call, Graph, Program, Value
from xg.ir.instances import inside


@dataclass(frozen=True, slots=True)
class Policy:
    """The cost of a policy for one rank: bytes at the end of the forward pass, additional FLOPs.

    `at_once` are bytes that come back while one block is run again; `sent` is the communication
    that this repeats.
    """

    name: str
    saved: Dim
    again: Dim = ZERO
    at_once: Dim = ZERO
    sent: tuple[Sent, ...] = ()


def policies(cost: Cost, placed: Program | None = None) -> tuple[Policy, ...]:
    """Every policy that does something for a program; `placed` is it with its moves."""
    choices = [Policy("save all", cost.total.saved)]
    dropped = _selective(cost)
    if dropped.saved != ZERO:
        saved = cost.total.saved - dropped.saved
        choices.append(Policy("selective", saved, dropped.forward))
    calls = cost.program.main.calls
    if calls and cost.total.saved != ZERO:
        choices.append(_per_block(cost, calls, placed))
    return tuple(choices)


# ---- selective -----------------------------------------------------------------------------------


def _selective(cost: Cost) -> Amount:
    """The saved bytes and FLOPs of attention's scores, in all calls."""
    amounts: dict[str, Amount] = {}
    for block in reversed(cost.blocks):  # callees first
        graph = block.graph
        steps = attention_steps(graph)
        amount = sum((row.amount for row in block.rows if row.step in steps), Amount())
        for call in graph.calls:
            callee = cost.program.graphs[call.callee]
            once = amounts[call.callee].substitute(inside(call, graph, callee, {}))
            amount = amount + once.times(call.rounds or ONE)
        expanded = (graph.sizes.expand(dim) for dim in amount.dims())
        amounts[graph.key] = Amount(*expanded)
    return amounts[cost.program.entry]


def attention_steps(graph: Graph) -> frozenset[Apply]:
    """From the product of queries and keys to the one with the values, neither parameter.

    The second is not among them: its result is small.
    """
    applies = [step for step in graph.steps if isinstance(step, Apply)]
    makers = {value: step for step in applies for value in step.outputs}
    readers: dict[Value, list[Apply]] = {}
    for step in applies:
        for value in step.inputs:
            readers.setdefault(value, []).append(step)
    softmaxes = [step for step in applies if step.op.glyph == "S"]
    return frozenset(_scores(softmaxes, makers, graph) | _weights(softmaxes, readers))


def _scores(softmaxes: Iterable[Apply], makers: Mapping[Value, Apply], graph: Graph) -> set[Apply]:
    """The ways from a product of two activations to a softmax; nothing without such a product."""
    params = set(graph.param_values())
    scores: dict[Apply, bool] = {}  # of each step on a way back, whether such a product is there
    for softmax in softmaxes:
        way: list[Apply] = []
        step: Apply | None = softmax
        while step and step not in scores:
            way.append(step)
            if step is not softmax and _multiplies(step, graph):
                scores[step] = not params.intersection(step.inputs)
            else:  # what is added to scores, a mask or a bias, is no score
                step = makers.get(step.inputs[0]) if step.inputs else None
        scores.update(dict.fromkeys(way, bool(step) and scores[step]))
    return {step for step, is_score in scores.items() if is_score}


def _weights(softmaxes: Iterable[Apply], readers: Mapping[Value, Sequence[Apply]]) -> set[Apply]:
    """The steps on weights before they multiply the values: dropouts, in their layouts."""
    applies: set[Apply] = set()
    waiting = [softmax.outputs[0] for softmax in softmaxes]
    while waiting:
        for step in readers.get(waiting.pop(), ()):
            if step.op.glyph in ("DO", "T", "R") and step not in applies:
                applies.add(step)
                waiting.append(step.outputs[0])
    return applies


def _multiplies(step: Apply, graph: Graph) -> bool:
    body = step.body(graph.types)
    return any(expr.prim == "contract" for expr in body.order())


# ---- per block -----------------------------------------------------------------------------------


def _per_block(cost: Cost, calls: Sequence[Call], placed: Program | None) -> Policy:
    """Every call of the entry keeps its inputs, a row those of every round."""
    graph = cost.program.main
    expand = graph.sizes.expand
    blocks = {block.graph.key: block for block in cost.blocks}
    once = [(call, _within(call, graph, blocks[call.callee])) for call in calls]
    rounds = sum((_rounds(call, graph, cost.dtype) for call in calls), ZERO)
    again = sum((amount.forward * (call.rounds or ONE) for call, amount in once), ZERO)
    return Policy(
        "per block",
        expand(_own(cost) + rounds),
        expand(again),
        _largest([expand(amount.saved) for _, amount in once], cost.numbers),
        tuple(_sent_again(cost, calls, placed)) if placed else (),
    )


def _within(call: Call, graph: Graph, callee: BlockCost) -> Amount:
    return callee.total.substitute(inside(call, graph, callee.graph, {}))


def _own(cost: Cost) -> Dim:
    """Bytes of the values of the entry that its own steps need, or its calls take."""
    graph = cost.program.main
    backward = cost.program.backwards[graph.key]
    values = {value: None for value in backward.saved if value.role != "saved"}
    values.update((value, None) for call in graph.calls for value in call.inputs)
    params, masks, width = set(graph.param_values()), booleans(graph), BYTES[cost.dtype]
    held = (bytes_of(value, graph, width, masks) for value in values if value not in params)
    return sum(held, ZERO)


def _rounds(call: Call, graph: Graph, dtype: str) -> Dim:
    """Bytes of what one round passes to the next."""
    if call.rounds is None:
        return ZERO
    states = call.inputs[-call.loop.states :] if call.loop else call.inputs[:1]
    states = () if call.loop and not call.loop.states else states
    sizes = (product(graph.types[value].shape) for value in states)
    return sum(sizes, ZERO) * (call.rounds - 1) * BYTES[dtype]


def _largest(dims: Sequence[Dim], numbers: Mapping[str, int]) -> Dim:
    """The largest by the known numbers; without them the first."""
    try:
        return max(dims, key=lambda dim: dim.evaluate(numbers))
    except (KeyError, DimError):
        return dims[0]


def _sent_again(cost: Cost, calls: Sequence[Call], placed: Program) -> Iterator[Sent]:
    """The communication that running the forward passes of the calls again repeats."""
    graph = placed.main
    for call in graph.calls:
        symbols = inside(call, graph, placed.graphs[call.callee], {})
        count = graph.sizes.expand(call.rounds or ONE)
        for part in inside_of(placed, call.callee, cost.dtype):
            if part.direction == "forward":
                yield part.inside(symbols, count)
