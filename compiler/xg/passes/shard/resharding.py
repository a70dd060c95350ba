"""Reshard values on one mesh axis: their states, the moves between these, and the prices."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice
from math import prod
from typing import Final

from xg import ops
from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.body import Body
from xg.ir.content import Recent, frozen
from xg.ir.dim import ONE, Dim, DimError, product, symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg.ir.moves import collective, move
from xg.ir.op import Op
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
from xg.ir.prim import Expr
from xg.ir.tensor import Shape, Sizes, TensorType
from xg.ir.use import Attrs
from xg.sharding.primitive_rules import IllTyped, groups, type_step

Cut = tuple[str, int]  # a mesh axis and the axis that it cuts, counted from the end
Question = tuple[Shape, tuple[Cut, ...]]  # a shape and where other mesh axes cut it


def bound_by_calls(
    program: IRProgram, outside: Mapping[str, frozenset[str]]
) -> Mapping[str, frozenset[str]]:
    """For every graph the symbols that a call, also one further out, binds to another size.

    `outside` are those of graphs that are called from outside of the program.
    """
    bound = {key: outside.get(key, frozenset[str]()) for key in program.graphs}
    for key, graph in reversed(list(program.graphs.items())):  # callers first
        for call in graph.calls:
            callee = program.graphs[call.callee].sizes
            other = {name for name, size in call.sizes.items() if size != symbol(name)}
            own = callee.local & callee.defaults.keys()
            bound[call.callee] |= (bound[key] - own) | other
    return bound


@dataclass(slots=True)
class Divisions:
    """Answers for one mesh axis under the same numbers of the program's sizes and of the mesh.

    Symbols that are `bound` by calls have the numbers of callers, which are not asked here.
    """

    axis: str
    sizes: Sizes
    given: Mapping[str, int]
    bound: frozenset[str] = frozenset()
    numbers: Mapping[str, int] = field(init=False)
    shapes: dict[Question, tuple[int, ...]] = field(
        default_factory=dict["Question", "tuple[int, ...]"]
    )
    dims: dict[tuple[Dim, tuple[str, ...]], bool] = field(
        default_factory=dict[tuple[Dim, "tuple[str, ...]"], bool]
    )

    def __post_init__(self) -> None:
        """Number the symbols; the program's numbers do not apply to a block's own."""
        others = self.sizes.local | self.bound
        sizes = self.sizes.drop_symbols(self.bound)
        self.numbers = sizes.bind({n: v for n, v in self.given.items() if n not in others})

    def cuts(self, question: Question) -> tuple[int, ...]:
        """Return the axes that can be cut after other mesh axes cut, counted from the end."""
        if question not in self.shapes:
            shape, others = question
            self.shapes[question] = tuple(
                place
                for place in range(-len(shape), 0)
                if shape[place] != ONE
                and self._divides(shape[place], [a for a, axis in others if axis == place])
            )
        return self.shapes[question]

    def answer(self, answers: Mapping[Question, tuple[int, ...]]) -> bool:
        """Whether questions have these answers here too."""
        return all(self.cuts(question) == answer for question, answer in answers.items())

    def fits_numbers(self, given: Mapping[str, int]) -> bool:
        """Whether all that was asked has the same answer under other numbers."""
        return Divisions(self.axis, self.sizes, given, self.bound).answer(self.shapes)

    def _divides(self, dim: Dim, others: list[str]) -> bool:
        key = dim, (*others, self.axis)
        if key not in self.dims:
            self.dims[key] = self._is_valid_size(dim / product(map(symbol, key[1])))
        return self.dims[key]

    def _is_valid_size(self, dim: Dim) -> bool:
        if any(name not in self.numbers for name in dim.symbols()):
            return True
        try:
            return dim.evaluate(self.numbers) > 0
        except DimError:
            return False


# The typing of operators' bodies, each question answered once.
#
# The same steps occur under many plans, in many choices of options and on several mesh axes.


@dataclass(slots=True)
class Asked:
    """A body on operands of given types, with all that was found of it.

    `op` and `attrs` are kept alive: they are known by identity.
    """

    op: Op
    attrs: Attrs
    body: Body
    answers: dict[tuple[str, tuple[AxisState, ...]], list[AxisState] | IllTyped]


@dataclass(slots=True)
class Bodies:
    """Every body that was asked for: by the step's attributes themselves, and by what they say."""

    asked: Recent[tuple[int, int, tuple[TensorType, ...]], Asked] = field(
        default_factory=Recent[tuple[int, int, tuple[TensorType, ...]], Asked]
    )
    alike: Recent[Hashable, Asked] = field(default_factory=Recent[Hashable, Asked])

    def next_round(self) -> None:
        """Forget what has not been asked for of late."""
        self.asked.next_round()
        self.alike.next_round()

    def infer_states(
        self, step: Apply, types: Sequence[TensorType], states: Sequence[AxisState], axis: str = ""
    ) -> list[AxisState]:
        """The states of the outputs of an operator over a mesh axis, or IllTyped.

        All axes are one to an operator that names none.
        """
        axis = axis if "around" in step.attrs else ""
        key = id(step.op), id(step.attrs), tuple(types)
        asked = self.asked.get(key)
        if asked is None:
            asked = self.asked.put(key, self._find_body(step, key[2]))
        arguments = axis, tuple(states)
        answer = asked.answers.get(arguments)
        if answer is None:
            answer = asked.answers[arguments] = self._answer(asked, axis, arguments[1])
        if isinstance(answer, IllTyped):  # a new one, for what is kept is to keep no frames
            raise IllTyped(answer.reason, answer.expr, answer.places)
        return answer

    def _find_body(self, step: Apply, types: tuple[TensorType, ...]) -> Asked:
        """The body of a step; other steps that say the same have the same."""
        key = id(step.op), frozen(step.attrs), types
        asked = self.alike.get(key)
        if asked is None:
            body = step.body(dict(zip(step.inputs, types, strict=True)))
            asked = self.alike.put(key, Asked(step.op, step.attrs, body, {}))
        return Asked(step.op, step.attrs, asked.body, asked.answers)

    @staticmethod
    def _answer(
        asked: Asked, axis: str, states: tuple[AxisState, ...]
    ) -> list[AxisState] | IllTyped:
        try:
            typing = type_step(asked.op, asked.body, states, axis)
        except IllTyped as refused:
            return refused.with_traceback(None)
        return [typing.of(out) for out in asked.body.outputs]


# Values with their states on one mesh axis, and the moves that bring one into another state.
#
# A value that was moved once is moved for all later uses. A move goes in front of a step that only
# lays out its operand (a bias is cast before it is repeated, a table before it is transposed): the
# backward pass then sends the smaller of the two, and one cast serves all uses.


@dataclass(slots=True)
class Moves:
    """The steps of a graph as they are placed.

    `elsewhere` are the states on other mesh axes; `divisions` say what this one can cut, and
    `divided` is all that they said.
    """

    axis: str
    divisions: Divisions
    types: dict[Value, TensorType]
    elsewhere: dict[Value, Mapping[str, AxisState]]
    states: dict[Value, AxisState] = field(default_factory=dict[Value, AxisState])
    steps: list[Apply | Call] = field(default_factory=list[Apply | Call])
    made: dict[Value, Apply] = field(default_factory=dict[Value, Apply])
    aliases: dict[Value, Value] = field(default_factory=dict[Value, Value])
    resharded: dict[Value, dict[AxisState, Value]] = field(
        default_factory=dict[Value, dict[AxisState, Value]]
    )
    bodies: Bodies = field(default_factory=Bodies)
    divided: dict[Question, tuple[int, ...]] = field(
        default_factory=dict["Question", "tuple[int, ...]"]
    )

    def at_hand(self, value: Value) -> AxisState:
        """The state of a value that is the same on all ranks."""
        return INVARIANT if self.types[value].is_float else CONSTANT

    def cuts(self, value: Value) -> tuple[int, ...]:
        """Return the axes that can be cut, counted from the end, after other mesh axes cut."""
        elsewhere = self.elsewhere.get(value, {})
        others = tuple((a, state.axis) for a, state in elsewhere.items() if state.kind == "S")
        question = self.types[value].shape, others
        answer = self.divided[question] = self.divisions.cuts(question)
        return answer

    def output_states(
        self, step: Apply, inputs: Sequence[Value], states: Sequence[AxisState]
    ) -> list[AxisState]:
        """The states of an operator's outputs, or IllTyped."""
        if step.op.family == FAMILY:  # a move on another mesh axis
            return list(states)
        types = [self.types[value] for value in inputs]
        return self.bodies.infer_states(step, types, states, self.axis)

    def add(self, step: Apply, outputs: Sequence[AxisState]) -> None:
        """Add a step with the states of its outputs."""
        self.steps.append(step)
        for value, state in zip(step.outputs, outputs, strict=True):
            self.states[value] = state
            self.made[value] = step

    def reshard(
        self, value: Value, target: AxisState, span: Span, into: Value | None = None
    ) -> Value:
        """Bring a value into a state, once for each pair; `into` is the value that results."""
        if serves(self.states[value], target):
            return value
        values = self.resharded.setdefault(value, {})
        if target not in values:
            values[target] = (
                self._on_the_way(value, target, span)
                or self._inside_gather(value, target, span)
                or self._before(value, target, span)
                or self._insert_move(value, target, span, into)
            )
        return values[target]

    def made_again(self, value: Value, live: Container[Value]) -> tuple[Value, ...]:
        """Return the live values that replace a value that nothing reads any more."""
        found: dict[Value, None] = {}
        for each in self.resharded.get(value, {}).values():
            found |= dict.fromkeys((each,) if each in live else self.made_again(each, live))
        return tuple(found)

    def _on_the_way(self, value: Value, target: AxisState, span: Span) -> Value | None:
        """The move from a state that it has already, or that costs less to send."""
        values = self.resharded[value]
        if target == REPLICATED and INVARIANT in values:
            return self.reshard(values[INVARIANT], target, span)
        step = self.made.get(value)
        if step is None or step.op.glyph != "BC" or self.states[value] != INVARIANT:
            return None
        if target.kind != "S" or self._operand_state(step, step.inputs[0], target):
            return None
        # Cast before it is repeated, it sends the sum of the small one, not parts of the large.
        return self.reshard(self.reshard(value, REPLICATED, span), target, span)

    def alias(self, value: Value) -> Value:
        """Another name for a value, to be moved apart from it."""
        alias = Value(value.name, "edge", value.span)
        self.aliases[alias] = value
        self.types[alias], self.states[alias] = self.types[value], self.states[value]
        self.elsewhere[alias] = self.elsewhere.get(value, {})
        return alias

    def _inside_gather(self, value: Value, target: AxisState, span: Span) -> Value | None:
        """Gather a value that two mesh axes cut from the inside: first over this axis."""
        step = self.made.get(value)
        record = step and collective(step.op)
        if step is None or not record or not record.gathers or target.kind == "S":
            return None
        if self.states[value] != step.attrs["source"]:
            return None
        operand = self.reshard(step.inputs[0], target, span)
        return self._again(step, value, (operand,), target, span)

    def _again(
        self, step: Apply, value: Value, operands: tuple[Value, ...], state: AxisState, span: Span
    ) -> Value:
        """Repeat a step with a moved operand, and return the new result."""
        result = Value(value.name, "edge", span)
        self.types[result] = self.types[value]
        self.elsewhere[result] = self.elsewhere.get(value, {})
        self.add(replace(step, inputs=operands, outputs=(result,)), [state])
        return result

    def _insert_move(
        self, value: Value, target: AxisState, span: Span, into: Value | None
    ) -> Value:
        """Insert a move of the value, and return the result."""
        glyph, attrs = move(self.axis, self.states[value], target)
        op = ops.table()[glyph]
        if into is None or into in self.states:
            record = collective(op)
            keeps = self.states[value] == PARTIAL or (record and record.is_free)
            into = Value(value.name if keeps else None, "edge", span)
        result, value = into, self.aliases.get(value, value)
        self.types[result] = self.types[value]
        self.elsewhere.setdefault(result, self.elsewhere.get(value, {}))
        self.add(Apply(op, (value,), (result,), attrs, span), [target])
        return result

    # ---- moves in front of layout ---------------------------------------------------------------

    def _before(self, value: Value, target: AxisState, span: Span) -> Value | None:
        """The same made of an operand that was moved, where a layout has just one."""
        step = self.made.get(value)
        if step is None:
            return None
        if target == REPLICATED and self._is_lookup(step):
            return self._looked_up(step, value, span)
        if len(step.inputs) != 1 or len(step.outputs) != 1 or not self._is_layout(step):
            return None
        (operand,) = step.inputs
        state = self._operand_state(step, operand, target)
        if state is None:
            return None
        return self._again(step, value, (self.reshard(operand, state, span),), target, span)

    def _is_lookup(self, step: Apply) -> bool:
        """Whether a step reads a table of parameters at places that are no input's."""
        states = [self.states[value] for value in step.inputs]
        return step.op.glyph == "Emb" and states == [CONSTANT, INVARIANT]

    def _looked_up(self, step: Apply, value: Value, span: Span) -> Value:
        """The rows of a table that was cast: every parameter's gradient is summed once."""
        table = self.reshard(step.inputs[1], REPLICATED, span)
        return self._again(step, value, (step.inputs[0], table), REPLICATED, span)

    def _is_layout(self, step: Apply) -> bool:
        record = collective(step.op)
        if record is None:
            return step.op.family == "layout"
        return record.is_free and step.attrs["over"] != self.axis

    def _operand_state(self, step: Apply, operand: Value, target: AxisState) -> AxisState | None:
        """Find the operand's state from which the step makes the target, if there is one."""
        if not self.states[operand].is_uniform:
            return None
        if target == REPLICATED:
            return target
        if target.kind != "S":
            return None
        for axis in self.cuts(operand):
            if self._gives(step, operand, shard(axis), target):
                return shard(axis)
        constant = self.states[operand] == CONSTANT
        whole = CONSTANT if constant else REPLICATED
        return whole if self._repeats(step, target.axis) else None

    def _gives(self, step: Apply, operand: Value, state: AxisState, target: AxisState) -> bool:
        try:
            return self.output_states(step, [operand], [state]) == [target]
        except IllTyped:
            return False

    def _repeats(self, step: Apply, axis: int) -> bool:
        """Whether an axis is one along which BC repeats, so that any part of it can be made."""
        if step.op.glyph != "BC" or step.attrs["shape"] != step.attrs["atoms"]:
            return False
        return axis + len(step.attrs["shape"]) in step.attrs["new"]


# The ways to reshard a value, and their prices.
#
# Prices only order: nothing before a cast, a cast before a slice, both before communication, and
# among collectives the one that the file asks for. They are compared per operator, so a sum is made
# as late as possible.


FREE: Final = 0.0
CAST: Final = 1.0
OWN_CONSTANT: Final = 1.0
OWN_USED: Final = 2.0  # a slice of R: zeros around its gradient
OWN_ONCE: Final = 6.0  # a slice of I: its gradient is gathered
SCATTER: Final = 15.0
GATHER: Final = 18.0
SUM: Final = 20.0
PART_AGAIN: Final = 22.0  # a slice of what is gathered for other uses: the part that was there
USED_SUM: Final = 100.0  # beside what each rank uses for its own, where nothing else fits
TRIED_AT_MOST: Final = 2_000


@dataclass(frozen=True, slots=True)
class ReshardOption:
    """A state that a value can be brought into, and its price."""

    price: float
    state: AxisState


@lru_cache(maxsize=4_096)  # called for every operand of every operator, with few arguments
def reshard_options(
    state: AxisState,
    cuts: tuple[int, ...],
    request: PlacementRequest | None,
    demand: AxisState | None,
    *,
    sends: bool,
    keeps: bool,
) -> tuple[ReshardOption, ...]:
    """Every state that a value in `state` can be brought into; collectives only where `sends`.

    `cuts` are the axes that could be sharded. `keeps` says whether the shards of a value that is
    gathered for its use are available too.
    """
    return tuple(_options(state, cuts, request, demand, sends=sends, keeps=keeps))


def _options(
    state: AxisState,
    cuts: Sequence[int],
    request: PlacementRequest | None,
    demand: AxisState | None,
    *,
    sends: bool,
    keeps: bool,
) -> Iterator[ReshardOption]:
    if request and request.use and request.rest == state:
        yield from _in_use(state, request.use, sends=sends)
        if keeps:
            yield ReshardOption(PART_AGAIN, state)
        return
    yield ReshardOption(FREE, state)
    cut_price = {"I": OWN_ONCE, "R": OWN_USED, "C": OWN_CONSTANT}.get(state.kind)
    if cut_price is not None:
        for axis in cuts:
            yield ReshardOption(CAST if shard(axis) == demand else cut_price, shard(axis))
    if state.kind == "I":
        yield ReshardOption(CAST, REPLICATED)
    if state.kind == "P" and sends:
        if demand is not None:
            yield ReshardOption(SCATTER, demand)
        yield ReshardOption(SUM, INVARIANT)
        yield ReshardOption(USED_SUM, REPLICATED)


def _in_use(state: AxisState, use: AxisState, *, sends: bool) -> Iterator[ReshardOption]:
    """The placement in which a value is used, where that differs from how it is stored."""
    if use.kind == "S" or state.kind != "S":
        yield ReshardOption(GATHER if sends else FREE, use)
    elif sends:
        yield ReshardOption(GATHER, REPLICATED)
        yield ReshardOption(GATHER + CAST, INVARIANT)


def cheapest_first(
    now: Sequence[tuple[AxisState, PlacementRequest | None]],
    options: Callable[[], Iterable[Sequence[ReshardOption]]],
) -> Iterator[tuple[AxisState, ...]]:
    """`combinations` of options that are asked for only if operands do not fit as they are `now`.

    Nothing is cheaper than that, but for what rests in another placement than it is used in.
    """
    stays = not any(request and request.use and request.rest == state for state, request in now)
    if stays:
        yield tuple(state for state, _ in now)
    yield from islice(combinations([*options()]), int(stays), None)


def combinations(options: Sequence[Sequence[ReshardOption]]) -> Iterator[tuple[AxisState, ...]]:
    """One state per operand, the cheapest combination first, and no more than can be tried.

    Of more than these, there follow those in which all operands that can have the same placement.
    """
    if all(options):
        yield tuple(min(ways, key=_price_of).state for ways in options)  # mostly it fits
        yield from islice(_combinations(options), 1, None)
        if prod(map(len, options)) > TRIED_AT_MOST:
            for state in dict.fromkeys(way.state for ways in options for way in ways):
                yield tuple(_nearest(ways, state) for ways in options)


def _nearest(ways: Sequence[ReshardOption], state: AxisState) -> AxisState:
    return state if any(way.state == state for way in ways) else min(ways, key=_price_of).state


def _combinations(options: Sequence[Sequence[ReshardOption]]) -> Iterator[tuple[AxisState, ...]]:
    sorted_options = [sorted(ways, key=_price_of) for ways in options]
    first: tuple[int, ...] = (0,) * len(options)
    heap: list[tuple[float, tuple[int, ...]]] = [(_price(sorted_options, first), first)]
    seen: set[tuple[int, ...]] = {first}
    for _ in range(TRIED_AT_MOST):
        if not heap:
            return
        _, chosen = heappop(heap)
        yield tuple(ways[i].state for ways, i in zip(sorted_options, chosen, strict=True))
        for place, ways in enumerate(sorted_options):
            following = (*chosen[:place], chosen[place] + 1, *chosen[place + 1 :])
            if following[place] < len(ways) and following not in seen:
                seen.add(following)
                heappush(heap, (_price(sorted_options, following), following))


def _price_of(option: ReshardOption) -> float:
    return option.price


def _price(options: Sequence[Sequence[ReshardOption]], chosen: Sequence[int]) -> float:
    return sum(ways[i].price for ways, i in zip(options, chosen, strict=True))


# An operator that cannot be placed, and which of its operands to gather.


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
        yield from _merge_hints(error.expr, sizes)


def _merge_hints(reshape: Expr, sizes: Sizes) -> Iterator[str]:
    """Suggest cutting the first of the axes that a reshape merges."""
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
    """Find the value that layout steps start from; among equal sizes, prefer a named one."""
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
        moves.output_states(step, inputs, states)
    except IllTyped:
        return False
    return True
