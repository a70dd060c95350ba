"""An operator that cannot be placed, and which of its operands to gather."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import product
from xg.ir.graph import Apply, Graph, Value
from xg.ir.placement import INVARIANT, REPLICATED, AxisState, shard
from xg.ir.prim import Expr
from xg.ir.tensor import Sizes
from xg.passes.shard.moves import Moves
from xg.passes.shard.reshard import FREE, ReshardOption, combinations
from xg.sharding.primitive_rules import IllTyped, groups


@dataclass(frozen=True, slots=True)
class RefusedOperator:
    """An operator with its operands in their available states.

    `gathered` are the places of operands of which any one is to be gathered, `summed` of those that
    have to be summed; `in_block` says whether the block says so, or its plan. `settled` are the
    places of partial sums of which any one is to be summed by a line of the plan. `combinations`
    are all those of the options, of which not more than `TRIED_AT_MOST` were tried.
    """

    step: Apply
    inputs: Sequence[Value]
    states: Sequence[AxisState]
    gathered: Sequence[int]
    summed: Sequence[int]
    settled: Sequence[int]
    in_block: bool
    combinations: int


def free_ways(error: IllTyped, refused: RefusedOperator, sizes: Sizes) -> Iterator[str]:
    """Alternatives that send nothing: one axis for each sharded operand."""
    step = refused.step
    if step.op.glyph == "split" and error.expr.prim == "cut":
        yield f"give the {len(step.outputs)} parts an axis of their own, and leave that whole"
    if error.expr.prim == "reshape":
        yield from _merged(error.expr, sizes)


def _merged(reshape: Expr, sizes: Sizes) -> Iterator[str]:
    """Of axes that are merged the first may be cut."""
    source, target = reshape.args[0].shape, reshape.shape
    for group in groups(source, target):
        if len(group.source) > len(group.target) == 1:
            part, whole = source[group.source[0]], target[group.target[0]]
            if part.constant is not None:
                continue  # the width of a kernel, which ranks do not share
            yield f"cut {sizes.fold(part)}, which comes first in {sizes.fold(whole)}"


def refusal(
    moves: Moves,
    step: Apply,
    inputs: Sequence[Value],
    options: Sequence[Sequence[ReshardOption]],
    graph: Graph,
    *,
    explicit: bool,
) -> RefusedOperator:
    """The error for an operator none of whose `options`, by operand, fit together.

    Only where collectives are `explicit` a sum can be missing: elsewhere it was tried.
    """

    in_block = explicit or bool(graph.layouts)

    def helps(place: int, axes: Sequence[int]) -> bool:
        """Whether one more operand that is whole suffices, or cut along one of these axes."""
        whole = [ReshardOption(FREE, state) for state in (REPLICATED, INVARIANT, *map(shard, axes))]
        tried = combinations([*options[:place], whole, *options[place + 1 :]])
        return any(_fits(moves, step, inputs, states) for states in tried)

    states = [moves.states[value] for value in inputs]
    cut = [place for place, state in enumerate(states) if state.kind == "S"]
    partial = [p for p, state in enumerate(states) if state.kind == "P" and explicit]
    every = [range(-len(moves.types[value].shape), 0) if in_block else () for value in inputs]
    gathered = [p for p in cut if helps(p, every[p])] or cut
    sums = [p for p, state in enumerate(states) if state.kind == "P" and not in_block]
    settled = [p for p in sums if helps(p, moves.cuts(inputs[p]))]
    count = prod(map(len, options))
    return RefusedOperator(step, inputs, states, gathered, partial, settled, in_block, count)


def repeated(value: Value, graph: Graph) -> Value:
    """The value that another only lays out, before its BC: the smallest, with a name if one has."""
    makers = {out: step for step in graph.steps for out in step.outputs}
    found = value
    while isinstance(made := makers.get(value), Apply) and made.op.family == "layout":
        if len(made.inputs) != 1:
            break
        (value,) = made.inputs
        alike = product(graph.shape(value)) == product(graph.shape(found))
        found = found if alike and found.name else value
    return found


def _fits(moves: Moves, step: Apply, inputs: Sequence[Value], states: Sequence[AxisState]) -> bool:
    try:
        moves.typed(step, inputs, states)
    except IllTyped:
        return False
    return True
