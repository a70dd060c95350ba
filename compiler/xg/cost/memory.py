"""Count the bytes alive besides the saved ones, and the bytes that recompute policies keep.

Inside an operator arrays come and go that no table of saved bytes knows: a product that is summed
at once may be a thousand times as large as what goes in and what comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Final, Literal

from xg.cost.communication import Sent, inside_of
from xg.cost.cost import BYTES, Amount, BlockCost, Cost, booleans, bytes_of
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.body import LEAVES, VIEWS, is_inline
from xg.ir.dim import ONE, ZERO, Coefficient, Dim, DimError, Monomial, product
from xg.ir.graph import Apply, Backward, Call, Graph, IRProgram, Step, Value
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType
from xg.ir.walk import inside, instances

NO_ARRAYS: Final = LEAVES | VIEWS | {"stop"}
UNKNOWN: Final = 1_000  # the value of a size without a number, to compare by


@dataclass(frozen=True, slots=True)
class Largest:
    """One array: its bytes in the sizes of the entry, and the step that makes it.

    `inner` says that it is neither a result of the step nor one of its operands.
    """

    size: Dim
    block: str
    name: str
    line: int
    direction: Literal["forward", "backward"]
    inner: bool


def largest(program: IRProgram, dtype: str) -> Largest | None:
    """The largest array of a program's steps; None if they make none."""
    numbers = program.main.sizes.bind(program.numbers)
    first: dict[Dim, Largest] = {}
    for array in _arrays(program, BYTES[dtype]):
        first.setdefault(array.size, array)
    return max(first.values(), key=lambda each: _estimate_size(each.size, numbers), default=None)


def _arrays(program: IRProgram, width: int) -> Iterator[Largest]:
    for graph, symbols in instances(program):
        steps = [(step, graph.types, False) for step in graph.steps]
        reverse = program.backwards.get(graph.key)
        if reverse:
            types = {**graph.types, **reverse.types}
            steps += [(step, types, True) for step in reverse.steps]
        for step, types, backward in steps:
            if isinstance(step, Apply):
                origin = (step.origin or step) if backward else step
                label = origin.outputs[0].name
                name = f"{origin.op.glyph} : {label}" if label else origin.op.glyph
                for expr, inner in _step_arrays(step, types):
                    size = product(expr.shape) * width_of(expr, width)
                    yield Largest(
                        graph.sizes.expand(size).substitute(symbols),
                        graph.block,
                        name,
                        origin.span.line,
                        "backward" if backward else "forward",
                        inner,
                    )


def _step_arrays(step: Apply, types: Mapping[Value, TensorType]) -> Iterator[tuple[Expr, bool]]:
    """Every array that a step makes, and whether it stays inside."""
    body = step.body(types)
    results = {id(expr) for expr in body.outputs}
    for expr in body.order():
        if expr.prim not in NO_ARRAYS:
            yield expr, id(expr) not in results


def width_of(expr: Expr, floats: int) -> int:
    """Return the bytes of one element; `floats` is the width of a float."""
    return floats if expr.kind == "float" else BYTES[expr.kind]


def _estimate_size(size: Dim, numbers: Mapping[str, int]) -> float:
    sizes = {name: numbers.get(name, UNKNOWN) for name in size.symbols()}
    return sum(
        prod((float(sizes[name]) ** exponent for name, exponent in monomial), start=float(times))
        for monomial, times in size.terms
    )


# The bytes alive beside the saved ones: the arrays of the blocks that run, and of their step.
#
# A function of a generated module lets its arrays go when it returns. So while the inmost block
# runs, all is there that its callers have made, but for what a line makes and reads at once.
# Parameters, saved values and gradients of parameters are counted elsewhere; views are no arrays.


Types = Mapping[Value, TensorType]
Peaks = tuple[Dim, ...]  # sums of bytes: the largest of them is the most that is alive
Made = tuple[list[tuple[Value, Dim]], Peaks]
Terms = Mapping[Monomial, Coefficient]  # those of a sum


@dataclass(frozen=True, slots=True)
class Alive:
    """Sums whose largest is the peak of live bytes, in the sizes of the entry.

    `whole` are those of both passes, `rows` those of the entry's rows alone: of a stage that has
    nothing else.
    """

    whole: Peaks
    rows: Peaks


def alive(cost: Cost) -> Alive:
    """Count what a program has beside saved values."""
    program, walk = cost.program, _Alive(cost)
    for key, graph in program.graphs.items():  # callees come first
        walk.forward[key] = walk.peaks(graph, graph.types, walk.blocks[key].kept)
        if reverse := program.backwards.get(key):
            gradients = frozenset(gradient for _, gradient in reverse.param_gradients())
            walk.backward[key] = walk.peaks(reverse, {**graph.types, **reverse.types}, gradients)
    forward, backward = walk.forward[program.entry], walk.backward.get(program.entry, ())
    given = walk.cotangents(program.backwards.get(program.entry))
    whole = _largest((*forward, *(given + each for each in backward)))
    return Alive(whole, _largest(walk.rows(program.main)))


@dataclass(slots=True)
class _Alive:
    """The peaks of both passes of every graph, in its own symbols."""

    cost: Cost
    blocks: Mapping[str, BlockCost] = field(init=False)
    forward: dict[str, Peaks] = field(default_factory=dict[str, Peaks])
    backward: dict[str, Peaks] = field(default_factory=dict[str, Peaks])

    def __post_init__(self) -> None:
        """Find blocks by their keys."""
        self.blocks = {block.graph.key: block for block in self.cost.blocks}

    def peaks(self, graph: Graph, types: Types, counted: frozenset[Value]) -> Peaks:
        """Return the peaks of one pass; values `counted` elsewhere have no array in it."""
        reads = Counter(value for step in graph.steps for value in step.reads)
        reads.update(graph.outputs)
        local, passing, found = ZERO, dict[Value, Dim](), [ZERO]
        for step in graph.steps:
            there = sum(passing.values(), local)
            if isinstance(step, Apply):
                sizes, inner = self._operator(step, types, counted)
            else:
                sizes, inner = self._call(step, graph, types)
            found += (there + each for each in inner)
            for value in step.reads:
                passing.pop(value, None)
            for value, size in sizes:
                if reads[value] == 1 and self._is_passing(step, value, graph, types):
                    passing[value] = size
                elif reads[value] and value not in counted:
                    local = local + size
            if isinstance(step, Call) and step.again:
                local = local + self._saved_again(step, graph)
            found.append(sum(passing.values(), local))
        return _largest(graph.sizes.expand(each) for each in found)

    def rows(self, main: Graph) -> Iterator[Dim]:
        """The peaks of the backward passes of a graph's rows, with what every round gives."""
        width = BYTES[self.cost.dtype]
        for call in main.calls:
            if call.count is not None:
                callee = self.blocks[call.callee].graph
                symbols = inside(call, main, callee, {})
                given = sum((_bytes(main.types[value], width) for value in call.outputs), ZERO)
                for each in self.backward.get(call.callee, self.forward[call.callee]):
                    yield main.sizes.expand(given + each.substitute(symbols))

    def _is_passing(self, step: Step, value: Value, graph: Graph, types: Types) -> bool:
        """Whether a value that is read once is written where it is read: it has no name.

        In a backward pass it is of one or two primitives too.
        """
        forward = not isinstance(graph, Backward)
        short = isinstance(step, Apply) and (forward or is_inline(step.body(types)))
        return short and value.name is None

    def cotangents(self, reverse: Backward | None) -> Dim:
        """The bytes of the gradients that a pass is given: zeros where the caller gives none."""
        if reverse is None:
            return ZERO
        width = BYTES[self.cost.dtype]
        sizes = (_bytes(reverse.types[value], width) for value in reverse.inputs)
        return reverse.sizes.expand(sum(sizes, ZERO))

    def _operator(self, step: Apply, types: Types, counted: frozenset[Value]) -> Made:
        """The sizes of what a step makes, and the sums of what is there while it does."""
        body, width = step.body(types), BYTES[self.cost.dtype]
        results = dict(zip(step.outputs, map(id, map(_array, body.outputs)), strict=True))
        elsewhere = {results[value] for value in step.outputs if value in counted}
        lasting = frozenset(results.values())
        order = [expr for expr in body.order() if expr.prim not in NO_ARRAYS]
        last = {id(_array(arg)): place for place, expr in enumerate(order) for arg in expr.args}
        there, found = dict[int, Dim](), list[Dim]()
        for place, expr in enumerate(order):
            size = product(expr.shape) * width_of(expr, width)
            there[id(expr)] = ZERO if id(expr) in elsewhere else size
            found.append(sum(there.values(), ZERO))
            there = {
                each: size
                for each, size in there.items()
                if each in lasting or last.get(each, 0) > place
            }
        sizes = [(value, there[array]) for value, array in results.items() if array in there]
        return sizes, _largest(found)

    def _call(self, call: Call, graph: Graph, types: Types) -> Made:
        """Return a call's results and sums; a repeat also has the previous round's results."""
        callee, width = self.blocks[call.callee], BYTES[self.cost.dtype]
        pairs = [*zip(call.outputs, callee.graph.outputs, strict=False)]
        kept = {value for value, result in pairs if not call.origin and result in callee.kept}
        made = (value for value in call.outputs if value not in kept)
        sizes = [(value, _bytes(types[value], width)) for value in made]
        base = sum((size for _, size in sizes), ZERO) if call.rounds else ZERO
        base = base + (self._saved_again(call, graph) if call.again else ZERO)
        symbols = inside(call, graph, callee.graph, {})
        peaks = (self.backward if call.origin else self.forward)[call.callee]
        return sizes, tuple(base + each.substitute(symbols) for each in peaks)

    def _saved_again(self, call: Call, graph: Graph) -> Dim:
        """The bytes that a call saves which the backward pass runs again."""
        callee = self.blocks[call.callee]
        saved = callee.total.saved * (call.rounds or ONE)
        return saved.substitute(inside(call, graph, callee.graph, {}))


def _bytes(type_: TensorType, floats: int) -> Dim:
    return product(type_.shape) * (floats if type_.is_float else BYTES["int"])


def _array(expr: Expr) -> Expr:
    """The array that an expression is, or is a view of."""
    while expr.prim in NO_ARRAYS and expr.args:
        expr = expr.args[0]
    return expr


def _largest(sums: Iterable[Dim]) -> Peaks:
    """The sums without those that are nowhere above another one."""
    found: list[tuple[Dim, Terms]] = []
    for one in dict.fromkeys(sums):
        terms = dict(one.terms)
        if any(_covers(other, terms) for _, other in found):
            continue
        found = [pair for pair in found if not _covers(terms, pair[1])]
        found.append((one, terms))
    return tuple(one for one, _ in found)


def _covers(large: Terms, small: Terms) -> bool:
    """Whether a sum is at least another at every size: none of its terms is smaller.

    Asked of every pair of sums, most of which differ: the difference itself would be made in vain.
    """
    for term, factor in small.items():
        if large.get(term, 0) < factor:
            return False
    return all(factor >= 0 or term in small for term, factor in large.items())


# Recompute policies: what a backward pass need not find saved, and what it computes again.
#
#     save all    everything that a gradient mentions is kept
#     selective   the scores of attention, their softmax and its dropout are computed again
#     per block   of every call in the block only the inputs are kept; each is run again, one by one
#
# Selective is that of Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
# Models", 2022. The policies are numbers of a report; code follows a plan,
# which says of values and calls what is computed `again`.


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


def policies(cost: Cost, placed: IRProgram | None = None) -> tuple[Policy, ...]:
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


def _per_block(cost: Cost, calls: Sequence[Call], placed: IRProgram | None) -> Policy:
    """Keep the inputs of every call of the entry; for a repeat, the inputs of every round."""
    graph = cost.program.main
    expand = graph.sizes.expand
    blocks = {block.graph.key: block for block in cost.blocks}
    once = [(call, _call_amount(call, graph, blocks[call.callee])) for call in calls]
    rounds = sum((_rounds(call, graph, cost.dtype) for call in calls), ZERO)
    again = sum((amount.forward * (call.rounds or ONE) for call, amount in once), ZERO)
    return Policy(
        "per block",
        expand(_own(cost) + rounds),
        expand(again),
        _largest_size([expand(amount.saved) for _, amount in once], cost.numbers),
        tuple(_sent_again(cost, calls, placed)) if placed else (),
    )


def _call_amount(call: Call, graph: Graph, callee: BlockCost) -> Amount:
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


def _largest_size(dims: Sequence[Dim], numbers: Mapping[str, int]) -> Dim:
    """The largest by the known numbers; without them the first."""
    try:
        return max(dims, key=lambda dim: dim.evaluate(numbers))
    except (KeyError, DimError):
        return dims[0]


def _sent_again(cost: Cost, calls: Sequence[Call], placed: IRProgram) -> Iterator[Sent]:
    """The communication that running the forward passes of the calls again repeats."""
    graph = placed.main
    for call in graph.calls:
        symbols = inside(call, graph, placed.graphs[call.callee], {})
        count = graph.sizes.expand(call.rounds or ONE)
        for part in inside_of(placed, call.callee, cost.dtype):
            if part.direction == "forward":
                yield part.inside(symbols, count)
