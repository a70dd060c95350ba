"""Count what a rank sends: collectives and sends of a pipeline, naive and in a ring.

Each collective sends so many elements of its payload V over an axis of N ranks (seed 001, 6.2 and
7.3, has those of all-reduce, which is a reduce-scatter and an all-gather):

    collective                           naive           ring
    all-reduce                           2(N-1) V        2(N-1)/N V
    all-gather, reduce-scatter           (N-1)/N V       (N-1)/N V
    all-to-all                           (N-1)/N V       (N-1)/N V
    shift, N-1 of a part of V            (N-1)/N V       (N-1)/N V
    send, to another stage               V               V

Naive is a reduction to one rank that sends the result out; for the others every rank sends to all
others the elements that they need, and a ring sends no less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from xg.cost.cost import BYTES
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.body import Body
from xg.ir.collectives import AROUND, COLLECTIVES, OWNERS, REDUCTIONS, send
from xg.ir.dim import ONE, ZERO, Dim, product, symbol
from xg.ir.graph import Apply, Backward, Graph, IRProgram, Value
from xg.ir.moves import collective
from xg.ir.placement import AxisState, Placement, Price, axes_over, axis_of, ranks_over
from xg.ir.tensor import Shape, TensorType
from xg.ir.walk import Symbols, inside, param_specs
from xg.sharding.primitive_rules import type_body, type_step

# The communication of a program's ranks: every collective with its payload, as formulas.
#
# Counted from the placed program, in which moves are steps between global tensors: a rank's program
# is derived from it, and measured, elsewhere (`xg verify`).
#
# Payload is the V of the cost formulas: the whole tensor on the group for all-reduce, all-gather
# and reduce-scatter, and for parts that go round; a rank's part for all-to-all; other mesh axes may
# cut it.
#
# Source: seed 001, 8.2 and 9.2.


Pass = Literal["forward", "backward", "shared"]

Bindings = dict[str, dict[frozenset[tuple[str, Dim]], Dim]]  # how often a graph runs, by symbols
NO_SYMBOLS: Final = frozenset[tuple[str, Dim]]()


@dataclass(frozen=True, slots=True)
class Sending:
    """One collective over the mesh axis `over`, called `count` times with `payload` elements.

    `name` is what is sent: the author's name, of a gradient with a d in front, None for none.
    `step` is where it is called in the graph with this `key`; sizes are those of the entry block.
    """

    direction: Pass
    kind: str
    over: str
    payload: Dim
    count: Dim
    line: int
    name: str | None
    key: str
    step: Apply

    @property
    def elements(self) -> Dim:
        """Return the payload of all calls; for a ring, the payload of all complete rounds."""
        return self.payload * self.count

    @property
    def calls(self) -> Dim:
        """How often it is called: once for each rank but one, where parts go round."""
        goes_around = price_of(self.kind).route == "neighbor"
        return self.count * (ranks_over(self.over) - 1) if goes_around else self.count

    @property
    def each(self) -> Dim:
        """The payload of one call: of what goes round, a part."""
        goes_around = price_of(self.kind).route == "neighbor"
        return self.payload / (ranks_over(self.over) if goes_around else ONE)

    @property
    def counted(self) -> Dim:
        """The payload that a rank counts in all calls."""
        return self.calls * self.each


def traffic(program: IRProgram) -> tuple[Sending, ...]:
    """Everything that a placed and differentiated program sends, callers before callees.

    Steps of the forward pass that a backward pass runs again are sent again.

    Nothing is sent on a mesh axis of one rank, though it is counted here.
    """
    forward = {program.entry: {NO_SYMBOLS: ONE}}
    again: Bindings = {}
    sendings = [*_sent_in(program, forward, None, "forward")]
    if program.backwards:
        sendings += _sent_in(program, {program.entry: {NO_SYMBOLS: ONE}}, again, "backward")
        sendings += _sent_in(program, again, None, "backward")
    return tuple(sendings)


def _sent_in(
    program: IRProgram, bindings: Bindings, again: Bindings | None, direction: Pass
) -> Iterator[Sending]:
    """Yield the communication of the graphs under these bindings, and of their callees.

    Without `again` the forward graphs run, with it the backward ones; it gets the forward graphs
    that these run again.
    """
    for key in reversed([*program.graphs]):  # callers first, so that each is complete when left
        graph = program.graphs[key]
        backward = None if again is None else program.backwards[key]
        sender = _Pass(program, graph, backward, direction)
        for binding, count in bindings.get(key, {}).items():
            symbols = dict(binding)
            for step in (backward or graph).steps:
                if isinstance(step, Apply):
                    yield from sender.of(step, symbols, count)
                    continue
                callee = program.graphs[step.callee]
                below = frozenset(inside(step.origin or step, graph, callee, symbols).items())
                times = graph.sizes.expand(step.rounds or ONE).substitute(symbols) * count
                runs = bindings if again is None or not step.again else again
                counts = runs.setdefault(callee.key, {})
                counts[below] = counts[below] + times if below in counts else times


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass of one graph, in the `direction` of the program's."""

    program: IRProgram
    graph: Graph
    backward: Backward | None
    direction: Pass

    def of(self, step: Apply, symbols: Symbols, count: Dim) -> Iterator[Sending]:
        """The communication of a step whose graph runs `count` times with these symbols."""
        for kind, over, payload in self._sent(step):
            yield Sending(
                self.direction,
                kind,
                over,
                self.graph.sizes.expand(payload).substitute(symbols),
                count,
                step.span.line,
                self._name(step.outputs[0]),
                self.graph.key,
                step,
            )

    def _sent(self, step: Apply) -> Iterator[tuple[str, str, Dim]]:
        record = collective(step.op)
        if record is None:
            yield from self._inside(step)
        elif record.price:
            over, placement = str(step.attrs["over"]), self._placement(step.inputs[0])
            whole = axes_over(over) if record.price.payload == "whole" else ()
            size = local_elements(self._type(step.inputs[0]).shape, placement, whole)
            yield record.name, over, size

    def _inside(self, step: Apply) -> Iterator[tuple[str, str, Dim]]:
        """The payloads that an operator reduces inside its body, over each mesh axis."""
        body = step.op.body([self._type(value) for value in step.inputs], step.attrs)
        if not step.op.sums_over_ranks:
            yield from self._around(step, body)
            return
        typings = {
            axis: type_step(step.op, body, [self._placement(v)[axis] for v in step.inputs], axis)
            for axis in self.program.mesh
        }
        for expr in body.order():
            for over in typings:
                state = typings[over].collected.get(id(expr))
                if state is not None:
                    placement = {axis: typing.before(expr) for axis, typing in typings.items()}
                    kind = REDUCTIONS[state.kind].name
                    yield kind, over, local_elements(expr.shape, placement, (over,))

    def _around(self, step: Apply, body: Body) -> Iterator[tuple[str, str, Dim]]:
        """The payloads that go round a ring, part by part: keys beside values, dK beside dV."""
        exprs = [expr for expr in body.order() if expr.prim in AROUND]
        for over in dict.fromkeys(str(expr.attr("over")) for expr in exprs):
            typings = {
                axis: type_body(body, [self._placement(v)[axis] for v in step.inputs], axis)
                for axis in self.program.mesh
            }
            messages = dict[str, Dim]()  # what is gathered goes in one, what is summed in another
            for expr in exprs:
                placement = {axis: typing.of(expr) for axis, typing in typings.items()}
                whole = local_elements(expr.shape, placement, axes_over(over))
                messages[expr.prim] = messages.get(expr.prim, ZERO) + whole
            for prim, payload in messages.items():
                yield OWNERS[prim].name, axis_of(over), payload

    # ---- values ---------------------------------------------------------------------------------

    def _type(self, value: Value) -> TensorType:
        return (self.backward or self.graph).types[value]

    def _placement(self, value: Value) -> Placement:
        return (self.backward or self.graph).placements[value]

    def _name(self, value: Value) -> str | None:
        of = self.backward.of.get(value) if self.backward else None
        if of is not None:
            return of.name and f"d{of.name}"
        return value.name


def local_elements(
    shape: Shape, placement: Mapping[str, AxisState], whole: Sequence[str] = ()
) -> Dim:
    """The elements of a rank's part of a tensor that is `whole` on some mesh axes."""
    size = product(shape)
    for axis, state in placement.items():
        if state.kind == "S" and axis not in whole:
            size = size / symbol(axis)
    return size


# The sends of a pipeline, as formulas: what every stage sends in a step of M microbatches.


@dataclass(frozen=True, slots=True)
class Send:
    """A send of stage `source` to stage `target`: the stream, or a gradient that both hold.

    Of the stream once for each microbatch (`repeats`), of a shared gradient once for a step.
    """

    direction: Pass
    source: int
    target: int
    payload: Dim
    repeats: bool
    name: str


def sends(placed: IRProgram) -> Iterator[Send]:
    """All that a rank of one stage sends over the axis of the pipeline."""
    stage, main = placed.stage, placed.main
    assert stage is not None
    if stage.sends is not None:
        size = local_size(main, main.outputs[0])
        yield Send("forward", stage.place, stage.place + 1, size, True, stage.sends)
    if stage.receives is not None:
        size = local_size(main, main.inputs[0])
        yield Send("backward", stage.place, stage.place - 1, size, True, stage.receives)
    sizes = dict(_held(placed))
    for name, places in stage.holders.items():
        others = [place for place in places if place != stage.place]
        yield from (Send("shared", stage.place, to, sizes[name], False, name) for to in others)


def local_size(graph: Graph, value: Value) -> Dim:
    """The elements of a rank's part of a value."""
    shape = tuple(map(graph.sizes.expand, graph.types[value].shape))
    return local_elements(shape, graph.placements.get(value, {}))


def _held(placed: IRProgram) -> Iterator[tuple[str, Dim]]:
    """The parameters and inputs of a stage, with a rank's number of elements."""
    for path, param, graph, symbols in param_specs(placed):
        shape = tuple(graph.sizes.expand(dim).substitute(symbols) for dim in param.type.shape)
        yield path, local_elements(shape, graph.placements.get(param.value, {}))
    for value in placed.main.inputs:
        yield str(value.name), local_size(placed.main, value)


Way = Literal["naive", "ring"]
WAYS: Final[tuple[Way, ...]] = ("naive", "ring")


@dataclass(frozen=True, slots=True)
class Sent:
    """Collectives of one kind over one axis in one pass; `payload` is the V of all `calls`.

    `each` is the payload of one call, None for a sum of several collectives. `of` says whose they
    are: one collective's name, or nothing for a sum of several; `step` is where one is called.
    Elements are those of one rank; `bytes_each` is the width of an element. `once` says that all
    microbatches of a step share it.
    """

    direction: Pass
    kind: str
    over: str
    payload: Dim
    calls: Dim
    bytes_each: int
    each: Dim | None = None
    of: str = ""
    line: int | None = None
    key: str = ""
    step: Apply | None = None
    once: bool = False

    @property
    def glyph(self) -> str:
        """The name of the collective in tables and figures."""
        return COLLECTIVES[self.kind].glyph

    @property
    def block(self) -> str:
        """The name of the block that sends it."""
        return self.key.partition("(")[0].strip()

    def elements(self, way: Way) -> Dim:
        """The elements that a rank sends in all calls."""
        return self.payload * factor(self.kind, self.over, way)

    def bytes(self, way: Way) -> Dim:
        """The same in bytes."""
        return self.elements(way) * self.bytes_each

    def formula(self, way: Way) -> str:
        """`elements` as people write it: ``2*(N_T - 1)/N_T*B*D*S``."""
        return _times(spell_factor(self.kind, self.over, way), self.payload)

    def inside(self, symbols: Symbols, count: Dim = ONE) -> Sent:
        """The same in the sizes of a call's caller, `count` times."""
        payload, calls = (dim.substitute(symbols) * count for dim in (self.payload, self.calls))
        each = self.each and self.each.substitute(symbols)
        return replace(self, payload=payload, calls=calls, each=each)

    @property
    def hops(self) -> Dim:
        """Messages that follow one another around the ring, in all calls."""
        price = price_of(self.kind)
        if price.route != "group":
            return self.calls
        return self.calls * (ranks_over(self.over) - 1) * price.times


def price_of(kind: str) -> Price:
    """Return what a rank sends in a collective of a kind."""
    price = COLLECTIVES[kind].price
    assert price is not None
    return price


def share(kind: str, way: Way) -> tuple[int, bool]:
    """How often an element goes to each other rank, and whether a rank sends its Nth part of all.

    Every formula and every figure that prices a collective is made of these two.
    """
    price = price_of(kind)
    return price.times, way == "ring" or not price.through_one_rank


def factor(kind: str, over: str, way: Way) -> Dim:
    """How often a rank sends an element of the payload."""
    if price_of(kind).route == "peer":
        return ONE
    times, divided = share(kind, way)
    ranks = ranks_over(over)
    return (ONE - ONE / ranks if divided else ranks - 1) * times


def spell_factor(kind: str, over: str, way: Way) -> str:
    """`factor` as people write it: ``2*(N_T - 1)/N_T``; nothing for 1."""
    if price_of(kind).route == "peer":
        return ""
    times, divided = share(kind, way)
    below = f"({over})" if len(axes_over(over)) > 1 else over
    others = f"{times}*({over} - 1)" if times > 1 else f"({over} - 1)"
    return f"{others}/{below}" if divided else others


def sent(placed: IRProgram | None, dtype: str) -> tuple[Sent, ...]:
    """Every collective of a placed program, floats being of `dtype`; none of a single device's."""
    if placed is None:
        return ()
    collectives = (_price_sending(each, placed, BYTES[dtype]) for each in traffic(placed))
    stage = placed.stage
    if stage is None:
        return tuple(collectives)
    moved = (
        Sent(
            each.direction,
            send.COLLECTIVE.name,
            stage.axis,
            each.payload,
            ONE,
            BYTES[dtype],
            each.payload,
            each.name,
            once=not each.repeats,
        )
        for each in sends(placed)
    )
    return (*collectives, *moved)


def inside_of(placed: IRProgram, key: str, dtype: str) -> tuple[Sent, ...]:
    """The communication of one call of a block, with all that it calls, in that block's sizes."""
    return sent(replace(placed, entry=key, stage=None), dtype)


def _price_sending(sending: Sending, placed: IRProgram, float_bytes: int) -> Sent:
    types = placed.graphs[sending.key].types
    type_ = types.get(sending.step.inputs[0])  # a cotangent is none of the forward pass's values
    width = float_bytes if type_ is None or type_.is_float else BYTES["int"]
    return Sent(
        sending.direction,
        sending.kind,
        sending.over,
        sending.elements,
        sending.calls,
        width,
        sending.each,
        sending.name or "",
        sending.line,
        sending.key,
        sending.step,
        _is_once(sending, placed),
    )


def _is_once(sending: Sending, placed: IRProgram) -> bool:
    """Whether it gathers a parameter that is held, or sums a gradient that waits for others."""
    graph, step = placed.graphs[sending.key], sending.step
    record = COLLECTIVES[sending.kind]
    if record.gathers:
        return graph.memory.get(str(step.inputs[0].name)) == "hold"
    backward = placed.backwards.get(sending.key)
    gradients = backward.gradients.items() if backward else ()
    params = set(graph.param_values())
    of = next((v for v, each in gradients if each == step.outputs[0] and v in params), None)
    held = of is not None and graph.memory.get(str(of.name)) == "hold"
    return held or (of is not None and record.sums and not record.cuts)


def sum_by_kind(parts: Iterable[Sent]) -> tuple[Sent, ...]:
    """The sums by pass, kind, axis and width, in the order in which they first occur."""
    sums: dict[tuple[Pass, str, str, int], Sent] = {}
    for part in parts:
        key = (part.direction, part.kind, part.over, part.bytes_each)
        earlier = sums.get(key)
        payload = part.payload + (earlier.payload if earlier else ZERO)
        calls = part.calls + (earlier.calls if earlier else ZERO)
        sums[key] = Sent(*key[:3], payload, calls, part.bytes_each)
    return tuple(sums.values())


def total(parts: Iterable[Sent], way: Way) -> Dim:
    """The elements that a rank sends."""
    return sum((part.elements(way) for part in parts), ZERO)


def total_bytes(parts: Iterable[Sent], way: Way = "ring") -> Dim:
    """The bytes that a rank sends."""
    return sum((part.bytes(way) for part in parts), ZERO)


def total_formula(parts: Sequence[Sent], way: Way) -> str:
    """`total` with like factors taken out, 0 for nothing."""
    return " + ".join(_terms(parts, way)) or "0"


def _terms(parts: Sequence[Sent], way: Way) -> Iterator[str]:
    sums: dict[str, Dim] = {}
    for part in parts:
        spelled = spell_factor(part.kind, part.over, way)
        sums[spelled] = sums.get(spelled, ZERO) + part.payload
    for spelled, payload in sums.items():
        yield _times(spelled, payload)


def _times(factor: str, dim: Dim) -> str:
    """A factor, nothing for 1, times a size."""
    return f"{factor}{_product(dim)}" if factor else str(dim)


def _product(dim: Dim) -> str:
    if dim == ONE:
        return ""
    return f"*({dim})" if len(dim.terms) > 1 else f"*{dim}"
